"""`Notices`: a notifier, subscribers in other processes, and the fast paths to them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from bus.kernel.peer.relay import AUDIENCE
from bus.kernel.tasks.actions import Action, Post
from bus.kernel.tasks.runs import OutboundRun, pack_payload
from bus.kernel.wire import Batch, Run, encode
from bus.model.message import Incoming, Kind
from tests.simulate.dialogue import accounts_of, fast_path_to
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.tasks.routing_table import Entry
    from tests.simulate.process import SimTask

__all__ = ["Delivery", "Notices"]


class Notices:
    """A notifier in process ``s2``, and subscribers in the processes of ``where``.

    near: the process of the notifier. far: the one of the first subscriber.
    """

    def __init__(self, *where: str, **world: Any) -> None:
        self.stage = Stage(**world)
        self.notifier = self.stage.task("news", "s2")
        self.near = self.notifier.process
        self.subscribers = [
            self.stage.task(f"reader/{at}", process)
            for at, process in enumerate(where or ("s3",))
        ]
        for each in self.subscribers:
            each.process.subscribe(each, "news")
        self.stage.soon()
        # The first notification takes the normal path, which introduces the notifier.
        self.near.notify(self.notifier)
        self.stage.soon()
        self.stage.forget()
        self.far = self.subscribers[0].process
        self.to = self.near.remote.topology.peers[self.far.key]
        self.by = self.far.remote.topology.peers[self.near.key]

    @property
    def source(self) -> Entry:
        return self.notifier.entry

    def outbound_run(self, payload: Any = 7) -> OutboundRun:
        flags, body = pack_payload(payload)
        turn = next(self.near.remote.outbound_messages.turns)
        return OutboundRun(
            Kind.NOTIFICATION,
            self.source,
            self.source.relay,
            0,
            flags,
            turn,
            None,
            (body,),
            len(body),
        )

    def send(self, payload: Any = 7) -> bytes:
        """Account for a notification to the first subscriber; return its frame."""
        outbound_run = self.outbound_run(payload)
        way = fast_path_to(self.near, self.far)
        assert way.may_notify(self.source, outbound_run.size)
        frame = way.notification(outbound_run)
        assert isinstance(frame, bytes)
        return frame

    def command(self, task: SimTask, to: str, count: int = 1) -> None:
        self.stage.send(task, to, count)

    def accounts(self) -> list[dict[str, Any]]:
        """Return what both processes know of one another."""
        return [accounts_of(self.near, self.far), accounts_of(self.far, self.near)]

    def received(self, number: int) -> list[int]:
        """Return how often each subscriber has received a notification."""
        counters = self.stage.world.counters.received
        return [counters.get((number, each.id), 0) for each in self.subscribers]


class Delivery(Notices):
    """A notification as it arrives at the process of the first subscriber."""

    def __init__(self, *where: str, **world: Any) -> None:
        super().__init__(*where, **world)
        self.way = fast_path_to(self.far, self.near)

    @property
    def relay(self) -> Relay:
        return self.by.relays[self.source.relay]

    @property
    def peer(self) -> Peer:
        return self.by

    def frame(self, *, ahead: int = 0, **changes: Any) -> bytes:
        session = self.to.session
        fields: dict[str, Any] = {
            "to": AUDIENCE,
            "source": self.source.relay,
            "kind": Kind.NOTIFICATION,
            "flags": 0,
            "id": 0,
            "milliseconds_left": 0xFFFFFFFF,
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

    def come(self, frame: bytes, *, tasks_only: bool = False) -> list[Incoming]:
        """Return the messages for the subscribers; none if the frame is refused."""
        todo, now = deque[Action](), self.stage.world.now
        received = self.way.receive(frame, now, todo, tasks_only=tasks_only)
        assert received is bool(todo)
        messages = []
        for action in todo:
            assert isinstance(action, Post)
            [message] = action.messages
            assert isinstance(message, Incoming)
            assert message._to is action.entry
            messages.append(message)
        return messages
