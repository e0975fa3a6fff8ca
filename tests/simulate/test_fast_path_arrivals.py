"""`FastPath`: which frames it accepts from a link, and the accounts that it leaves."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.tasks.actions import Answer, Post
from bus.kernel.wire import (
    FAILED,
    NO_DEADLINE,
    encode_single,
    ends_head,
    stream_head,
)
from bus.model.message import Incoming, Kind
from bus.model.rights import Rights
from specs.clauses import clause
from tests.simulate.dialogue import Arrival, Dialogue, accounts_of, decoded
from tests.simulate.guests import Guests

if TYPE_CHECKING:
    from bus.kernel.peer.relay import Relay


@clause("AMO-7")
def test_a_fast_path_message_equals_the_message_that_a_round_reads() -> None:
    talk, other = Arrival(), Arrival()

    short = talk.come(talk.frame())
    (long,) = other.far.remote.receive(
        other.short.link, decoded(other.frame()), other.stage.world.now
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
        talk.far.remote.receive(talk.short.link, decoded(frame), talk.stage.world.now)
        == []
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
    ends = talk.asker.entry.relay, talk.answerer.entry.relay, Kind.COMMAND_RESPONSE
    late = encode_single(
        stream_head(their.epoch, their.incarnation),
        their.outgoing.floor,
        their.outgoing.next,
        ends_head(*ends),
        0,
        12345,
        NO_DEADLINE,
        b"\x07",
    )
    assert talk.short.receive(late, talk.stage.world.now, deque())
    question = talk.question()
    assert talk.short.command(question, talk.stage.world.now) is not None

    assert session.acks.received.next == their.outgoing.next + 1
    assert list(relay._unanswered) == [(talk.asker.entry, question._id)]


@clause("AMO-7", "BUS-CHAN-7")
def test_each_message_is_in_the_accounts_at_once() -> None:
    talk = Arrival()
    before = accounts_of(talk.far, talk.near)
    for ahead in range(3):
        action = talk.come(talk.frame(ahead=ahead, id=ahead))
        assert isinstance(action, Post)
        (question,) = action.messages
        assert isinstance(question, Incoming)
        assert talk.short.answer(question, ahead) is not None
        counters = accounts_of(talk.far, talk.near)
        number = question._source.mailbox.number
        count = ahead + 1
        assert counters["next"] == before["next"] + count
        assert counters["received"].next == before["received"].next + count
        assert counters["relays"][number][0] == before["relays"][number][0] + count
        assert counters["relays"][number][4] == before["relays"][number][4] + count
        assert counters["outbox"] == counters["todo"] == []


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
    before = accounts_of(talk.far, talk.near)

    assert talk.come(talk.frame(**changes)) is None
    assert accounts_of(talk.far, talk.near) == before


@clause("BUS-DEREG-4", "BUS-CHAN-7")
def test_a_message_for_a_task_that_has_left_is_left_to_a_round() -> None:
    """The addressee was looked up before it left."""
    talk = Arrival()
    assert talk.come(talk.frame()) is not None
    talk.far.deregister(talk.answerer)

    assert talk.come(talk.frame(ahead=1)) is None


@clause("QB-ERR-9")
def test_a_thread_that_may_be_interrupted_takes_commands_and_answers() -> None:
    assert isinstance(Arrival().come(Arrival().frame(), tasks_only=True), Post)
    talk = Arrival()
    answer = talk.frame(kind=Kind.COMMAND_RESPONSE, flags=0)
    assert isinstance(talk.come(answer, tasks_only=True), Answer)


@clause("BUS-SEC-1")
def test_a_message_from_a_guest_is_left_to_the_normal_path() -> None:
    """The normal path checks the guest's rights."""
    talk = Arrival(
        asker="s3", guests=Guests({"s3"}, lambda _who, _by: Rights(subscribe=()))
    )

    assert talk.come(talk.frame()) is None


def test_a_message_on_an_old_link_is_left_to_the_normal_path() -> None:
    talk = Arrival()
    talk.stage.cut("s1", "s2")
    talk.stage.soon()

    assert talk.come(talk.frame()) is None


def test_a_message_on_a_link_that_is_not_ready_is_left_to_the_normal_path() -> None:
    """There the peer has not stated yet how much of the stream has arrived."""
    talk = Arrival()
    talk.peer.session.ready = False
    talk.far.manager.revision += 1

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
