"""Bounded buffers: `CircularBufferQueue` of messages, `CircularBuffer` of bytes.

Each is a monitor: ``lock`` guards it, ``room`` lists the callers waiting for space, and
``arrived`` lists those waiting for content. A connection gives both of its buffers one
common lock and uses the methods that end in ``_locked``. A buffer used alone has its
own lock; then the other methods are safe from any thread.

Neither class knows about ends or disconnecting.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from queuebroker import _sync
from queuebroker.arguments import Buffer, deadline_after, flat_view, index, positive
from queuebroker.closable import Uncopyable
from queuebroker.errors import BufferEmptyError, BufferFullError, SendTimeoutError
from queuebroker.waiting.parking import (
    PENDING,
    Pending,
    WaitList,
    check_may_wait,
    wait_for,
)

__all__ = ["CircularBuffer", "CircularBufferQueue"]

M = TypeVar("M")


class CircularBufferQueue(Uncopyable, Generic[M]):
    """At most ``capacity`` whole messages, first in, first out (QB-BUF).

    The length of a message does not count; ``b""`` is a message.

    Lock: ``lock`` guards every attribute below it.

    Invariants, true whenever ``lock`` is free:
    I1. ``len(_messages) <= capacity``.
    I2. a message is in ``_messages`` and nowhere else here: a slot that was pulled
        keeps no reference to it (QB-BUF-7).

    An interrupt is raised only where a call has returned. So each change below makes
    its one call where nothing is half done, and needs no repair (QB-ERR-9). A signal
    handler may use the buffer at the same points, while its thread holds the lock
    (QB-CONC-10). So no call comes between a change and the check that permits it.

    Raises:
        ValueError: capacity below 1.
        TypeError: capacity is no int.
    """

    __slots__ = (
        "_messages",
        "_pulled",
        "_stored",
        "arrived",
        "capacity",
        "discarded",
        "ended",
        "lock",
        "room",
    )

    def __init__(self, capacity: int, *, lock: _sync.RLock | None = None) -> None:
        self.capacity: int = positive("capacity", capacity)
        self.lock: _sync.RLock = _sync.RLock() if lock is None else lock
        self.ended: bool = False  # True once nothing may be stored any more
        self._stored: int = 0  # number of messages stored by `push_locked`
        self._messages: deque[M] = deque()
        self._pulled: int = 0
        self.discarded: int = 0  # number of messages removed without being pulled
        self.room: WaitList = WaitList()
        self.arrived: WaitList = WaitList()

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"<CircularBufferQueue {len(self)}/{self.capacity}>"

    def full(self) -> bool:
        """Return True if a push would have to wait."""
        return len(self._messages) >= self.capacity

    def empty(self) -> bool:
        """Return True if a pull would return None."""
        return not self._messages

    def drained(self) -> bool:
        """Return True if no message is stored or being stored."""
        return self.empty()

    def push(self, message: M, *, timeout: float | None = None) -> None:
        """Store a message, waiting while the buffer is full (QB-BUF-4).

        timeout: seconds, None to wait forever, 0 to try once.

        Raises:
            SendTimeoutError: the buffer is still full; nothing was stored.
        """
        deadline = deadline_after(timeout)

        def attempt() -> bool | Pending:
            return self.push_locked(message) or PENDING

        def ready() -> bool:
            return not self.full()

        if timeout != 0:
            check_may_wait(self.lock)
        stored = wait_for(self, self.room, attempt, ready, deadline)
        if stored is PENDING:
            msg = f"cannot push: buffer of {self.capacity} messages stayed full"
            raise SendTimeoutError(msg)

    def pull(self) -> M | None:
        """Remove and return the oldest message, or None if there is none (QB-BUF-5)."""
        with self.lock:
            try:
                return self.pull_locked()
            except BaseException:
                self.recover_locked()
                raise

    # Under the lock.

    def push_locked(self, message: M) -> bool:
        """Store a message and wake a waiting reader; return False if full."""
        while not self.ended:
            stored = self._stored
            if self.full():
                return False
            if stored == self._stored and not self.ended:
                # No call since the check: a signal handler could store or disconnect in
                # one.
                self._stored = stored + 1
                self._messages.append(message)
                self.wake_locked()
                return True
        return False

    def pull_locked(self) -> M | None:
        """Remove the oldest message and wake a writer; return None if there is none."""
        if not self._messages:
            return None
        message, pulled = self._messages[0], self._pulled + 1
        # No new object from here on: a lack of memory changes nothing.
        del self._messages[0]
        self._pulled = pulled
        self.wake_locked()
        return message

    def pull_only_locked(self, only: M) -> bool:
        """Remove one message if it is the oldest; return True if it was."""
        if not self._messages or self._messages[0] is not only:
            return False
        pulled = self._pulled + 1
        del self._messages[0]
        self._pulled = pulled
        self.wake_locked()
        return True

    def wake_locked(self) -> None:
        """Wake one reader and one writer, each only if it can go on."""
        if self.arrived and self._messages:
            self.arrived.wake_one()
        if self.room and not self.full():
            self.room.wake_one()

    def free_slots(self) -> int:
        """Return the number of messages that still fit."""
        return self.capacity - len(self._messages)

    def pulled(self) -> int:
        """Return the number of messages pulled since the start."""
        return self._pulled

    def peek_locked(self) -> M | None:
        """Return the oldest message without removing it, or None if there is none."""
        return self._messages[0] if self._messages else None

    def items_locked(self) -> list[M]:
        """Return all messages, oldest first, without removing them."""
        return list(self._messages)

    def discard_locked(self) -> None:
        """Remove all messages."""
        if self._messages:
            self.discarded += len(self._messages)
            self._messages.clear()

    def wake_all_locked(self) -> None:
        """Wake every waiter on this buffer."""
        if self.room:
            self.room.wake_all()
        self.arrived.wake_all()

    def recover_locked(self) -> None:
        """Wake every waiter; an interrupt leaves nothing half done here."""
        self.wake_all_locked()

    def settle(self) -> None:
        """Do nothing: a buffer used alone has no finalizer."""


class CircularBuffer(Uncopyable):
    """At most ``capacity`` bytes, first in, first out, in a ring (QB-BUF-8).

    Lock: ``lock`` guards every attribute below it.

    Invariants, true whenever ``lock`` is free:
    I1. ``0 <= _count <= capacity`` and ``0 <= _start < capacity``.
    I2. the content is the ``_count`` bytes from ``_start`` on, wrapping once.

    Raises:
        ValueError: capacity below 1.
        TypeError: capacity is no int.
    """

    __slots__ = (
        "_count",
        "_pulled",
        "_ring",
        "_start",
        "arrived",
        "capacity",
        "discarded",
        "ended",
        "lock",
        "room",
    )

    def __init__(self, capacity: int, *, lock: _sync.RLock | None = None) -> None:
        self.capacity: int = positive("capacity", capacity)
        self.lock: _sync.RLock = _sync.RLock() if lock is None else lock
        self.ended: bool = False  # True once nothing may be stored any more
        self._ring = bytearray(self.capacity)
        self._start = 0
        self._count = 0
        self._pulled: int = 0
        self.discarded: int = 0  # number of bytes removed without being pulled
        self.room: WaitList = WaitList()
        self.arrived: WaitList = WaitList()

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<CircularBuffer {len(self)}/{self.capacity}>"

    def full(self) -> bool:
        """Return True if there is no room for one more byte."""
        return self._count == self.capacity

    def empty(self) -> bool:
        """Return True if there is no byte to read."""
        return self._count == 0

    def drained(self) -> bool:
        """Return True if no byte is stored or being stored."""
        return self.empty()

    def push(self, byte: int) -> None:
        """Store one byte, 0 to 255.

        Raises:
            BufferFullError: there is no room.
        """
        value = index("byte", byte)
        if not 0 <= value <= 255:
            msg = f"byte must be in 0..255, got {value}"
            raise ValueError(msg)
        with self.lock:
            if not self.write_locked(memoryview(bytes((value,)))):
                msg = f"cannot push: buffer of {self.capacity} bytes is full"
                raise BufferFullError(msg)

    def pull(self) -> int:
        """Remove and return the oldest byte.

        Raises:
            BufferEmptyError: there is none.
        """
        one = bytearray(1)
        with self.lock:
            if not self.read_locked(memoryview(one)):
                msg = "cannot pull: buffer is empty"
                raise BufferEmptyError(msg)
        return one[0]

    def write(self, data: Buffer) -> int:
        """Store as many bytes of ``data`` as fit; return their number. Never blocks."""
        with flat_view(data) as view, self.lock:
            return self.write_locked(view)

    def read_into(self, target: Buffer) -> int:
        """Move as many stored bytes as fit; return their number. Never blocks."""
        with flat_view(target) as view, self.lock:
            return self.read_locked(view)

    # Under the lock.

    def write_locked(self, view: memoryview) -> int:
        """Store a prefix of ``view`` and wake a reader; return the prefix length."""
        count = min(len(view), self.capacity - self._count)
        # No call from here to the change, except to try again: see
        # `CircularBufferQueue`.
        while count > self.capacity - self._count:
            count = min(len(view), self.capacity - self._count)
        if not count or self.ended:
            return 0
        begin = (self._start + self._count) % self.capacity
        first = self.capacity - begin
        if first > count:  # noqa: PLR1730  # `min` is a call
            first = count
        self._ring[begin : begin + first] = view[:first]
        self._ring[: count - first] = view[first:count]
        self._count += count
        self.wake_locked()
        return count

    def read_locked(self, view: memoryview) -> int:
        """Move bytes into a prefix of ``view`` and wake a writer; return its length."""
        count = min(len(view), self._count)
        # No call from here to the change, except to try again: see
        # `CircularBufferQueue`.
        while count > self._count:
            count = min(len(view), self._count)
        if not count:
            return 0
        first = self.capacity - self._start
        if first > count:  # noqa: PLR1730  # `min` is a call
            first = count
        view[:first] = self._ring[self._start : self._start + first]
        view[first:count] = self._ring[: count - first]
        # One statement without a call: no interrupt can come between the assignments.
        self._start, self._count, self._pulled = (
            (self._start + count) % self.capacity,
            self._count - count,
            self._pulled + count,
        )
        self.wake_locked()
        return count

    def wake_locked(self) -> None:
        """Wake one reader and one writer, each only if it can go on."""
        if self.arrived and not self.empty():
            self.arrived.wake_one()
        if self.room and not self.full():
            self.room.wake_one()

    def pulled(self) -> int:
        """Return the number of bytes read since the start."""
        return self._pulled

    def discard_locked(self) -> None:
        """Remove all bytes."""
        self.discarded += self._count
        self._start = self._count = 0

    def wake_all_locked(self) -> None:
        """Wake every waiter on this buffer."""
        self.room.wake_all()
        self.arrived.wake_all()

    def recover_locked(self) -> None:
        """Wake every waiter; an interrupt leaves nothing half done here."""
        self.wake_all_locked()
