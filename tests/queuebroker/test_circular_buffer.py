"""The two circular buffers, step by step against a deque and a bytearray.

Random sequences of operations, none of which waits; each step checks the invariants
that the classes state. Tests with waiting are in ``tests/schedules``.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from queuebroker import (
    BufferEmptyError,
    BufferFullError,
    CircularBuffer,
    CircularBufferQueue,
    SendTimeoutError,
    _sync,
)
from queuebroker.lockfree.lock_free_buffer import LockFreeBuffer
from specs.clauses import clause
from tests.sockets.support import Exhausted

# Small, so that a run of 50 steps wraps around the ring many times.
CAPACITIES = st.integers(1, 5)


class MessageBuffer(RuleBasedStateMachine):
    """`CircularBufferQueue` compared with a deque."""

    @initialize(capacity=CAPACITIES)
    def make(self, capacity: int) -> None:
        self.buffer = CircularBufferQueue[bytes](capacity)
        self.model: deque[bytes] = deque()

    @rule(message=st.binary(max_size=2))
    def push(self, message: bytes) -> None:
        if len(self.model) < self.buffer.capacity:
            self.buffer.push(message, timeout=0)
            self.model.append(message)
        else:
            with pytest.raises(SendTimeoutError):
                self.buffer.push(message, timeout=0)

    @rule()
    def pull(self) -> None:
        expected = self.model.popleft() if self.model else None
        assert self.buffer.pull() == expected

    @rule()
    def peek(self) -> None:
        if self.model:
            assert self.buffer.peek_locked() == self.model[0]

    @rule()
    def clear(self) -> None:
        before = self.buffer.discarded
        self.buffer.discard_locked()
        assert self.buffer.discarded - before == len(self.model)
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.buffer) == len(self.model)
        assert self.buffer.empty() == (not self.model)
        assert self.buffer.full() == (len(self.model) == self.buffer.capacity)

    @invariant()
    def every_slot_is_filled_or_free(self) -> None:
        taken = len(self.buffer._messages)
        assert taken + self.buffer.free_slots() == self.buffer.capacity

    @invariant()
    def holds_its_messages_in_order(self) -> None:
        assert self.buffer._messages == self.model


class ByteBuffer(RuleBasedStateMachine):
    """`CircularBuffer` compared with a bytearray."""

    @initialize(capacity=CAPACITIES)
    def make(self, capacity: int) -> None:
        self.buffer = CircularBuffer(capacity)
        self.model = bytearray()

    @property
    def room(self) -> int:
        return self.buffer.capacity - len(self.model)

    @rule(data=st.binary(max_size=7))
    def write(self, data: bytes) -> None:
        fits = min(len(data), self.room)

        assert self.buffer.write(data) == fits

        self.model += data[:fits]

    @rule(size=st.integers(0, 7))
    def read(self, size: int) -> None:
        target = bytearray(b"\xee" * size)
        there = min(size, len(self.model))

        assert self.buffer.read_into(target) == there

        assert target == self.model[:there] + b"\xee" * (size - there)
        del self.model[:there]

    @rule(byte=st.integers(0, 255))
    def push(self, byte: int) -> None:
        if self.room:
            self.buffer.push(byte)
            self.model.append(byte)
        else:
            with pytest.raises(BufferFullError):
                self.buffer.push(byte)

    @rule()
    def pull(self) -> None:
        if self.model:
            assert self.buffer.pull() == self.model.pop(0)
        else:
            with pytest.raises(BufferEmptyError):
                self.buffer.pull()

    @rule()
    def clear(self) -> None:
        before = self.buffer.discarded
        self.buffer.discard_locked()
        assert self.buffer.discarded - before == len(self.model)
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert len(self.buffer) == len(self.model)
        assert self.buffer.empty() == (not self.model)
        assert self.buffer.full() == (not self.room)

    @invariant()
    def its_indices_are_in_the_ring(self) -> None:
        assert 0 <= self.buffer._count <= self.buffer.capacity
        assert 0 <= self.buffer._start < self.buffer.capacity

    @invariant()
    def the_ring_holds_the_bytes_in_order(self) -> None:
        ring, start = self.buffer._ring, self.buffer._start
        content = ring[start:] + ring[:start]
        assert content[: len(self.model)] == self.model


@pytest.mark.deep
@clause("QB-BUF-6")
def test_the_message_buffer_is_a_deque_with_a_limit() -> None:
    """`full()`, `empty()`, `len()` and the order match, also around the ring."""
    run_state_machine_as_test(MessageBuffer)


@pytest.mark.deep
@clause("QB-BUF-6", "QB-BUF-8")
def test_the_byte_buffer_is_a_bytearray_with_a_limit() -> None:
    """Bulk and single forms move bytes in order, also where the ring wraps."""
    run_state_machine_as_test(ByteBuffer)


def test_a_message_is_pulled_only_if_it_is_the_oldest_and_is_counted() -> None:
    buffer = CircularBufferQueue[str](2)
    for message in ("first", "second"):
        buffer.push(message)

    pulled = [buffer.pull_only_locked(each) for each in ("second", "first", "first")]

    assert pulled == [False, True, False]
    assert buffer.pulled() == 1
    assert buffer.items_locked() == ["second"]


@pytest.mark.parametrize("byte", [-1, 256, 10**9])
def test_a_byte_out_of_range_is_refused(byte: int) -> None:
    buffer = CircularBuffer(1)

    with pytest.raises(ValueError, match=rf"byte must be in 0\.\.255, got {byte}"):
        buffer.push(byte)

    assert buffer.empty()


def test_a_buffer_refuses_arguments_that_are_not_bytes_and_stays_unchanged() -> None:
    buffer = CircularBuffer(4)
    buffer.write(b"ab")

    with pytest.raises(TypeError):
        buffer.write("text")  # type: ignore[arg-type] # under test
    with pytest.raises(TypeError, match="C-contiguous"):
        buffer.write(memoryview(b"abcd")[::2])
    with pytest.raises(TypeError):
        buffer.read_into(b"read-only")

    assert len(buffer) == 2
    assert bytes((buffer.pull(), buffer.pull())) == b"ab"


def test_a_buffer_shows_how_full_it_is() -> None:
    messages, octets = CircularBufferQueue[bytes](3), CircularBuffer(9)
    messages.push(b"long message")
    octets.write(b"1234")

    assert repr(messages) == "<CircularBufferQueue 1/3>"
    assert repr(octets) == "<CircularBuffer 4/9>"


@clause("QB-ERR-10")
@pytest.mark.parametrize("lock_free", [False, True])
@pytest.mark.parametrize("only", [False, True])
def test_a_pull_without_memory_takes_nothing(*, lock_free: bool, only: bool) -> None:
    """Of a lock-free buffer, once it is shut; so the count and the messages agree."""

    def pull() -> object:
        return buffer.pull_only_locked(b"1") if only else buffer.pull_locked()

    buffer = CircularBufferQueue[bytes](2)
    if lock_free:
        buffer = LockFreeBuffer(2, lock=_sync.RLock())  # type: ignore[assignment]
    for message in (b"1", b"2"):
        assert buffer.push_locked(message)
    if isinstance(buffer, LockFreeBuffer):
        buffer.shut_locked()
    before = buffer._pulled

    buffer._pulled = Exhausted(before)
    with pytest.raises(MemoryError):
        pull()
    buffer._pulled = before

    assert buffer.items_locked() == [b"1", b"2"]
    assert pull()
    assert buffer._pulled == before + 1
