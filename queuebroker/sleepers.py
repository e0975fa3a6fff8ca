"""`Sleepers`: receivers that sleep, and can be woken without the lock.

The way of a `Lane` for parkers: to take the next one out is one call in C, and to wake
it another; between the two no interrupt strikes, so that nobody is taken out and not
woken. Who is taken out need not take itself out: there is nothing to do after waking.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from queuebroker.parking import WaitList

if TYPE_CHECKING:
    import _thread
    from collections.abc import Collection, Iterator

__all__ = ["LOOK", "Sleepers"]

# Instead of those who sleep: whoever sends comes and looks, under the lock.
LOOK: Final = (None,)


class Sleepers(WaitList):
    """A `WaitList` with a second list beside it, for which no lock is needed.

    To sleep: append a lock that is taken to ``sleeping``, look once more, wait for the
    lock. To wake one, if anybody is ``present``: ``for parker in waking:
    parker.release()``; IndexError if somebody else was faster.

    present: what is not empty while somebody sleeps; `LOOK` once it is pinned.
    """

    __slots__ = ("_lock", "present", "sleeping", "waking")

    def __init__(self, lock: _thread.LockType) -> None:
        super().__init__()
        self._lock = lock
        self.present: Collection[object] = ()
        # Made when somebody first sleeps: an idle connection shall be small.
        self.sleeping: deque[_thread.LockType] | None = None
        self.waking: Iterator[_thread.LockType] = iter(())

    def __len__(self) -> int:
        return len(self.sleeping or ()) + super().__len__()

    def made(self) -> deque[_thread.LockType]:
        """Return ``sleeping``, made if it was not."""
        with self._lock:
            if self.sleeping is None:
                sleeping: deque[_thread.LockType] = deque()
                waking = iter(sleeping.popleft, None)
                # No call from here on: an interrupt finds all of it or nothing.
                self.waking, self.sleeping = waking, sleeping
                if self.present is not LOOK:
                    self.present = sleeping
            return self.sleeping

    def get_up(self, parker: _thread.LockType) -> None:
        """Take out a parker that was not released, unless somebody has done so.

        Who has will release it, at any time: it must not be used again.
        """
        if self.sleeping is not None and parker in self.sleeping:
            try:
                self.sleeping.remove(parker)
            except ValueError:
                return  # just now

    def pin(self) -> None:
        super().pin()
        self.present = LOOK

    def wake_one(self) -> None:
        try:
            for parker in self.waking:
                parker.release()
                return
        except IndexError:
            pass
        super().wake_one()

    def wake_all(self) -> None:
        while self.sleeping:
            self.wake_one()
        if self._parkers:
            super().wake_all()
