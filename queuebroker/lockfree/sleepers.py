"""`Sleepers`: sleeping receivers that can be woken without the lock.

It applies the technique of a `LockFreeBuffer` to parkers. One call in C removes the
next parker, and a second one wakes it. No interrupt is raised between the two, so that
no parker is removed and not woken. A removed parker need not leave the list.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from queuebroker.waiting.parking import WaitList

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from queuebroker.waiting.parking import Parker

__all__ = ["LOOK", "Sleepers"]

# Replaces the sleepers: every sender checks the state under the lock.
LOOK: Final = (None,)

_NOBODY: Final[Iterator[Parker]] = iter(())


class Sleepers(WaitList):
    """A `WaitList` whose parkers are removed and released without its lock.

    To sleep: append a parker to ``sleeping``, check the condition once more, then wait.
    To wake a sleeper if one is ``present``: ``for parker in waking: parker.release()``.
    IndexError means that another waker was first.

    present: not empty while a receiver sleeps; `LOOK` once the list is pinned.
    """

    __slots__ = ("present", "sleeping", "waking")

    def __init__(self) -> None:
        self._parkers = None  # the parkers of a buffer are in ``sleeping``
        self._pinned = self.asleep = False
        self.present: Collection[object] = ()
        # Created when a receiver first sleeps, to keep an idle connection small.
        self.sleeping: deque[Parker] | None = None
        self.waking: Iterator[Parker] = _NOBODY

    def __len__(self) -> int:
        return len(self.sleeping or ())

    def ensure_locked(self) -> deque[Parker]:
        """Return ``sleeping``, created if missing."""
        if self.sleeping is None:
            sleeping: deque[Parker] = deque()
            waking = iter(sleeping.popleft, None)
            # No call from here on: an interrupt finds all of it or nothing.
            self.waking, self.sleeping = waking, sleeping
            if self.present is not LOOK:
                self.present = sleeping
        return self.sleeping

    def enlist(self, parker: Parker) -> None:
        self.ensure_locked().append(parker)

    def leave(self, parker: Parker) -> None:
        """Remove a parker that was not released, unless a waker has removed it.

        That waker will release it, at any time: the parker must not be used again.
        Needs no lock.
        """
        if self.sleeping is not None and parker in self.sleeping:
            try:
                self.sleeping.remove(parker)
            except ValueError:
                return  # removed just now

    def pin(self) -> None:
        super().pin()
        self.present = LOOK

    def wake_one(self) -> None:
        try:
            for parker in self.waking:
                parker.release()
                return
        except IndexError:
            return  # no sleeper is left, or another waker was first

    def wake_all(self) -> None:
        while self.sleeping:
            self.wake_one()
