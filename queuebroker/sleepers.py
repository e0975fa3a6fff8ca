"""`Sleepers`: receivers that sleep, and can be woken without the lock.

The way of a `Lane` for parkers: to take the next one off is one call in C, and to wake
it another; between the two no interrupt strikes, so that nobody is taken off and not
woken. Who is taken off need not leave: there is nothing to do after waking.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from queuebroker.parking import WaitList

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from queuebroker.parking import Parker

__all__ = ["LOOK", "Sleepers"]

# Instead of those who sleep: whoever sends comes and looks, under the lock.
LOOK: Final = (None,)

_NOBODY: Final[Iterator[Parker]] = iter(())


class Sleepers(WaitList):
    """A `WaitList` whose parkers are taken off, and released, without its lock.

    To sleep: append a parker to ``sleeping``, look once more, wait for it. To wake one,
    if anybody is ``present``: ``for parker in waking: parker.release()``; IndexError if
    somebody else was faster.

    present: what is not empty while somebody sleeps; `LOOK` once it is pinned.
    """

    __slots__ = ("present", "sleeping", "waking")

    def __init__(self) -> None:
        self._parkers = None  # those of a lane are in ``sleeping``
        self._pinned = self.asleep = False
        self.present: Collection[object] = ()
        # Made when somebody first sleeps: an idle connection shall be small.
        self.sleeping: deque[Parker] | None = None
        self.waking: Iterator[Parker] = _NOBODY

    def __len__(self) -> int:
        return len(self.sleeping or ())

    def made_locked(self) -> deque[Parker]:
        """Return ``sleeping``, made if it was not."""
        if self.sleeping is None:
            sleeping: deque[Parker] = deque()
            waking = iter(sleeping.popleft, None)
            # No call from here on: an interrupt finds all of it or nothing.
            self.waking, self.sleeping = waking, sleeping
            if self.present is not LOOK:
                self.present = sleeping
        return self.sleeping

    def enlist(self, parker: Parker) -> None:
        self.made_locked().append(parker)

    def leave(self, parker: Parker) -> None:
        """Take off a parker that was not released, unless somebody has done so.

        Who has will release it, at any time: it must not be used again. Needs no lock.
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
            return  # nobody, or somebody else was faster

    def wake_all(self) -> None:
        while self.sleeping:
            self.wake_one()
