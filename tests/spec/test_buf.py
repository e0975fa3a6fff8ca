"""QB-BUF: the buffers alone, and how a connection holds two of them.

Sequences of operations are tested in ``tests/queuebroker/test_circular_buffer.py``.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    BufferEmptyError,
    BufferFullError,
    CircularBuffer,
    CircularBufferQueue,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.meetings import accepts_wait, connects_wait
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable


class OutboundRun:
    """A message that supports weak references, unlike bytes."""


@clause("QB-BUF-1")
@pytest.mark.parametrize("make", [CircularBufferQueue, CircularBuffer])
@pytest.mark.parametrize(
    ("capacity", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (True, TypeError),
        (1.0, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_a_capacity_is_a_positive_int(
    make: Callable[[object], object], capacity: object, error: type[Exception]
) -> None:
    """Zero or less is a ValueError, a bool or another type a TypeError."""
    with pytest.raises(error, match=r"^capacity must be"):
        make(capacity)


@clause("QB-BUF-1")
@pytest.mark.parametrize("make", [CircularBufferQueue, CircularBuffer])
def test_a_buffer_has_the_requested_capacity(make: Callable[[int], object]) -> None:
    """The capacity is fixed when the buffer is created."""
    for capacity in (1, 2, 1000):
        buffer = make(capacity)
        assert getattr(buffer, "capacity", None) == capacity


@clause("QB-BUF-2")
@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_exactly_the_capacity_fits_messages(capacity: int) -> None:
    """`full()` is false until the last message is in, and true from then on."""
    buffer = CircularBufferQueue[int](capacity)
    for round_ in range(3):
        for number in range(capacity):
            assert not buffer.full()
            buffer.push(number, timeout=0)
        assert buffer.full()
        with pytest.raises(SendTimeoutError):
            buffer.push(-1, timeout=0)
        assert [buffer.pull() for _ in range(capacity)] == list(range(capacity)), round_
        assert buffer.empty()


@clause("QB-BUF-2")
@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_exactly_the_capacity_fits_bytes(capacity: int) -> None:
    """`full()` is false until the last byte is in, and true from then on."""
    buffer = CircularBuffer(capacity)
    for _ in range(3):
        for number in range(capacity):
            assert not buffer.full()
            buffer.push(number)
        assert buffer.full()
        with pytest.raises(BufferFullError):
            buffer.push(0)
        assert [buffer.pull() for _ in range(capacity)] == list(range(capacity))
        with pytest.raises(BufferEmptyError):
            buffer.pull()


@clause("QB-BUF-3")
def test_the_length_of_a_message_does_not_count() -> None:
    """Eight mebibytes fit into a capacity of one; an empty message uses a place."""
    buffer = CircularBufferQueue[bytes](1)
    for message in (bytes(8 << 20), b""):
        buffer.push(message, timeout=0)
        assert buffer.full()
        assert buffer.pull() is message


@clause("QB-BUF-4")
def test_one_pull_lets_one_blocked_push_go_on() -> None:
    """`push` blocks while the buffer is full; each pull makes room for one push."""
    buffer = CircularBufferQueue[int](1)
    buffer.push(0)
    with Threads() as threads:
        pushes = [threads.start(buffer.push, number) for number in (1, 2)]
        until(lambda: len(buffer.room) == 2, "both pushes wait")

        assert buffer.pull() == 0
        until(lambda: any(push.done for push in pushes), "one of the pushes is done")
        assert len(buffer) == 1
        assert not all(push.done for push in pushes)

        assert {buffer.pull(), *_pulled(buffer, 1)} == {1, 2}


def _pulled(buffer: CircularBufferQueue[int], count: int) -> list[int]:
    """Pull that many messages, including messages pushed later."""
    got: list[int] = []

    def more() -> bool:
        message = buffer.pull()
        if message is not None:
            got.append(message)
        return len(got) == count

    until(more, f"{count} messages can be pulled")
    return got


@clause("QB-BUF-4")
def test_a_push_that_times_out_stored_nothing() -> None:
    """With a timeout `push` raises when that passes and stores nothing."""
    buffer = CircularBufferQueue[bytes](1)
    buffer.push(b"there")

    for timeout in (0, 0.01):
        with pytest.raises(SendTimeoutError, match="buffer of 1 messages stayed full"):
            buffer.push(b"expired", timeout=timeout)

    assert not buffer.room, "the sender that timed out still waits"
    assert [buffer.pull(), buffer.pull()] == [b"there", None]


@clause("QB-BUF-5")
def test_an_empty_message_is_not_no_message() -> None:
    """`pull()` of an empty buffer returns None at once, and b"" for the message b""."""
    buffer = CircularBufferQueue[bytes](2)
    assert buffer.pull() is None

    buffer.push(b"")

    assert buffer.pull() == b""
    assert buffer.pull() is None


@clause("QB-BUF-7")
def test_a_message_that_was_pulled_is_not_held() -> None:
    """Once a message is pulled, the buffer holds no reference to it."""
    buffer = CircularBufferQueue[OutboundRun](3)
    held = []
    for number in range(7):  # more than once around
        outbound_run = OutboundRun()
        held.append(weakref.ref(outbound_run))
        buffer.push(outbound_run)
        del outbound_run
        if number >= 2:
            assert buffer.pull() is not None
            alive = [one() is not None for one in held]
            assert alive == [False] * (number - 1) + [True, True]

    buffer.discard_locked()
    assert not any(one() for one in held)


@clause("QB-BUF-9")
def test_the_two_buffers_of_a_queue_are_crossed() -> None:
    """Each end receives from the buffer that the other end sends into."""
    with queue_pair(2) as (left, right):
        flows = left._connection.flows
        assert right._connection.flows is flows
        assert all(isinstance(flow.buffer, CircularBufferQueue) for flow in flows)

        left.send(b"from left")
        assert [len(flow.buffer) for flow in flows] == [0, 1]
        right.send(b"from right")
        right.send(b"from right")
        assert [len(flow.buffer) for flow in flows] == [2, 1]


@clause("QB-BUF-9")
def test_the_two_buffers_of_a_channel_are_crossed() -> None:
    """A Channel has two CircularBuffers in the same way."""
    with channel_pair(4) as (left, right):
        flows = left._connection.flows
        assert right._connection.flows is flows
        assert all(isinstance(flow.buffer, CircularBuffer) for flow in flows)

        left.write(b"abc")
        right.write(b"d")
        assert [len(flow.buffer) for flow in flows] == [1, 3]


@clause("QB-BUF-10")
@pytest.mark.parametrize("first", ["accept", "connect"])
def test_the_acceptor_decides_the_capacity_of_a_channel(first: str) -> None:
    """Both directions have the acceptor's capacity, in either order of the calls."""
    manager = BrokerManager()
    server = Broker("server", manager=manager, capacity=3)
    client = Broker("client", manager=manager, capacity=9)
    with Threads() as threads:
        if first == "accept":
            other = threads.start(server.accept, 1)
            accepts_wait(server, {1: 1})
            left, right = client.connect("server", 1, required=True), other.result()
        else:
            other = threads.start(client.connect, "server", 1, required=True)
            connects_wait(server, {1: 1})
            left, right = server.accept(1), other.result()

    with left, right:
        for end in (left, right):
            assert end.capacity == 3
            assert end.write(b"much more", timeout=0) == 3
