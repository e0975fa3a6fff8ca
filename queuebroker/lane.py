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
"""

from __future__ import annotations

import itertools
import operator
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from queuebroker.circular_buffer import CircularBufferQueue
from queuebroker.queue_connection import Message
from queuebroker.sleepers import Sleepers

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator, MutableSequence

    from queuebroker.parking import WaitList

__all__ = ["Lane"]

_SHUT: Final[Any] = object()


class Lane(CircularBufferQueue[Message]):
    """A `CircularBufferQueue` that can be used without its lock until it is shut.

    To send: ``for _ in free: messages.append(message)``, then `call` if there are
    ``sleepers``. To receive: ``for message in incoming: for number in numbers:
    slots.append(number)``, then look if somebody is asleep who waits for ``room``. A
    gate with nothing to take raises IndexError; one that is shut yields nothing.

    Invariants, lock or no lock:
    I3. ``free slots + len(messages) <= capacity``; what is missing is on its way.
    I4. once shut, slots and messages are taken out under the lock only; who was on the
        way goes on, and looks afterwards (the wait lists are pinned).
    """

    __slots__ = (
        "_fresh",
        "_looks",
        "free",
        "incoming",
        "messages",
        "numbers",
        "settlers",
        "shut",
        "sleepers",
        "slots",
    )

    discarded: int

    def __init__(self, capacity: int, *, lock: _thread.LockType) -> None:
        super().__init__(capacity, lock=lock)
        self.shut: bool = False
        self.sleepers: Sleepers = Sleepers(self.lock)
        self.arrived: WaitList = self.sleepers
        self.messages: deque[Message] = self._messages
        # Slots never used yet are only counted; an idle connection shall be small.
        self._fresh: Iterator[None] = itertools.repeat(None, capacity)
        self.slots: list[int | None] = []
        self._free: MutableSequence[int | None] = self.slots
        self.free: Iterator[object] = itertools.chain(
            self._fresh, iter(self.slots.pop, _SHUT)
        )
        self.incoming: Iterator[Any] = iter(self._messages.popleft, _SHUT)
        # Drawn by every fast receive, and by every look at how many there were.
        self.numbers: Iterator[int] = itertools.count()
        self._looks: int = 0
        # Who waits for those under way, see `settled`; mostly nobody ever does.
        self.settlers: WaitList | None = None

    def full(self) -> bool:
        return not self.free_slots()

    def drained(self) -> bool:
        return not self._messages and self.free_slots() == self.capacity

    def settled(self) -> bool:
        """Whether what looks full is full, of messages."""
        return len(self._messages) >= self.capacity or not self.full()

    def pulled(self) -> int:
        """Return how many messages were ever pulled; under the lock."""
        for number in self.numbers:
            looks, self._looks = self._looks, self._looks + 1
            return self._pulled + number - looks
        raise AssertionError  # numbers have no end

    def ready(self) -> bool:
        """Whether a receiver that sleeps would get anywhere."""
        return bool(self._messages) or self.shut

    def free_slots(self) -> int:
        return operator.length_hint(self._fresh) + len(self.slots)

    # Under the lock.

    def push_locked(self, message: Message) -> bool:
        try:
            for _ in self.free:
                self._messages.append(message)
                self.wake_locked()
                return True
        except IndexError:
            return False
        return super().push_locked(message)

    def pull_locked(self) -> Message | None:
        try:
            for message in self.incoming:
                for number in self.numbers:
                    self.slots.append(number)
                    self.wake_locked()
                    return message  # type: ignore[no-any-return]  # SHUT never comes
        except IndexError:
            return None
        return super().pull_locked()

    def look_from_now_on_locked(self) -> None:
        """Let everybody who acts without the lock come and look afterwards."""
        self.room.pin()
        self.arrived.pin()

    def discard_locked(self) -> None:
        """Remove everything; only of a lane that is shut."""
        while self._messages:
            self.discarded += 1
            del self._messages[0]
            self._free.append(None)

    def shut_locked(self) -> None:
        """Leave the lock as the only way; whoever is under way looks afterwards.

        One call in C: nobody sees it half done, and no interrupt strikes in it. Put
        `SHUT` where the gate takes from, take the next item, which is that, and the
        gate is exhausted; the same for the other gate; then note that it is done.
        """
        self.look_from_now_on_locked()
        if not self.shut:
            steps = itertools.chain(
                map(self.slots.extend, (self._fresh,)),
                map(self.slots.append, (_SHUT,)),
                self.free,
                map(self._messages.appendleft, (_SHUT,)),
                self.incoming,
                map(object.__setattr__, (self,), ("shut",), (True,)),
            )
            deque(steps, maxlen=0)
