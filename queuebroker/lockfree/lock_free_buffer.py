"""`LockFreeBuffer`: one direction of a connection that needs no lock while it is open.

It relies on four points (see docs/explanation/fast-path.md):

* The interpreter lock makes one call into C atomic. A *gate* is ``iter(pop, SHUT)``:
  one such call takes its next item out of a deque. To shut a gate, `SHUT` is put where
  the next pop finds it. The pop of `SHUT` exhausts that iterator for good, also for
  threads that already hold a reference to it.
* A sender takes a slot before it stores its message. A receiver returns the slot after
  it has fetched the message. So the capacity is exact for any number of senders, and
  operations in progress can be counted: slots that are neither free nor filled.
* An interrupt is raised only where a call has returned, not where a loop begins. The
  last step of each operation is its only call: an interrupt finds the operation done or
  not begun.
* Three things are created on first use, so that a connection pays only for those it
  needs. The first operation of an end creates the buffers, the first push the gates,
  and the first sleep the deque of sleepers.
"""

from __future__ import annotations

import itertools
from collections import deque
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from queuebroker.channel.circular_buffer import CircularBufferQueue
from queuebroker.channel.queue_connection import Message
from queuebroker.lockfree.sleepers import Sleepers

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator

    from queuebroker.waiting.parking import WaitList

__all__ = ["UNMADE", "LockFreeBuffer"]

SHUT: Final[Any] = object()

# Stands for a gate not created yet; like a shut gate, it yields nothing.
_NO_GATE: Final[Iterator[Any]] = iter(())


