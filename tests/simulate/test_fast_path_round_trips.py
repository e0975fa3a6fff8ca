"""`FastPath`: questions and answers, each of which acknowledges the one before it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import bus
from bus.errors import WireError
from bus.kernel.streams.incoming_stream import Acknowledgement
from bus.kernel.tasks.actions import Action, Post
from bus.kernel.wire import Batch, decode, encode
from bus.model.message import Incoming
from specs.clauses import clause
from tests.simulate.dialogue import RoundTrips, decoded
from tests.strikes import everywhere

if TYPE_CHECKING:
    from tests.strikes import Blow


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
                [each.in_transit for each in peer.all_relays()]
            )


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_an_answer_acknowledges_the_extraction_of_its_own_question() -> None:
    """No other frame reports it."""
    talk = RoundTrips()
    for _ in range(2):
        _, frame = talk.ask_now()
        message, now = talk.receive(frame), talk.stage.world.now

        answer = talk.back.answer(message, 7, extracted_at=now)

        assert isinstance(answer, bytes)
        assert talk.answering.ack_at is None
        assert talk.comes_back(answer)
        assert (talk.relay.under_way, len(talk.asking.outgoing)) == (0, 0)
        assert talk.relay.counters.posted == talk.relay.counters.taken


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
    assert isinstance(other, bytes)
    late = decode(other)
    assert isinstance(late, Batch)
    [run] = late.runs
    unrelated = encode(replace(late, runs=[replace(run, id=question._id + 1)]))

    assert talk.comes_back(unrelated)

    assert list(talk.relay.asked) == [(talk.asker.entry, question._id)]
    assert talk.relay.is_unanswered(talk.asker.entry, question._id)
    assert talk.comes_back(talk.answer_now(message))
    assert not talk.relay.busy


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_an_answer_acknowledges_the_commands_before_its_question() -> None:
    talk = RoundTrips()
    relay, counters = talk.relay, talk.relay.counters
    taken = counters.taken
    for _ in range(3):
        command = talk.question(wants_reply=False)
        frame = talk.short.command(command, talk.stage.world.now)
        assert isinstance(frame, bytes)
        talk.take(frame)
    assert not relay._unanswered
    _, frame = talk.ask_now()
    answer = talk.answer_now(talk.take(frame))
    assert relay.under_way == 4

    assert talk.comes_back(answer)

    assert (relay.under_way, relay.unacked_bytes, len(relay.unacked)) == (0, 0, 0)
    assert counters.taken == taken + 4
    assert counters.commands_taken == counters.taken
    peer = talk.near.remote.topology.peers[talk.far.key]
    assert peer.counters.taken == counters.taken
    assert not relay.asked
    assert not relay._unanswered


@clause("BUS-RELAY-9", "BUS-FLOW-7")
def test_an_answer_acknowledges_its_question_before_a_message_to_another_task() -> None:
    talk = RoundTrips()
    talk.stage.task("other", "s2")
    talk.stage.soon()
    talk.stage.send(talk.asker, "other")
    talk.stage.soon()
    other = talk.near.manager.table.find("other")
    assert other is not None
    message = talk.take(talk.ask_now()[1])
    later = talk.question(_to=other, wants_reply=False)
    frame = talk.short.command(later, talk.stage.world.now)
    assert isinstance(frame, bytes)
    assert talk.back.receive(frame, talk.stage.world.now, deque())

    assert talk.comes_back(talk.answer_now(message))

    assert (talk.relay.under_way, other.mailbox.under_way) == (0, 1)
    assert len(talk.asking.outgoing) == 0


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
    assert not talk.relay.is_unanswered(talk.asker.entry, question._id)


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
        talk.asking.outgoing.abandon()
    talk.near.remote.outbound_messages.post(talk.question()._to, [talk.question()])
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
    talk.asking.pause()
    talk.near.remote.outbound_messages.post(
        talk.near.manager.table.find(other.name) or talk.relay.entry,
        [talk.question(wants_reply=False)],
    )
    talk.asking._held = None
    assert talk.short.peer.waiting

    assert not talk.comes_back(answer)


@clause("BUS-RELAY-9")
def test_an_exchange_acknowledges_its_last_message_later_than_others() -> None:
    talk = RoundTrips()
    config = talk.stage.world.config
    now = talk.stage.world.now
    _, frame = talk.ask_now()
    assert talk.comes_back(talk.answer_now(talk.take(frame)))
    talk.ask_now()

    later = talk.asking.acks.next_check(now, ready=True)
    assert later is not None
    assert now + config.ack_delay_s < later <= now + 0.6
    assert talk.asking.acks.in_exchange
    assert talk.asking.acks.next_check(now, ready=True) is None  # no exchange since
    assert not talk.asking.acks.in_exchange


@pytest.mark.deep
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
        asked = [(talk.asker.entry, question._id)] * count
        assert list(relay._unanswered) == asked
        assert relay.unacked_bytes == count * sum(
            [outbound_run.size for _, outbound_run in relay.unacked]
        )
        went.append(count)

    everywhere(case, packages=(bus,))
    assert {0, 1} == set(went)


@pytest.mark.deep
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
        assert talk.asking.acks.received.next == talk.answering.outgoing.next

    everywhere(case, packages=(bus,))
    assert {1, 2} == set(given)


@pytest.mark.deep
@clause("QB-ERR-9", "AMO-7", "BUS-RELAY-9")
def test_an_interrupt_neither_loses_nor_repeats_a_command() -> None:
    """A command that was not committed as received is resent, and committed then."""
    resent = list[int]()

    def case(interrupted: Blow) -> None:
        talk = RoundTrips()
        question, frame = talk.ask_now()
        todo, now = deque[Action](), talk.stage.world.now
        interrupted(lambda: talk.back.receive(frame, now, todo, tasks_only=True))
        again = talk.far.remote.receive(talk.back.link, decoded(frame), now)

        [action] = [*todo, *again]
        assert isinstance(action, Post)
        [message] = action.messages
        assert isinstance(message, Incoming)
        assert message._id == question._id
        # It is extracted once, and nothing before it is unread.
        assert message._receipt.receipts.take(message._number)
        assert not message._receipt.receipts.unread
        resent.append(len(again))

    everywhere(case, packages=(bus,))
    assert {0, 1} == set(resent)


@pytest.mark.deep
@clause("QB-ERR-9", "BUS-RELAY-9")
def test_an_interrupted_answer_leaves_its_question_to_be_acknowledged() -> None:
    """The frame acknowledges the question, or the note that is left for it does."""
    acknowledged = list[bool]()

    def case(interrupted: Blow) -> None:
        talk = RoundTrips()
        _, frame = talk.ask_now()
        question, now = talk.receive(frame), talk.stage.world.now
        interrupted(lambda: talk.back.answer(question, 7, extracted_at=now))

        acks = talk.answering.acks
        number, before = question._number, acks.extracted.get(question._receipt.relay)
        taken = (question._receipt, number, 1, question._size)
        talk.far.remote.inbound_messages.on_extracted([taken], now)
        assert acks.extracted[question._receipt.relay] == number
        assert not question._receipt.receipts.unread
        acknowledged.append(before == number)

    everywhere(case, packages=(bus,))
    assert {False, True} == set(acknowledged)
