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
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from queuebroker.circular_buffer import CircularBufferQueue
from queuebroker.parking import WaitList
from queuebroker.queue_connection import Message

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterator

__all__ = ["Lane"]

_SHUT: Final = object()


class Lane(CircularBufferQueue[Message]):
    """A `CircularBufferQueue` that can be used without its lock until it is shut.

    To send: ``for _ in free: append(message)``. To receive: ``for message in incoming:
    for number in numbers: give(number)``. Then look whether somebody is ``asleep``. A
    gate with nothing to take raises IndexError; one that is shut yields nothing.

    Invariants, lock or no lock:
    I3. ``len(_messages) + len(_free) <= capacity``; what is missing is on its way.
    I4. once shut, slots and messages are taken out under the lock only; who was on the
        way goes on, and looks afterwards (the wait lists are pinned).
    """

    __slots__ = (
        "_looks",
        "_shut_free",
        "_shut_incoming",
        "append",
        "free",
        "give",
        "incoming",
        "numbers",
        "settlers",
    )

    def __init__(self, capacity: int, *, lock: _thread.LockType) -> None:
        super().__init__(capacity, lock=lock)
        self._free: deque[int | None] = deque(self._free)
        # Not empty once the gate is shut.
        self._shut_free: list[None] = []
        self._shut_incoming: list[None] = []
        self.free = iter(self._free.popleft, _SHUT)
        self.incoming = iter(self._messages.popleft, _SHUT)
        self.append = self._messages.append
        self.give = self._free.append
        # Drawn by every fast receive, and by every look at how many there were.
        self.numbers = itertools.count()
        self._looks = 0
        # Who waits for those under way; see `settled`.
        self.settlers = WaitList()

    def pulled(self) -> int:
        """Return how many messages were ever pulled; under the lock."""
        for number in self.numbers:
            looks, self._looks = self._looks, self._looks + 1
            return self._pulled + number - looks
        raise AssertionError  # numbers have no end

    def drained(self) -> bool:
        """Whether nothing is here, nor on its way."""
        return not self._messages and len(self._free) == self.capacity

    def settled(self) -> bool:
        """Whether what looks full is full, of messages."""
        return bool(self._free) or len(self._messages) >= self.capacity

    # Under the lock.

    def push_locked(self, message: Message) -> bool:
        try:
            for _ in self.free:
                self.append(message)
                self.wake_locked()
                return True
        except IndexError:
            return False
        return super().push_locked(message)

    def pull_locked(self) -> Message | None:
        try:
            for message in self.incoming:
                for number in self.numbers:
                    self.give(number)
                    self.wake_locked()
                    return message
        except IndexError:
            return None
        return super().pull_locked()

    def discard_locked(self) -> None:
        """Remove everything; only of a lane that is shut."""
        while self._messages:
            self.discarded += 1
            del self._messages[0]
            self._free.append(None)

    def shut_locked(self) -> None:
        """Leave the lock as the only way; whoever is under way looks afterwards.

        Done twice it changes nothing, so that one that was interrupted can be repeated.
        """
        self.room.pin()
        self.arrived.pin()
        _shut(self.free, self._free, self._shut_free)
        _shut(self.incoming, self._messages, self._shut_incoming)


def _shut(gate: Iterator[object], content: deque[Any], shut: list[None]) -> None:
    """Exhaust a gate in one call in C: nobody sees it half done, nothing strikes in it.

    Put `SHUT` in front, take the next item, which is that, and note that it was done.
    """
    if not shut:
        put = map(content.appendleft, (_SHUT,))
        note = map(shut.append, (None,))
        deque(itertools.chain(put, gate, note), maxlen=0)
