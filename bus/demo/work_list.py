"""`WorkList`: the files that are still to be done, and those handed out.

If a worker leaves with a file, another worker gets that file. So there may be nothing
to hand out now and something later, and no pass begins before the previous one is
complete. This class never waits and has no lock: it belongs to the lister.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Item", "WorkList"]

Item = tuple[int, int]  # the pass, from 1, and the index of the file


class WorkList:
    """The files of one pass after another.

    passes: the number of passes begun.
    over: True if every file of every pass is done.

    Invariant: an item is in ``_left``, in ``_out`` or done, and in one of them only.

    Args:
        files: the number of files in a pass, at least 1.
        again: called when a pass is complete; returns True for another one.
    """

    def __init__(self, files: int, again: Callable[[], bool]) -> None:
        self._files = files
        self._again = again
        self._out: set[Item] = set()
        self._left: deque[Item] = deque()
        self.passes = 0
        self.over = False
        self._begin()

    def take(self) -> Item | None:
        """Return an item to hand out; None if there is none now."""
        if not self._left:
            return None
        item = self._left.popleft()
        self._out.add(item)
        return item

    def done(self, item: Item) -> None:
        """Remove an item; the last one of a pass begins another pass or ends all."""
        self._out.remove(item)
        if not (self._left or self._out):
            if self._again():
                self._begin()
            else:
                self.over = True

    def give_back(self, item: Item) -> None:
        """Return an item that another worker is to do."""
        self._out.remove(item)
        self._left.appendleft(item)

    def _begin(self) -> None:
        self.passes += 1
        self._left.extend((self.passes, index) for index in range(self._files))
