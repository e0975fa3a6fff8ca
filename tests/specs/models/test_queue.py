"""The queue's model follows the tables, and keeps the clauses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from specs.models.answers import Answer, Ending
from specs.models.connection import Status
from specs.models.queue import QueuePair
from tests.specs.models.lists import ListPair

ENDS = st.sampled_from([0, 1])
BOTH = (0, 1)

DONE = Answer(Ending.DONE)
DISCONNECTED = Answer(Ending.DISCONNECTED)
WAITS = Answer(Ending.WAITS)

ANSWERS = {"ok": DONE, "disconnected": DISCONNECTED, None: WAITS}


def half(unread: int = 1, capacity: int = 2) -> QueuePair:
    """Return a pair whose end 1 has disconnected while end 0 has messages to read."""
    pair = QueuePair.open(capacity)
    for number in range(unread):
        pair.send(1, b"%d" % number)
    pair.disconnect(1)
    return pair


class AgainstLists(RuleBasedStateMachine):
    """Any operations in any order, compared with the same on lists."""

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity: int) -> None:
        self.pair = QueuePair.open(capacity)
        self.lists = ListPair(capacity)
        self.sent = 0
        self.statuses = [Status.CONNECTED, Status.CONNECTED]

    @rule(end=ENDS, waited=st.booleans())
    def send(self, end: int, waited: bool) -> None:
        self.sent += 1
        message = b"%d" % self.sent
        ready = self.pair.can_send(end, waited=waited)
        answer = self.pair.send(end, message, waited=waited)
        assert answer == ANSWERS[self.lists.send(end, message, waited=waited)]
        assert ready == (answer != WAITS)

    @rule(end=ENDS)
    def receive(self, end: int) -> None:
        ready = self.pair.can_receive(end)
        answer = self.pair.receive(end)
        expected = self.lists.receive(end)
        if isinstance(expected, bytes):
            assert answer == Answer(Ending.DONE, expected)
        else:
            assert answer == ANSWERS[expected]
        assert ready == (answer != WAITS)

    @rule(end=ENDS)
    def disconnect(self, end: int) -> None:
        self.pair.disconnect(end)
        self.lists.disconnect(end)

    @invariant()
    def both_store_the_same(self) -> None:
        for end in BOTH:
            assert list(self.pair.state.inbound[end]) == self.lists.inbound[end]
            assert self.pair.status(end).name == self.lists.status(end)
            assert self.pair.pending(end) <= self.pair.state.capacity

    @invariant()
    def a_status_only_moves_forward(self) -> None:
        for end in BOTH:
            assert self.pair.status(end) >= self.statuses[end]
            self.statuses[end] = self.pair.status(end)

    @invariant()
    def the_counters_balance(self) -> None:
        for end in BOTH:
            assert self.pair.balances(end)


TestAgainstLists = AgainstLists.TestCase


def test_a_new_send_in_half_is_dropped_even_if_the_buffer_is_full() -> None:
    pair = QueuePair.open(1)
    pair.send(0, b"fills")
    pair.send(1, b"unread")
    pair.disconnect(1)

    assert pair.status(0) is Status.HALF
    assert pair.send(0, b"dropped") == DONE
    assert pair.half_disconnected[0] == 1


def test_a_send_that_waited_is_refused_in_half() -> None:
    assert half().send(0, b"late", waited=True) == DISCONNECTED


def test_strict_half_refuses_a_message_that_would_be_dropped() -> None:
    pair = QueuePair.open(1, strict_half=True)
    pair.send(1, b"unread")
    pair.disconnect(1)

    assert pair.send(0, b"refused") == DISCONNECTED
    assert pair.receive(0) == Answer(Ending.DONE, b"unread")


@pytest.mark.parametrize("unread", range(4))
def test_an_end_is_half_until_the_last_message_is_taken(unread: int) -> None:
    pair = half(unread, capacity=4)

    for number in range(unread):
        assert not pair.disconnected(0)
        assert pair.remote_disconnected(0)
        assert pair.receive(0) == Answer(Ending.DONE, b"%d" % number)

    assert pair.disconnected(0)
    assert pair.receive(0) == pair.send(0, b"") == DISCONNECTED


def test_an_empty_message_is_a_message() -> None:
    pair = QueuePair.open(1)
    pair.send(0, b"")

    assert pair.pending(1) == 1
    assert pair.receive(1) == Answer(Ending.DONE, b"")


@given(
    st.lists(st.binary(max_size=2), max_size=4), st.integers(0, 3), st.integers(1, 3)
)
def test_send_many_is_sends_one_after_another(
    messages: list[bytes], before: int, capacity: int
) -> None:
    one, many = QueuePair.open(capacity), QueuePair.open(capacity)
    for pair in (one, many):
        for _ in range(before):
            pair.send(0, b"before")

    answers = [one.send(0, message) for message in messages]
    normally = answers.count(DONE)

    answer = many.send_many(0, messages)

    if messages and not normally:
        assert answer == answers[0]
    else:
        assert answer == Answer(Ending.DONE, normally)
    assert many.state == one.state


@given(st.integers(0, 4), st.none() | st.integers(1, 5), st.booleans())
def test_receive_many_takes_the_unread_messages_up_to_its_limit(
    unread: int, limit: int | None, hung_up: bool
) -> None:
    pair = QueuePair.open(4)
    sent = [b"%d" % number for number in range(unread)]
    pair.send_many(1, sent)
    if hung_up:
        pair.disconnect(1)

    answer = pair.receive_many(0, limit)

    if unread:
        assert answer == Answer(Ending.DONE, sent[:limit])
    else:
        assert answer == (DISCONNECTED if hung_up else WAITS)
