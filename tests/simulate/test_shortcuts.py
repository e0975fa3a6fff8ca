"""`Shortcut`: what goes past the books is, once entered, what it would have been."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bus.core.actions import Action, Post, Reply
from bus.core.relay import Relay, RelayState
from bus.core.shortcut import Shortcut
from bus.core.wire import (
    FAILED,
    NO_DEADLINE,
    Batch,
    Gap,
    Run,
    decode,
    encode,
    encode_lone,
)
from bus.message import Incoming, Kind
from bus.rights import Rights
from specs.clauses import clause
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.peer import Peer
    from tests.simulate.books import Letter
    from tests.simulate.process import SimProcess


class Dialogue:
    """A task that asks, one that answers, and the short way between their processes."""

    def __init__(self, *, asker: str = "s1", **world: Any) -> None:
        self.stage = Stage(**world)
        self.asker = self.stage.task("asker", asker)
        self.answerer = self.stage.task("answerer", "s2")
        self.stage.soon()
        # A first question, by the long way: from then on they know one another.
        self.ask()
        self.stage.soon()
        self.near, self.far = self.asker.process, self.answerer.process
        self.short = _shortcut(self.near, self.far)

    def ask(self) -> Letter:
        (letter,) = self.stage.send(self.asker, "answerer", asks=True)
        return letter

    def answer_kept(self) -> None:
        """Let be answered what the task has left for later."""

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


def _shortcut(process: SimProcess, other: SimProcess) -> Shortcut:
    peer = process.remote.neighbours.peers[other.key]
    assert peer.session.link is not None
    return Shortcut(process.remote, peer, peer.session.link)


def _books(process: SimProcess, other: SimProcess) -> dict[str, Any]:
    """Return what a process has in its books of another one."""
    peer: Peer = process.remote.neighbours.peers[other.key]
    session = peer.session
    return {
        "next": session.outgoing.next,
        "outstanding": len(session.outgoing),
        "came": session._received,
        "extracted": dict(session.extracted),
        "relays": {
            number: (
                relay.books.posted,
                relay.books.taken,
                relay.books.ended,
                relay.queued,
                relay.under_way,
                relay.unacked_bytes,
                len(relay.asked),
                len(relay.users),
            )
            for number, relay in peer.relays.items()
        },
        "todo": list(process.remote.neighbours.todo),
        "outbox": list(session._outbox),
    }


@clause("BUS-CHAN-7")
def test_books_are_in_the_end_as_if_all_had_gone_by_them() -> None:
    """Two worlds that say the same, one past the books wherever that may be."""
    ends = []
    for shortcuts in (0.0, 1.0):
        talk = Dialogue(shortcuts=shortcuts)
        letters = []
        for _ in range(40):
            letters.append(talk.ask())
            talk.stage.soon(0.1)
        talk.answer_kept()
        talk.stage.soon()
        assert [each.answers for each in letters] == [1] * 40
        assert bool(talk.stage.world.went_short) is bool(shortcuts)
        ends.append((_books(talk.near, talk.far), _books(talk.far, talk.near)))

    assert ends[0] == ends[1]


@clause("AMO-7")
@pytest.mark.parametrize("seed", range(30))
def test_each_question_has_one_end_whatever_becomes_of_the_link(seed: int) -> None:
    """Though links are cut, and who puts a message on one is struck."""
    talk = Dialogue(shortcuts=0.9, struck=0.1)
    random, letters = Random(seed), []
    for _ in range(60):
        letters.append(talk.ask())
        talk.stage.soon(random.choice((0.0, 0.001, 0.01)))
        if random.random() < 0.05:
            talk.stage.cut("s1", "s2")
        if random.random() < 0.1:
            talk.stage.send(talk.asker, "answerer")
        if random.random() < 0.1:
            talk.answer_kept()
    talk.stage.soon(60.0)
    talk.answer_kept()
    talk.stage.soon(60.0)

    assert talk.stage.world.went_short
    assert [each.answers for each in letters] == [1] * len(letters)
    talk.stage.world.checks.rest()


def _second_question(talk: Dialogue) -> None:
    assert talk.short.ask(talk.question(), talk.stage.world.now) is not None


def _other_things_to_say(talk: Dialogue) -> None:
    talk.short.peer.session.tell(Gap(relay=talk.asker.entry.relay, count=1))


def _something_queued(talk: Dialogue) -> None:
    talk.short.peer.session.hold()
    talk.near.remote.post(
        talk.question()._to, [talk.question(wants_reply=False, payload=b"x")]
    )
    talk.short.peer.session._held = None


def _new_link(talk: Dialogue) -> None:
    talk.stage.cut("s1", "s2")
    talk.stage.soon()


def _no_link(talk: Dialogue) -> None:
    talk.stage.cut("s1", "s2")
    talk.stage.soon(0.11)


def _full_window(talk: Dialogue) -> None:
    relay = talk.question()._to.box
    relay.under_way = relay.limits.window


def _full_bytes(talk: Dialogue) -> None:
    relay = talk.question()._to.box
    relay.unacked_bytes = relay.limits.window_bytes


def _asker_leaves(talk: Dialogue) -> None:
    talk.near.deregister(talk.asker)


def _asker_is_leaving(talk: Dialogue) -> None:
    """It is found no more; its thread has not emptied it yet."""
    talk.near.manager.leave(talk.asker.entry, final=False)
    talk.near.remote.flush(talk.stage.world.now)  # as it says so, it may not send


def _superseded(talk: Dialogue) -> None:
    talk.question()._to.box.state = RelayState.SUPERSEDED


def _on_hold(talk: Dialogue) -> None:
    talk.short.peer.session.hold()


@clause("BUS-MSG-15", "BUS-ROUTE-3")
@pytest.mark.parametrize(
    "so",
    [
        _other_things_to_say,
        _something_queued,
        _new_link,
        _no_link,
        _full_window,
        _full_bytes,
        _asker_leaves,
        _asker_is_leaving,
        _on_hold,
        _superseded,
    ],
)
def test_nothing_goes_past_the_books_that_could_overtake(
    so: Callable[[Dialogue], None],
) -> None:
    talk = Dialogue()
    question = talk.question()
    so(talk)

    assert talk.short.ask(question, talk.stage.world.now) is None
    assert len(talk.short) == 0


@clause("BUS-MSG-15")
@pytest.mark.parametrize("so", [_other_things_to_say, _full_window, _superseded])
def test_what_was_decided_since_the_last_question_is_noticed(
    so: Callable[[Dialogue], None],
) -> None:
    """What was looked at is remembered until anything is decided."""
    talk = Dialogue()
    assert talk.short.ask(talk.question(), talk.stage.world.now) is not None
    talk.short.enter(talk.stage.world.now)
    so(talk)

    assert talk.short.ask(talk.question(), talk.stage.world.now) is None


@clause("BUS-MSG-15")
def test_that_it_was_looked_at_is_forgotten_though_nothing_went() -> None:
    talk = Dialogue()
    too_long = talk.question(payload=bytes(2**16 + 1))
    assert talk.short.ask(too_long, talk.stage.world.now) is None
    talk.short.enter(talk.stage.world.now)
    _superseded(talk)

    assert talk.short.ask(talk.question(), talk.stage.world.now) is None


def test_each_task_has_leave_of_its_own() -> None:
    """Who was looked at last says nothing of another one, or of an answer."""
    talk = Dialogue()
    assert talk.short.ask(talk.question(), talk.stage.world.now) is not None
    new = talk.stage.task("new", "s1")

    question = talk.question(_source=new.entry)

    assert talk.short.ask(question, talk.stage.world.now) is None


def test_what_may_go_past_the_books_does() -> None:
    """So what others refuse here would not be refused otherwise."""
    talk = Dialogue()

    assert talk.short.ask(talk.question(), talk.stage.world.now) is not None
    assert len(talk.short) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"wants_reply": False},
        {"_trace": object()},
        {"payload": bytes(2**16 + 1)},
    ],
)
def test_only_a_short_question_that_is_not_recorded_goes_past_the_books(
    changes: dict[str, Any],
) -> None:
    talk = Dialogue()

    assert talk.short.ask(talk.question(**changes), talk.stage.world.now) is None
    assert len(talk.short) == 0


@clause("BUS-MSG-15")
def test_a_task_that_is_not_known_there_is_told_of_first() -> None:
    talk = Dialogue()
    new = talk.stage.task("new", "s1")
    talk.stage.soon()

    question = talk.question(_source=new.entry)

    assert talk.short.ask(question, talk.stage.world.now) is None


def test_so_many_are_not_entered_that_it_takes_no_time() -> None:
    talk = Dialogue(window=10_000, stream_window=10_000)
    went = 0
    while talk.short.ask(talk.question(), talk.stage.world.now) is not None:
        went += 1

    assert went == len(talk.short) == 256


# What comes.


class Arrival(Dialogue):
    """A question of the asker as it comes to the other process."""

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.peer = self.far.remote.neighbours.peers[self.near.key]
        self.short = _shortcut(self.far, self.near)
        self.asked = self.question()._to.box  # the near one's relay

    def frame(self, *, ahead: int = 0, **changes: Any) -> bytes:
        session = self.near.remote.neighbours.peers[self.far.key].session
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

    def come(self, frame: bytes, *, answers_only: bool = False) -> Post | Reply | None:
        todo, now = deque[Action](), self.stage.world.now
        came = self.short.came(frame, now, todo, answers_only=answers_only)
        assert came is bool(todo)
        if not todo:
            return None
        (action,) = todo
        assert isinstance(action, (Post, Reply))
        return action


@clause("AMO-7")
def test_what_comes_past_the_books_is_what_they_would_have_said() -> None:
    talk, other = Arrival(), Arrival()

    short = talk.come(talk.frame())
    (long,) = other.far.remote.receive(
        other.short.link, _decoded(other.frame()), other.stage.world.now
    )

    assert isinstance(short, Post)
    assert isinstance(long, Post)
    (one,), (two,) = short.messages, long.messages
    assert isinstance(one, Incoming)
    assert isinstance(two, Incoming)
    for field in ("kind", "payload", "_size", "_number", "_id", "wants_reply"):
        assert getattr(one, field) == getattr(two, field), field
    assert one._deadline == two._deadline
    assert one._receipt.relay == two._receipt.relay
    assert (one._to.name, one._source.name) == (two._to.name, two._source.name)


@clause("AMO-7")
def test_what_came_is_not_taken_again() -> None:
    talk = Arrival()
    frame = talk.frame()
    assert talk.come(frame) is not None

    assert talk.come(frame) is None
    talk.short.enter(talk.stage.world.now)
    assert talk.come(frame) is None
    assert (
        talk.far.remote.receive(talk.short.link, _decoded(frame), talk.stage.world.now)
        == []
    )


def test_what_follows_it_is_taken_before_it_is_entered() -> None:
    talk = Arrival()

    assert talk.come(talk.frame()) is not None
    assert talk.come(talk.frame(ahead=1)) is not None
    talk.short.enter(talk.stage.world.now)

    came = talk.peer.session._received.next
    assert (
        came
        == talk.near.remote.neighbours.peers[talk.far.key].session.outgoing.next + 2
    )


@clause("BUS-CHAN-7")
def test_what_is_to_be_done_is_not_done_again_by_what_is_entered() -> None:
    """Commands of a frame join what is to be done for the same task."""
    talk = Arrival()
    assert talk.come(talk.frame()) is not None
    todo, post = talk.far.remote.neighbours.todo, Post(talk.answerer.entry, [])
    todo.append(post)

    talk.short.enter(talk.stage.world.now)

    assert todo == [post]
    assert post.messages == []
    todo.clear()


@clause("BUS-FLOW-5")
def test_an_answer_that_was_there_before_a_question_is_not_of_it() -> None:
    """It is late; as if it were for what is under way, it would be kept for good."""
    talk = Dialogue()
    talk.answer_kept()
    talk.stage.soon()
    relay: Relay = talk.question()._to.box
    assert not relay.unacked
    session, far = talk.short.peer.session, talk.far.remote.neighbours
    their = far.peers[talk.near.key].session
    late = encode_lone(
        their.epoch,
        their.incarnation,
        their.outgoing.floor,
        their.outgoing.next,
        talk.asker.entry.relay,
        talk.answerer.entry.relay,
        Kind.COMMAND_RESPONSE,
        0,
        12345,
        NO_DEADLINE,
        b"\x07",
    )
    assert talk.short.came(late, talk.stage.world.now, deque())
    question = talk.question()
    assert talk.short.ask(question, talk.stage.world.now) is not None

    talk.short.enter(talk.stage.world.now)

    assert session._received.next == their.outgoing.next + 1
    assert relay._unanswered == {(talk.asker.entry, question._id)}


@clause("AMO-7", "BUS-CHAN-7")
@pytest.mark.parametrize("at_once", [True, False])
def test_many_that_are_entered_as_one_are_each_in_the_books(*, at_once: bool) -> None:
    """As they are if each is entered by itself."""
    talk = Arrival()
    before = _books(talk.far, talk.near)
    for ahead in range(3):
        action = talk.come(talk.frame(ahead=ahead, id=ahead))
        assert isinstance(action, Post)
        (question,) = action.messages
        assert isinstance(question, Incoming)
        assert talk.short.answer(question, ahead) is not None
        if not at_once:
            talk.short.enter(talk.stage.world.now)
    talk.short.enter(talk.stage.world.now)

    assert isinstance(question, Incoming)
    books = _books(talk.far, talk.near)
    number = question._source.box.number
    assert books["next"] == before["next"] + 3
    assert books["came"].next == before["came"].next + 3
    assert books["relays"][number][0] == before["relays"][number][0] + 3  # posted
    assert books["relays"][number][4] == before["relays"][number][4] + 3  # under way
    assert books["outbox"] == books["todo"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"ahead": 1},
        {"ahead": -1},
        {"epoch": 1},
        {"incarnation": 1},
        {"to": 12345},
        {"source": 12345},
        {"mid": 5},
        {"kind": Kind.NOTIFICATION},
        {"kind": Kind.NOTIFICATION_RESPONSE},
        {"kind": Kind.COMMAND_RESPONSE, "flags": FAILED},
        {"bodies": (b"\xc1",)},
    ],
)
def test_what_is_not_plain_is_left_to_the_books(changes: dict[str, Any]) -> None:
    talk = Arrival()

    assert talk.come(talk.frame(**changes)) is None
    assert len(talk.short) == 0


@clause("QB-ERR-9")
def test_of_answers_and_commands_the_answers_may_be_taken_alone() -> None:
    talk = Arrival()

    assert talk.come(talk.frame(), answers_only=True) is None
    assert len(talk.short) == 0
    answer = talk.frame(kind=Kind.COMMAND_RESPONSE, flags=0)
    assert isinstance(talk.come(answer, answers_only=True), Reply)


@clause("BUS-SEC-1")
def test_what_a_guest_sends_is_left_to_the_books() -> None:
    """They look at what it may."""
    talk = Arrival(
        asker="s3", guests={"s3"}, rights=lambda _who, _by: Rights(subscribe=())
    )

    assert talk.come(talk.frame()) is None


def test_what_comes_by_an_old_link_is_left_to_the_books() -> None:
    talk = Arrival()
    talk.stage.cut("s1", "s2")
    talk.stage.soon()

    assert talk.come(talk.frame()) is None


def test_an_answer_to_a_notification_is_not_given_past_the_books() -> None:
    talk = Arrival()
    message = talk.come(talk.frame())
    assert isinstance(message, Post)
    (question,) = message.messages
    assert isinstance(question, Incoming)
    talk.short.enter(talk.stage.world.now)
    question.kind = Kind.NOTIFICATION

    assert talk.short.answer(question, 7) is None
    question.kind = Kind.COMMAND
    assert talk.short.answer(question, 7) is not None


def test_who_has_left_gives_no_answer_past_the_books() -> None:
    talk = Arrival()
    message = talk.come(talk.frame())
    assert isinstance(message, Post)
    (question,) = message.messages
    assert isinstance(question, Incoming)
    talk.short.enter(talk.stage.world.now)
    talk.far.deregister(talk.answerer)

    assert talk.short.answer(question, 7) is None


def _decoded(frame: bytes) -> Batch:
    batch = decode(frame)
    assert isinstance(batch, Batch)
    return batch