class LockFreeBuffer(CircularBufferQueue[Message]):
    """A `CircularBufferQueue` that can be used without its lock until it is shut.

    To send: ``for _ in free: messages.append(message)``, then wake a receiver if there
    are ``sleepers``. To receive: ``for message in incoming: slots.append(None)``, then
    check whether a sender waits for ``room``. A gate with nothing to take raises
    IndexError. A gate that is shut, or not created yet, yields nothing.

    Invariants, with or without the lock, besides those of `CircularBufferQueue`:
    I3. ``free slots + len(messages) <= capacity``; the difference is in transit.
    I4. once shut, slots and messages are taken out only under the lock. An operation in
        progress completes and then checks the state under the lock (the wait lists are
        pinned).
    """

    __slots__ = (
        "_fresh",
        "_looks",
        "_numbers",
        "free",
        "incoming",
        "messages",
        "open",
        "settlers",
        "shut",
        "sleepers",
        "slots",
    )

    discarded: int
    # Created by the first push:
    slots: list[object]
    _fresh: Iterator[None]
    # The gate draws a number for each message, and so does every read of the count.
    _numbers: Iterator[int]
    _looks: int

    def __init__(self, capacity: int, *, lock: _thread.RLock) -> None:
        super().__init__(capacity, lock=lock)
        # Aliases of inherited attributes, named for use without the lock.
        self.messages: deque[Message] = self._messages
        self.sleepers: Sleepers = Sleepers()
        self.arrived: WaitList = self.sleepers
        self.open: bool = False  # stays True after the buffer is shut
        self.shut: bool = False
        self.free: Iterator[object] = _NO_GATE
        self.incoming: Iterator[Any] = _NO_GATE
        # The waiters for operations in progress, see `settled`; usually never created.
        self.settlers: WaitList | None = None

    def full(self) -> bool:
        return self.free_slots() <= 0

    def drained(self) -> bool:
        return not self._messages and self.free_slots() == self.capacity

    def settled(self) -> bool:
        """Return True if the buffer is not full, or is full of messages."""
        return len(self._messages) >= self.capacity or not self.full()

    def pulled(self) -> int:
        """Return the number of messages pulled since the start; under the lock."""
        if not self.open:
            return self._pulled
        # This read draws a number, too; ``_looks`` counts the numbers drawn by reads.
        for number in self._numbers:
            looks, self._looks = self._looks, self._looks + 1
            return self._pulled + number - looks
        raise AssertionError  # `itertools.count` never ends

    def ready(self) -> bool:
        """Return True if a sleeping receiver could go on."""
        return bool(self._messages) or self.shut

    def free_slots(self) -> int:
        if self.open:
            return length_hint(self._fresh) + len(self.slots)
        return super().free_slots()

    # Without the lock; the caller wakes the other side.

    def push_many(self, messages: list[bytes], begin: int) -> int:
        """Store messages from ``begin`` on; return where it stopped."""
        stored = begin
        # Read once: if another thread created the gates meanwhile, an earlier message
        # could have been skipped, and the result would be no position.
        free = self.free
        try:
            for message in messages[begin : begin + self.capacity]:
                for _ in free:
                    self._messages.append(message)
                    stored += 1
                    break
        except IndexError:
            pass  # full
        return stored

    def pull_many(self, limit: int) -> list[bytes]:
        """Remove the oldest messages present now, ``limit`` at most."""
        pulled: list[bytes] = []
        try:
            for _ in range(min(limit, len(self._messages))):
                for message in self.incoming:
                    self.slots.append(None)
                    pulled.append(message)
                    break
        except IndexError:
            pass  # another receiver took it
        return pulled

    # Under the lock.

    def wake_all_locked(self) -> None:
        # Read the flags before a call: most disconnects find no sleeper.
        if self.room.asleep:
            self.room.wake_all()
        if self.sleepers.sleeping:
            self.sleepers.wake_all()

    def open_locked(self) -> None:
        """Create the gates; the buffer is empty, and no operation is in progress."""
        # Unused slots are only counted, to keep an idle connection small.
        fresh = itertools.repeat(None, self.capacity)
        slots: list[object] = []
        free = itertools.chain(fresh, iter(slots.pop, SHUT))
        # Counts in the same call in C: every number is true, so `compress` keeps every
        # item.
        numbers = itertools.count(1)
        incoming = itertools.compress(iter(self._messages.popleft, SHUT), numbers)
        # No call from here on: an interrupt finds all of it or nothing. The attributes
        # that other threads read without the lock come last.
        if self.open or self.shut:
            return  # a signal handler was first, or has disconnected
        self._numbers, self._looks = numbers, 1
        self._fresh, self.slots = fresh, slots
        self.open, self.incoming, self.free = True, incoming, free

    def push_locked(self, message: Message) -> bool:
        if not self.shut:
            if not self.open:
                self.open_locked()
            try:
                for _ in self.free:
                    self._messages.append(message)
                    self.wake_locked()
                    return True
            except IndexError:
                return False
        if not self.open:
            return super().push_locked(message)
        if self.ended or not self.slots:
            return False
        del self.slots[-1]
        self._messages.append(message)
        self.wake_locked()
        return True

    def pull_locked(self) -> Message | None:
        try:
            for message in self.incoming:
                self.slots.append(None)
                self.wake_locked()
                return message  # type: ignore[no-any-return]  # SHUT never comes
        except IndexError:
            return None
        if not self.open:
            return super().pull_locked()
        if not self._messages:
            return None
        oldest, pulled = self._messages[0], self._pulled + 1
        # No new object up to the next call: as in the base class.
        del self._messages[0]
        self._pulled = pulled
        self.slots.append(None)
        self.wake_locked()
        return oldest

    def pull_only_locked(self, only: Message) -> bool:
        """Remove one message if it is the oldest; only for a shut buffer."""
        if not self.open:
            return super().pull_only_locked(only)
        if not self._messages or self._messages[0] is not only:
            return False
        pulled = self._pulled + 1
        del self._messages[0]
        self._pulled = pulled
        self.slots.append(None)
        self.wake_locked()
        return True

    def look_from_now_on_locked(self) -> None:
        """Make every operation without the lock check the state under it afterwards."""
        self.room.pin()
        self.arrived.pin()

    def discard_locked(self) -> None:
        """Remove all messages; only for a shut buffer."""
        if not self._messages:
            return
        if not self.open:
            super().discard_locked()
            return
        # A signal handler, which may discard, runs at the backward jump of a loop. So
        # the jump comes before the check; `while self._messages` would put the check
        # before the jump.
        while True:
            if not self._messages:
                return
            self.discarded += 1
            del self._messages[0]
            self.slots.append(None)

    def shut_locked(self) -> None:
        """Shut both gates, so that only the lock remains; call at most once.

        An operation in progress completes and then checks the state under the lock.

        One call in C: no other thread sees it half done, and no interrupt is raised in
        it. Its steps put `SHUT` where a gate takes its next item, and take it, which
        exhausts that gate. They do so for both gates; the last step sets the flag.
        """
        if not self.open:
            self.shut = True
            return
        self.look_from_now_on_locked()
        # Unused slots move to ``slots`` first: exhausting the gate would lose them.
        steps = itertools.chain(
            map(self.slots.extend, (self._fresh,)),
            map(self.slots.append, (SHUT,)),
            self.free,
            map(self._messages.appendleft, (SHUT,)),
            self.incoming,
            map(object.__setattr__, (self,), ("shut",), (True,)),
        )
        if not self.shut:  # a signal handler may have done it since
            deque(steps, maxlen=0)


# Stands for a buffer not created yet: it sends every operation to the lock, which is
# that of the connection. Its own lock is never taken; a lock created at import would
# escape the explorer.
UNMADE: Final = LockFreeBuffer(1, lock=SHUT)
UNMADE.shut = True
