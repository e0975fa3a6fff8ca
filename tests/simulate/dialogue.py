"""`Dialogue`: a task that asks, one that answers, and their fast path."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from bus.kernel.fast_path import FastPath
from bus.kernel.tasks.actions import Action, Answer, Post
from bus.kernel.wire import Batch, Run, decode, encode
from bus.model.message import Incoming, Kind
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from tests.simulate.counters import Command
    from tests.simulate.process import SimProcess

__all__ = [
    "Arrival",
    "Dialogue",
    "RoundTrips",
    "accounts_of",
    "decoded",
    "fast_path_to",
]


class Dialogue:
    """A task that asks, one that answers, and the fast path between their processes."""

    def __init__(self, *, asker: str = "s1", **world: Any) -> None:
        self.stage = Stage(**world)
        self.asker = self.stage.task("asker", asker)
        self.answerer = self.stage.task("answerer", "s2")
        self.stage.soon()
        # The first question takes the normal path, which introduces the tasks.
        self.ask()
        self.stage.soon()
        self.near, self.far = self.asker.process, self.answerer.process
        self.short = fast_path_to(self.near, self.far)

    def ask(self) -> Command:
        (command,) = self.stage.send(self.asker, "answerer", asks=True)
        return command

    def decide(self) -> None:
        """Mark a decision, so that the fast path checks its conditions again."""
        self.near.manager.revision += 1

    def answer_kept(self) -> None:
        """Answer the questions that the task has left for later."""

        def answer() -> list[Any]:
            kept, self.answerer.kept = self.answerer.kept, []
            for each in kept:
                self.far.answer(each)
            return []

        self.far.event(answer)

    def question(self, number: int = 0, **changes: Any) -> Incoming:
        """Return a question as `Exchange` makes it, with its addressee found."""
        number = number or self.stage.world.number()
        entry = self.near.manager.table.find("answerer")
        fields: dict[str, Any] = {
            "kind": Kind.COMMAND,
            "payload": number,
            "wants_reply": True,
            "_source": self.asker.entry,
            "_id": number,
            "_name": "answerer",
            "_to": entry,
        }
        return Incoming(**fields | changes)


def fast_path_to(process: SimProcess, other: SimProcess) -> FastPath:
    peer = process.remote.topology.peers[other.key]
    assert peer.session.link is not None
    return FastPath(process.remote, peer, peer.session.link)


def accounts_of(process: SimProcess, other: SimProcess) -> dict[str, Any]:
    """Return the accounts that a process has of another one."""
    peer: Peer = process.remote.topology.peers[other.key]
    session = peer.session
    return {
        "next": session.outgoing.next,
        "outstanding": len(session.outgoing),
        "received": session.acks.received,
        "extracted": dict(session.acks.extracted),
        "relays": {
            number: (
                relay.counters.posted,
                relay.counters.taken,
                relay.counters.ended,
                relay.queued,
                relay.under_way,
                relay.unacked_bytes,
                len(relay.asked),
                len(relay.users),
            )
            for number, relay in peer.relays.items()
        },
        "audience": (
            peer.notifications.posted,
            peer.notifications.taken,
            peer.audience.queued,
            peer.audience.under_way,
            peer.audience.unacked_bytes,
            len(peer.audience.unacked),
        ),
        "gaps": {number: relay.gap for number, relay in peer.relays.items()},
        "todo": list(process.remote.topology.todo),
        "outbox": list(session._outbox),
    }


class Arrival(Dialogue):
    """A question of the asker as it arrives at the other process."""

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.peer = self.far.remote.topology.peers[self.near.key]
        self.short = fast_path_to(self.far, self.near)
        self.asked = self.question()._to.mailbox  # relay in the asker's process

    def frame(self, *, ahead: int = 0, **changes: Any) -> bytes:
        session = self.near.remote.topology.peers[self.far.key].session
        fields: dict[str, Any] = {
            "to": self.asked.number,
            "source": self.asker.entry.relay,
            "kind": Kind.COMMAND,
            "flags": 1,
            "id": 7,
            "milliseconds_left": 1000,
            "hop": 0,
            "bodies": (b"\x07",),
        }
        first = session.outgoing.next + ahead
        batch = Batch(
            changes.pop("epoch", session.epoch),
            changes.pop("incarnation", session.incarnation),
            min(session.outgoing.floor, first),
            first,
            [Run(**fields | changes)],
        )
        return encode(batch)

    def come(self, frame: bytes, *, tasks_only: bool = False) -> Post | Answer | None:
        todo, now = deque[Action](), self.stage.world.now
        received = self.short.receive(frame, now, todo, tasks_only=tasks_only)
        assert received is bool(todo)
        if not todo:
            return None
        (action,) = todo
        assert isinstance(action, (Post, Answer))
        return action


class RoundTrips(Dialogue):
    """Both ends of the fast path, whose frames carry acknowledgements."""

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.answer_kept()
        self.stage.soon()
        self.back = fast_path_to(self.far, self.near)
        self.asking = self.near.remote.topology.peers[self.far.key].session
        self.answering = self.far.remote.topology.peers[self.near.key].session
        self.relay: Relay = self.question()._to.mailbox

    def ask_now(self) -> tuple[Incoming, bytes]:
        question = self.question()
        frame = self.short.command(question, self.stage.world.now)
        assert isinstance(frame, bytes)
        return question, frame

    def receive(self, frame: bytes) -> Incoming:
        """Let the answerer receive a question."""
        todo = deque[Action]()
        assert self.back.receive(frame, self.stage.world.now, todo)
        (action,) = todo
        assert isinstance(action, Post)
        (message,) = action.messages
        assert isinstance(message, Incoming)
        return message

    def take(self, frame: bytes) -> Incoming:
        """Let the answerer receive a question and extract it."""
        message, now = self.receive(frame), self.stage.world.now
        taken = (message._receipt, message._number, 1, message._size)
        self.far.remote.inbound_messages.on_extracted([taken], now)
        return message

    def answer_now(self, question: Incoming) -> bytes:
        frame = self.back.answer(question, 7)
        assert isinstance(frame, bytes)
        return frame

    def by_a_round(self, frame: bytes) -> list[Action]:
        """Receive a frame by the normal path; return the actions."""
        now = self.stage.world.now
        return self.near.remote.receive(self.short.link, decoded(frame), now)

    def comes_back(self, frame: bytes) -> bool:
        """Whether the asker receives a frame by the fast path."""
        return self.short.receive(frame, self.stage.world.now, deque())


def decoded(frame: bytes) -> Batch:
    batch = decode(frame)
    assert isinstance(batch, Batch)
    return batch
