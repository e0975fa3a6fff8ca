"""`Lane`: one direction of a connection that needs no lock while it is open.

What it rests on (design, decision 5; the story is in docs/explanation/fast-path.md):

* The interpreter lock makes one call into C one step. A *gate* is ``iter(pop, SHUT)``:
  its next item is taken out of a deque by one such call. To shut a gate, `SHUT` is put
  where the next pop finds it: whoever pops it, that iterator is exhausted for good, for
  those too who had their hands on it already.
* A slot is taken before its message is stored, and given back after a message was
  fetched. So the capacity is exact for any number of senders, and who is under way can
  be counted: slots that are neither free nor filled.
* An interrupt strikes only where a call has returned, not where a loop begins. Each
  operation makes one call, its last step: an interrupt finds it done or not begun.
* Three things are made late, so that who does not need them does not pay: lanes by the
  first operation of an end, gates by the first push, the deque of those who sleep by
  the first sleep.
"""

from __future__ import annotations

import itertools
from collections import deque
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from queuebroker.circular_buffer import CircularBufferQueue
from queuebroker.queue_connection import Message
from queuebroker.sleepers import Sleepers

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator

    from queuebroker.parking import WaitList

__all__ = ["UNMADE", "Lane"]

SHUT: Final[Any] = object()

# A gate that was not made yet lets nobody through, as one that is shut.
_NO_GATE: Final[Iterator[Any]] = iter(())


class Lane(CircularBufferQueue[Message]):
    """A `CircularBufferQueue` that can be used without its lock until it is shut.

    To send: ``for _ in free: messages.append(message)``, then wake somebody if there
    are ``sleepers``. To receive: ``for message in incoming: slots.append(None)``, then
    look if somebody is asleep who waits for ``room``. A gate with nothing to take
    raises IndexError; one that is shut, or not made yet, yields nothing.

    Invariants, lock or no lock, besides those of `CircularBufferQueue`:
    I3. ``free slots + len(messages) <= capacity``; what is missing is on its way.
    I4. once shut, slots and messages are taken out under the lock only; who was on the
        way goes on, and looks afterwards (the wait lists are pinned).
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
    # Made by the first push:
    slots: list[object]
    _fresh: Iterator[None]
    # Drawn from by the gate for each message, and by every look at how many there were.
    _numbers: Iterator[int]
    _looks: int

    def __init__(self, capacity: int, *, lock: _thread.RLock) -> None:
        super().__init__(capacity, lock=lock)
        # The same by other names: what is touched without the lock, by what it is.
        self.messages: deque[Message] = self._messages
        self.sleepers: Sleepers = Sleepers()
        self.arrived: WaitList = self.sleepers
        self.open: bool = False  # from then on, also when it is shut
        self.shut: bool = False
        self.free: Iterator[object] = _NO_GATE
        self.incoming: Iterator[Any] = _NO_GATE
        # Who waits for those under way, see `settled`; mostly nobody ever does.
        self.settlers: WaitList | None = None

    def full(self) -> bool:
        return self.free_slots() <= 0

    def drained(self) -> bool:
        return not self._messages and self.free_slots() == self.capacity

    def settled(self) -> bool:
        """Whether what looks full is full, of messages."""
        return len(self._messages) >= self.capacity or not self.full()

    def pulled(self) -> int:
        """Return how many messages were ever pulled; under the lock."""
        if not self.open:
            return self._pulled
        for number in self._numbers:
            looks, self._looks = self._looks, self._looks + 1
            return self._pulled + number - looks
        raise AssertionError  # numbers have no end

    def ready(self) -> bool:
        """Whether a receiver that sleeps would get anywhere."""
        return bool(self._messages) or self.shut

    def free_slots(self) -> int:
        if self.open:
            return length_hint(self._fresh) + len(self.slots)
        return super().free_slots()

    # Without the lock; the caller wakes.

    def push_many(self, messages: list[bytes], begin: int) -> int:
        """Store messages from ``begin`` on; return where it stopped."""
        stored = begin
        # Looked up once: if others made the gates meanwhile, an earlier message would
        # have been passed over, and what is returned were no position.
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
        """Remove the oldest messages that are here now, ``limit`` at most."""
        pulled: list[bytes] = []
        try:
            for _ in range(min(limit, len(self._messages))):
                for message in self.incoming:
                    self.slots.append(None)
                    pulled.append(message)
                    break
        except IndexError:
            pass  # somebody was faster
        return pulled

    # Under the lock.

    def rouse_locked(self) -> None:
        # Where one looks first, nobody is called: most hang-ups find nobody asleep.
        if self.room.asleep:
            self.room.wake_all()
        if self.sleepers.sleeping:
            self.sleepers.wake_all()

    def open_locked(self) -> None:
        """Make the gates; nothing is here yet, nor on its way."""
        # Slots never used yet are only counted; an idle connection shall be small.
        fresh = itertools.repeat(None, self.capacity)
        slots: list[object] = []
        free = itertools.chain(fresh, iter(slots.pop, SHUT))
        # Counts in the same call in C: none of these numbers is false.
        numbers = itertools.count(1)
        incoming = itertools.compress(iter(self._messages.popleft, SHUT), numbers)
        # No call from here on: an interrupt finds all of it or nothing. Last what
        # others look at without the lock.
        if self.open or self.shut:
            return  # a signal handler was faster, or has hung up
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
        oldest = self._messages[0]
        del self._messages[0]
        self._pulled += 1
        self.slots.append(None)
        self.wake_locked()
        return oldest

    def pull_only_locked(self, only: Message) -> bool:
        """Remove one message if it is the oldest; only for a lane that is shut."""
        if not self.open:
            return super().pull_only_locked(only)
        if not self._messages or self._messages[0] is not only:
            return False
        del self._messages[0]
        self._pulled += 1
        self.slots.append(None)
        self.wake_locked()
        return True

    def look_from_now_on_locked(self) -> None:
        """Let everybody who acts without the lock come and look afterwards."""
        self.room.pin()
        self.arrived.pin()

    def discard_locked(self) -> None:
        """Remove everything; only of a lane that is shut."""
        if not self._messages:
            return
        if not self.open:
            super().discard_locked()
            return
        # A signal handler, which may discard, runs at the backward jump of a loop: so
        # the jump comes before the check, which a `while self._messages` would put
        # before the jump.
        while True:
            if not self._messages:
                return
            self.discarded += 1
            del self._messages[0]
            self.slots.append(None)

    def shut_locked(self) -> None:
        """Leave the lock as the only way; only once.

        Whoever is under way goes on, and looks afterwards.

        One call in C: nobody sees it half done, and no interrupt strikes in it. Put
        `SHUT` where the gate takes from, take the next item, which is that, and the
        gate is exhausted; the same for the other gate; then note that it is done.
        """
        if not self.open:
            self.shut = True
            return
        self.look_from_now_on_locked()
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


# Stands for a lane that was not made yet: it sends everybody to the lock, which is that
# of the connection. Nobody takes its own; one made at import would escape the explorer.
UNMADE: Final = Lane(1, lock=SHUT)
UNMADE.shut = True
