"""QB-BULK: many messages in one call, compared with the same calls one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker import (
    DisconnectedQueueError,
    MessageQueue,
    QueueBrokerError,
    SendTimeoutError,
    Status,
)
from specs.clauses import clause
from specs.models.answers import Ending
from specs.models.queue import QueuePair
from tests.pairs import queue_pair

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGES = st.lists(st.binary(max_size=2), max_size=6)


def _one_by_one(end: MessageQueue, messages: list[bytes]) -> int | type[Exception]:
    """Send each message by its own call until one would wait or raise."""
    for count, message in enumerate(messages):
        try:
            end.send(message, timeout=0)
        except QueueBrokerError as error:
            return count or type(error)
    return len(messages)


def _at_once(end: MessageQueue, messages: list[bytes]) -> int | type[Exception]:
    """Send the messages in one call, without waiting."""
    try:
        return end.send_many(messages, timeout=0)
    except QueueBrokerError as error:
        return type(error)


def _prepare(left: MessageQueue, right: MessageQueue, there: int, state: str) -> None:
    for _ in range(there):
        left.send(b"there")
    if state != "connected":
        right.send(b"unread")
        right.disconnect()
    if state == "disconnected":
        left.receive()
    if state == "disconnected here":
        left.disconnect()


@clause("QB-BULK-1")
@given(
    messages=MESSAGES,
    capacity=st.integers(1, 4),
    there=st.integers(0, 4),
    state=st.sampled_from(
        ["connected", "half", "disconnected", "disconnected here"],
    ),
    strict=st.booleans(),
)
def test_send_many_is_a_loop_of_sends_in_every_state(
    messages: list[bytes], capacity: int, there: int, state: str, strict: bool
) -> None:
    """It returns the number of sends that returned; it raises if the first would."""
    seen = []
    for send in (_one_by_one, _at_once):
        with queue_pair(capacity, strict=(strict, strict)) as (left, right):
            _prepare(left, right, min(there, capacity), state)

            said = send(left, messages)

            received = right.receive_many(timeout=0) if right.pending else []
            seen.append((said, received, left.stats(), left.status))
    assert seen[0] == seen[1]


@clause("QB-BULK-1")
@given(messages=MESSAGES, capacity=st.integers(1, 4), goodbye=st.integers(0, 6))
def test_send_many_agrees_with_the_model_wherever_the_peer_hangs_up(
    messages: list[bytes], capacity: int, goodbye: int
) -> None:
    """With a disconnect after each number of messages, count and content agree."""
    model = QueuePair.open(capacity)
    with queue_pair(capacity) as (left, right):
        right.send(b"unread")
        model.send(1, b"unread")
        for part in (messages[:goodbye], messages[goodbye:]):
            answer = model.send_many(0, part)
            said = _at_once(left, part)
            if answer.kind is Ending.DONE:
                assert said == answer.value
            else:
                waits = answer.kind is Ending.WAITS
                assert said is (SendTimeoutError if waits else DisconnectedQueueError)
            right.disconnect()
            model.disconnect(1)
        assert left.status is Status.HALF_DISCONNECTED
        assert left.stats().half_disconnected == model.half_disconnected[0]


@clause("QB-BULK-1")
def test_a_message_that_cannot_be_sent_ends_the_call_with_the_count() -> None:
    """As in a loop: the messages before it are sent, those after it are not."""
    with queue_pair(9, limit=3) as (left, right):
        for flaw in ("text", b"too long", memoryview(b"abcd")[::2], None):
            sent = left.send_many([b"1", b"2", flaw, b"3"])  # type: ignore[list-item] # under test

            assert sent == 2
            assert right.receive_many() == [b"1", b"2"]


@clause("QB-BULK-1")
def test_a_generator_is_read_before_anything_is_sent() -> None:
    """The generator's own calls on the queue happen before the first send."""
    with queue_pair(4) as (left, right):

        def messages() -> Iterator[bytes]:
            yield b"1"
            left.send(b"from within")
            yield b"2"

        assert left.send_many(messages()) == 2
        assert right.receive_many() == [b"from within", b"1", b"2"]


@clause("QB-BULK-1")
def test_a_generator_that_raises_sends_nothing() -> None:
    """The error of the generator propagates unchanged."""
    with queue_pair(4) as (left, right):

        def messages() -> Iterator[bytes]:
            yield b"1"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            left.send_many(messages())

        assert right.pending == 0


@clause("QB-BULK-2")
@given(
    unread=st.lists(st.binary(max_size=2), min_size=1, max_size=5),
    limit=st.none() | st.integers(1, 7),
    goodbye=st.booleans(),
)
def test_receive_many_takes_the_unread_messages_up_to_the_limit(
    unread: list[bytes], limit: int | None, goodbye: bool
) -> None:
    """In order, never empty, at most the limit; also after a disconnect."""
    with queue_pair(5) as (left, right):
        left.send_many(unread)
        if goodbye:
            left.disconnect()
        taken: list[bytes] = []
        while len(taken) < len(unread):
            batch = right.receive_many(limit)
            assert batch
            assert limit is None or len(batch) <= limit
            assert limit is not None or batch == unread
            taken += batch

        assert taken == unread
        assert right.disconnected() == goodbye


class One:
    """Not an int, but has `__index__`."""

    def __index__(self) -> int:
        return 1


@clause("QB-BULK-2", "QB-ERR-4")
@pytest.mark.parametrize("locked", [False, True])
def test_anything_with_an_index_is_a_limit(
    locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", locked)
    limit: Any = One()
    with queue_pair(2) as (left, right):
        left.send_many([b"1", b"2"])

        assert right.receive_many(limit) == [b"1"]


@clause("QB-BULK-2")
@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    """An empty list would be a third way to report an empty queue."""
    with queue_pair() as (left, right):
        left.send(b"there")

        with pytest.raises(ValueError, match=f"limit must be >= 1, got {limit}"):
            right.receive_many(limit)

        assert right.pending == 1
