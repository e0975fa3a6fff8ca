"""`FastPath`: the fast path leaves the same accounts as the normal path, at once."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import bus
from bus.core.local.actions import Action, Post, Reply
from bus.core.peer.relay import Relay, RelayState
from bus.core.remote.fast_path import FastPath
from bus.core.streams.incoming_stream import Acknowledgement
from bus.core.wire import (
    FAILED,
    NO_DEADLINE,
    Batch,
    Gap,
    Run,
    decode,
    encode,
    encode_single,
)
from bus.errors import WireError
from bus.message import Incoming, Kind
from bus.rights import Rights
from specs.clauses import clause
from tests.simulate.stage import Stage
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.peer.peer import Peer
    from tests.simulate.counters import Letter
    from tests.simulate.process import SimProcess
    from tests.strikes import Blow


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
        self.short = _fast_path(self.near, self.far)

    def ask(self) -> Letter:
        (letter,) = self.stage.send(self.asker, "answerer", asks=True)
        return letter

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


def _fast_path(process: SimProcess, other: SimProcess) -> FastPath:
    peer = process.remote.topology.peers[other.key]
    assert peer.session.link is not None
    return FastPath(process.remote, peer, peer.session.link)


def _counters(process: SimProcess, other: SimProcess) -> dict[str, Any]:
    """Return the accounts that a process has of another one."""
    peer: Peer = process.remote.topology.peers[other.key]
    session = peer.session
    return {
        "next": session.outgoing.next,
        "outstanding": len(session.outgoing),
        "came": session._received,
        "extracted": dict(session.extracted),
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
        "todo": list(process.remote.topology.todo),
        "outbox": list(session._outbox),
    }


@clause("BUS-CHAN-7")
def test_the_fast_path_leaves_the_same_counters_as_rounds() -> None:
    """Two worlds send the same, one of them by the fast path where possible."""
    ends = []
    for fast_paths in (0.0, 1.0):
        talk = Dialogue(fast_paths=fast_paths)
        letters = []
        for _ in range(40):
            letters.append(talk.ask())
            talk.stage.soon(0.1)
        talk.answer_kept()
        talk.stage.soon()
        assert [each.answers for each in letters] == [1] * 40
        assert bool(talk.stage.world.went_short) is bool(fast_paths)
        ends.append((_counters(talk.near, talk.far), _counters(talk.far, talk.near)))

    assert ends[0] == ends[1]


@clause("AMO-7")
@pytest.mark.parametrize("seed", range(30))
def test_each_question_has_one_end_whatever_becomes_of_the_link(seed: int) -> None:
    """Though links are cut, and senders are interrupted on the fast path."""
    talk = Dialogue(fast_paths=0.9, interrupted=0.1)
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
    assert talk.short.command(talk.question(), talk.stage.world.now) is not None


def _other_things_to_say(talk: Dialogue) -> None:
    talk.short.peer.session.send_control(Gap(relay=talk.asker.entry.relay, count=1))


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
    relay = talk.question()._to.mailbox
    relay.under_way = relay.limits.window


def _full_bytes(talk: Dialogue) -> None:
    relay = talk.question()._to.mailbox
    relay.unacked_bytes = relay.limits.window_bytes


def _asker_leaves(talk: Dialogue) -> None:
    talk.near.deregister(talk.asker)


def _asker_is_leaving(talk: Dialogue) -> None:
    """It is not found any more, but its thread has not emptied its mailbox yet."""
    talk.near.manager.leave(talk.asker.entry, final=False)
    talk.near.remote.flush(talk.stage.world.now)  # withdraws the right to send


def _superseded(talk: Dialogue) -> None:
    talk.question()._to.mailbox.state = RelayState.SUPERSEDED


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
def test_nothing_goes_by_a_fast_path_that_could_overtake(
    so: Callable[[Dialogue], None],
) -> None:
    talk = Dialogue()
    question = talk.question()
    so(talk)
    before = _counters(talk.near, talk.far)

    assert talk.short.command(question, talk.stage.world.now) is None
    assert _counters(talk.near, talk.far) == before


@clause("BUS-MSG-15")
@pytest.mark.parametrize("so", [_other_things_to_say, _full_window, _superseded])
def test_a_decision_since_the_last_question_stops_the_fast_path(
    so: Callable[[Dialogue], None],
) -> None:
    """The conditions are remembered only until the next decision."""
    talk = Dialogue()
    assert talk.short.command(talk.question(), talk.stage.world.now) is not None
    so(talk)
    talk.decide()

    assert talk.short.command(talk.question(), talk.stage.world.now) is None


@clause("BUS-MSG-15")
def test_that_it_was_looked_at_is_forgotten_though_nothing_went() -> None:
    talk = Dialogue()
    too_long = talk.question(payload=bytes(2**16 + 1))
    assert talk.short.command(too_long, talk.stage.world.now) is None
    _superseded(talk)
    talk.decide()

    assert talk.short.command(talk.question(), talk.stage.world.now) is None


def test_each_task_has_leave_of_its_own() -> None:
    """The check of one task does not hold for another, or for an answer."""
    talk = Dialogue()
    assert talk.short.command(talk.question(), talk.stage.world.now) is not None
    new = talk.stage.task("new", "s1")

    question = talk.question(_source=new.entry)

    assert talk.short.command(question, talk.stage.world.now) is None


def test_an_eligible_command_takes_the_fast_path() -> None:
    """This shows that the refusals in other tests have their stated reason."""
    talk = Dialogue()
    before = _counters(talk.near, talk.far)

    assert talk.short.command(talk.question(), talk.stage.world.now) is not None
    assert _counters(talk.near, talk.far)["next"] == before["next"] + 1


@pytest.mark.parametrize(
    "changes",
    [
        {"_trace": object()},
        {"payload": bytes(2**16 + 1)},
    ],
)
def test_only_a_short_command_that_is_not_recorded_goes_by_a_fast_path(
    changes: dict[str, Any],
) -> None:
    talk = Dialogue()
    before = _counters(talk.near, talk.far)

    assert talk.short.command(talk.question(**changes), talk.stage.world.now) is None
    assert _counters(talk.near, talk.far) == before


@clause("BUS-MSG-15")
def test_a_task_that_the_peer_does_not_know_is_announced_first() -> None:
    talk = Dialogue()
    new = talk.stage.task("new", "s1")
    talk.stage.soon()

    question = talk.question(_source=new.entry)

    assert talk.short.command(question, talk.stage.world.now) is None


@clause("BUS-RELAY-11")
@pytest.mark.parametrize("window", [3, 8])
def test_no_more_go_by_a_fast_path_than_the_window_holds(window: int) -> None:
    talk = Dialogue(window=window)
    talk.answer_kept()
    talk.stage.soon()
    went = 0
    while talk.short.command(talk.question(), talk.stage.world.now) is not None:
        went += 1

    assert went == window


@clause("BUS-RELAY-11", "AMO-13")
def test_no_more_go_by_a_fast_path_than_the_stream_takes() -> None:
    talk = Dialogue(window=10_000, stream_window=7)
    talk.answer_kept()
    talk.stage.soon()
    went = 0
    while talk.short.command(talk.question(), talk.stage.world.now) is not None:
        went += 1

    assert went == 7


# Arrivals.


class Arrival(Dialogue):
    """A question of the asker as it arrives at the other process."""

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.peer = self.far.remote.topology.peers[self.near.key]
        self.short = _fast_path(self.far, self.near)
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

    def come(self, frame: bytes, *, answers_only: bool = False) -> Post | Reply | None:
        todo, now = deque[Action](), self.stage.world.now
        came = self.short.receive(frame, now, todo, answers_only=answers_only)
        assert came is bool(todo)
        if not todo:
            return None
        (action,) = todo
        assert isinstance(action, (Post, Reply))
        return action


@clause("AMO-7")
def test_a_fast_path_message_equals_the_message_that_a_round_reads() -> None:
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
def test_an_accepted_frame_is_not_accepted_again() -> None:
    talk = Arrival()
    frame = talk.frame()
    assert talk.come(frame) is not None

    assert talk.come(frame) is None
    assert talk.come(frame) is None
    assert (
        talk.far.remote.receive(talk.short.link, _decoded(frame), talk.stage.world.now)
        == []
    )


def test_the_frame_that_follows_an_accepted_frame_is_accepted() -> None:
    talk = Arrival()

    assert talk.come(talk.frame()) is not None
    assert talk.come(talk.frame(ahead=1)) is not None

    came = talk.peer.session._received.next
    assert (
        came == talk.near.remote.topology.peers[talk.far.key].session.outgoing.next + 2
    )


@clause("BUS-FLOW-5")
def test_an_answer_that_was_there_before_a_question_is_not_of_it() -> None:
    """It is late; taken for an answer to the new question, it would stay forever."""
    talk = Dialogue()
    talk.answer_kept()
    talk.stage.soon()
    relay: Relay = talk.question()._to.mailbox
    assert not relay.unacked
    session, far = talk.short.peer.session, talk.far.remote.topology
    their = far.peers[talk.near.key].session
    late = encode_single(
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
    assert talk.short.receive(late, talk.stage.world.now, deque())
    question = talk.question()
    assert talk.short.command(question, talk.stage.world.now) is not None

    assert session._received.next == their.outgoing.next + 1
    assert relay._unanswered == {(talk.asker.entry, question._id)}


@clause("AMO-7", "BUS-CHAN-7")
def test_each_message_is_in_the_accounts_at_once() -> None:
    talk = Arrival()
    before = _counters(talk.far, talk.near)
    for ahead in range(3):
        action = talk.come(talk.frame(ahead=ahead, id=ahead))
        assert isinstance(action, Post)
        (question,) = action.messages
        assert isinstance(question, Incoming)
        assert talk.short.answer(question, ahead) is not None
        counters = _counters(talk.far, talk.near)
        number = question._source.mailbox.number
        count = ahead + 1
        assert counters["next"] == before["next"] + count
        assert counters["came"].next == before["came"].next + count
        assert counters["relays"][number][0] == before["relays"][number][0] + count
        assert counters["relays"][number][4] == before["relays"][number][4] + count
        assert counters["outbox"] == counters["todo"] == []


class RoundTrips(Dialogue):
    """Both ends of the fast path, whose frames carry acknowledgements."""

    def __init__(self, **world: Any) -> None:
        super().__init__(**world)
        self.answer_kept()
        self.stage.soon()
        self.back = _fast_path(self.far, self.near)
        self.asking = self.near.remote.topology.peers[self.far.key].session
        self.answering = self.far.remote.topology.peers[self.near.key].session
        self.relay: Relay = self.question()._to.mailbox

    def ask_now(self) -> tuple[Incoming, bytes]:
        question = self.question()
        frame = self.short.command(question, self.stage.world.now)
        assert frame is not None
        return question, frame

    def take(self, frame: bytes) -> Incoming:
        """Let the answerer receive a question and extract it."""
        todo, now = deque[Action](), self.stage.world.now
        assert self.back.receive(frame, now, todo)
        (action,) = todo
        assert isinstance(action, Post)
        (message,) = action.messages
        assert isinstance(message, Incoming)
        taken = (message._receipt, message._number, 1, message._size)
        self.far.remote.on_extracted([taken], now)
        return message

    def answer_now(self, question: Incoming) -> bytes:
        frame = self.back.answer(question, 7)
        assert frame is not None
        return frame

    def by_a_round(self, frame: bytes) -> list[Action]:
        """Receive a frame by the normal path; return the actions."""
        now = self.stage.world.now
        return self.near.remote.receive(self.short.link, _decoded(frame), now)

    def comes_back(self, frame: bytes) -> bool:
        """Whether the asker receives a frame by the fast path."""
        return self.short.receive(frame, self.stage.world.now, deque())


@clause("BUS-RELAY-9", "AMO-23", "BUS-FLOW-7")
def test_each_message_acknowledges_the_one_before_it() -> None:
    talk = RoundTrips()
    relay, counters = talk.relay, talk.relay.counters
    posted = counters.posted
    for number in range(1, 4):
        _, frame = talk.ask_now()
        assert (relay.under_way, counters.posted - posted) == (1, number)
        answer = talk.answer_now(talk.take(frame))
        assert talk.answering.ack_at is None

        assert talk.comes_back(answer)

        assert (relay.under_way, relay.unacked_bytes, len(relay.unacked)) == (0, 0, 0)
        assert (counters.posted, counters.taken) == (posted + number,) * 2
        assert counters.commands_taken == counters.taken
        assert not relay.asked
        assert not relay._unanswered
        assert len(talk.asking.outgoing) == 0
        assert talk.asking.outgoing.floor == talk.asking.outgoing.next
        assert talk.asking.ack_at is not None  # for the answer
    talk.ask_now()
    assert talk.asking.ack_at is None
    talk.stage.soon()
    for process in (talk.near, talk.far):
        for peer in process.remote.topology.peers.values():
            assert peer.counters.posted == peer.counters.ended + sum(
                [each.present for each in peer.all_relays()]
            )


@clause("BUS-RELAY-9")
def test_that_a_question_came_says_not_that_it_was_taken() -> None:
    """An earlier question may be answered before the next one is extracted."""
    talk = RoundTrips()
    _, first = talk.ask_now()
    answered = talk.take(first)
    _, second = talk.ask_now()
    todo = deque[Action]()
    assert talk.back.receive(second, talk.stage.world.now, todo)

    # Two questions are under way, so the normal path reads the answer.
    answer = talk.answer_now(answered)
    assert not talk.comes_back(answer)
    talk.by_a_round(answer)

    assert talk.relay.under_way == 1
    assert len(talk.asking.outgoing) == 0
    assert talk.relay.counters.posted == talk.relay.counters.taken + 1


@clause("BUS-RELAY-9")
def test_a_question_that_is_taken_and_not_answered_is_asked() -> None:
    talk = RoundTrips()
    question, frame = talk.ask_now()
    message = talk.take(frame)
    # Any other answer acknowledges it as well.
    other = talk.back.answer(message, 1)
    assert other is not None
    late = decode(other)
    assert isinstance(late, Batch)
    [run] = late.runs
    unrelated = encode(replace(late, runs=[replace(run, id=question._id + 1)]))

    assert talk.comes_back(unrelated)

    assert list(talk.relay.asked) == [(talk.asker.entry, question._id)]
    assert talk.relay.was_asked(talk.asker.entry, question._id)


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_an_answer_acknowledges_the_commands_before_its_question() -> None:
    talk = RoundTrips()
    relay, counters = talk.relay, talk.relay.counters
    taken = counters.taken
    for _ in range(3):
        command = talk.question(wants_reply=False)
        frame = talk.short.command(command, talk.stage.world.now)
        assert frame is not None
        talk.take(frame)
    assert not relay._unanswered
    _, frame = talk.ask_now()
    answer = talk.answer_now(talk.take(frame))
    assert relay.under_way == 4

    assert talk.comes_back(answer)

    assert (relay.under_way, relay.unacked_bytes, len(relay.unacked)) == (0, 0, 0)
    assert counters.taken == taken + 4
    assert counters.commands_taken == counters.taken
    assert relay.peer.counters.taken == counters.taken
    assert not relay.asked
    assert not relay._unanswered


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_an_answer_that_acknowledges_only_some_messages_is_left_to_a_round() -> None:
    talk = RoundTrips()
    question, frame = talk.ask_now()
    message = talk.take(frame)
    talk.ask_now()
    answer = talk.answer_now(message)

    assert not talk.comes_back(answer)
    talk.by_a_round(answer)

    assert talk.relay.under_way == 1
    assert not talk.relay.was_asked(talk.asker.entry, question._id)


@clause("AMO-23", "BUS-WIRE-4")
def test_an_acknowledgement_of_an_unsent_message_is_rejected() -> None:
    talk = RoundTrips()
    _, frame = talk.ask_now()
    answer = decode(talk.answer_now(talk.take(frame)))
    assert isinstance(answer, Batch)
    wrong = encode(replace(answer, acknowledged=answer.acknowledged + 1))
    floor = talk.asking.outgoing.floor

    assert not talk.comes_back(wrong)
    assert talk.asking.outgoing.floor == floor
    with pytest.raises(WireError, match="acknowledged up to"):
        talk.asking.outgoing.acknowledge(Acknowledgement(answer.acknowledged + 2))


@clause("BUS-RELAY-11")
@pytest.mark.parametrize("arrived", [False, True])
def test_a_message_that_waits_for_room_is_sent_when_an_answer_makes_room(
    *, arrived: bool
) -> None:
    """The normal path puts it on the link.

    arrived: whether the peer has acknowledged the question before it is taken.
    """
    talk = RoundTrips(window=1)
    _, frame = talk.ask_now()
    answer = talk.answer_now(talk.take(frame))
    if arrived:
        talk.asking.outgoing.acknowledge_all()
    talk.near.remote.post(talk.question()._to, [talk.question()])
    assert talk.relay.queue

    assert not talk.comes_back(answer)
    talk.by_a_round(answer)

    assert not talk.relay.queue
    assert talk.relay.under_way == 1


@clause("BUS-RELAY-11", "AMO-13")
def test_an_answer_that_frees_numbers_for_waiting_messages_is_left_to_a_round() -> None:
    """Though the answering task has extracted nothing that is under way."""
    talk = RoundTrips()
    message = talk.take(talk.ask_now()[1])
    answer = talk.answer_now(message)
    talk.near.remote.outbound_messages._on_extracted(
        talk.short.peer, talk.relay.number, 999
    )
    other = talk.stage.task("other", "s2")
    talk.stage.soon()
    talk.asking.hold()
    talk.near.remote.post(
        talk.near.manager.table.find(other.name) or talk.relay.entry,
        [talk.question(wants_reply=False)],
    )
    talk.asking._held = None
    assert talk.short.peer.waiting

    assert not talk.comes_back(answer)


@clause("BUS-RELAY-9")
def test_an_exchange_acknowledges_its_last_message_later_than_others() -> None:
    talk = RoundTrips()
    limits = talk.stage.world.limits
    now = talk.stage.world.now
    _, frame = talk.ask_now()
    assert talk.comes_back(talk.answer_now(talk.take(frame)))
    talk.ask_now()

    assert not talk.asking.awaits_ack
    later = talk.asking.next_ack(now)
    assert later is not None
    assert now + limits.ack_delay_s < later <= now + 0.1
    assert talk.asking.in_exchange
    assert talk.asking.next_ack(now) is None  # no exchange since
    assert not talk.asking.in_exchange


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
def test_a_frame_that_is_not_plain_is_left_to_the_normal_path(
    changes: dict[str, Any],
) -> None:
    talk = Arrival()
    before = _counters(talk.far, talk.near)

    assert talk.come(talk.frame(**changes)) is None
    assert _counters(talk.far, talk.near) == before


@clause("BUS-DEREG-4", "BUS-CHAN-7")
def test_a_message_for_a_task_that_has_left_is_left_to_a_round() -> None:
    """The addressee was looked up before it left."""
    talk = Arrival()
    assert talk.come(talk.frame()) is not None
    talk.far.deregister(talk.answerer)

    assert talk.come(talk.frame(ahead=1)) is None


@clause("QB-ERR-9", "BUS-FLOW-7")
def test_an_interrupt_enters_a_question_as_sent_as_a_whole_or_not_at_all() -> None:
    went = list[int]()

    def case(interrupted: Blow) -> None:
        talk = RoundTrips()
        relay, peer = talk.relay, talk.short.peer
        question, now = talk.question(), talk.stage.world.now
        before = relay.counters.posted, peer.counters.posted, talk.asking.outgoing.next
        interrupted(lambda: talk.short.command(question, now))
        after = relay.counters.posted, peer.counters.posted, talk.asking.outgoing.next

        count = relay.under_way
        assert [new - old for old, new in zip(before, after, strict=True)] == [
            count
        ] * 3
        assert len(relay.unacked) == len(talk.asking.outgoing) == count
        assert relay._unanswered == {(talk.asker.entry, question._id)} or not count
        assert relay.unacked_bytes == count * sum(
            [outbound_run.size for _, outbound_run in relay.unacked]
        )
        went.append(count)

    everywhere(case, packages=(bus,))
    assert {0, 1} == set(went)


@clause("QB-ERR-9", "AMO-7", "BUS-FLOW-7")
def test_an_interrupt_loses_no_answer_and_no_acknowledgement() -> None:
    """A frame that was not committed as received is resent, and committed then."""
    given = list[int]()

    def case(interrupted: Blow) -> None:
        talk = RoundTrips()
        _, frame = talk.ask_now()
        answer = talk.answer_now(talk.take(frame))
        todo, now = deque[Action](), talk.stage.world.now
        interrupted(lambda: talk.short.receive(answer, now, todo))
        again = talk.by_a_round(answer)

        given.append(len(todo) + len(again))
        assert given[-1]
        relay, counters = talk.relay, talk.relay.counters
        assert (relay.under_way, relay.unacked_bytes, len(relay.unacked)) == (0, 0, 0)
        assert (counters.taken, counters.commands_taken) == (counters.posted,) * 2
        assert not relay.asked
        assert not relay._unanswered
        assert len(talk.asking.outgoing) == 0
        assert talk.asking._received.next == talk.answering.outgoing.next

    everywhere(case, packages=(bus,))
    assert {1, 2} == set(given)


@clause("QB-ERR-9")
def test_of_answers_and_commands_the_answers_may_be_taken_alone() -> None:
    talk = Arrival()

    before = _counters(talk.far, talk.near)
    assert talk.come(talk.frame(), answers_only=True) is None
    assert _counters(talk.far, talk.near) == before
    answer = talk.frame(kind=Kind.COMMAND_RESPONSE, flags=0)
    assert isinstance(talk.come(answer, answers_only=True), Reply)


@clause("BUS-SEC-1")
def test_a_message_from_a_guest_is_left_to_the_normal_path() -> None:
    """The normal path checks the guest's rights."""
    talk = Arrival(
        asker="s3", guests={"s3"}, rights=lambda _who, _by: Rights(subscribe=())
    )

    assert talk.come(talk.frame()) is None


def test_a_message_on_an_old_link_is_left_to_the_normal_path() -> None:
    talk = Arrival()
    talk.stage.cut("s1", "s2")
    talk.stage.soon()

    assert talk.come(talk.frame()) is None


def test_an_answer_to_a_notification_is_not_given_by_a_fast_path() -> None:
    talk = Arrival()
    message = talk.come(talk.frame())
    assert isinstance(message, Post)
    (question,) = message.messages
    assert isinstance(question, Incoming)
    question.kind = Kind.NOTIFICATION

    assert talk.short.answer(question, 7) is None
    question.kind = Kind.COMMAND
    assert talk.short.answer(question, 7) is not None


def test_a_task_that_has_left_gives_no_answer_by_the_fast_path() -> None:
    talk = Arrival()
    message = talk.come(talk.frame())
    assert isinstance(message, Post)
    (question,) = message.messages
    assert isinstance(question, Incoming)
    talk.far.deregister(talk.answerer)

    assert talk.short.answer(question, 7) is None


def _decoded(frame: bytes) -> Batch:
    batch = decode(frame)
    assert isinstance(batch, Batch)
    return batch
