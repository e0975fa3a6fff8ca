"""`Agenda`: which file is still to be done, and what has been handed out.

A worker may leave with a file in hand; then another gets it. So there may be nothing
to hand out now and something later, and no pass begins before the one before it is
complete. This waits for nobody and has no lock: it belongs to the lister.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Agenda", "Item"]

Item = tuple[int, int]  # the pass, from 1, and the index of the file


class Agenda:
    """The files of one pass after another.

    passes: how many were begun.
    over: whether every file of every pass is done.

    Invariant: an item is in ``_left``, in ``_out`` or done, and in one of them only.

    Args:
        files: how many files a pass has, at least 1.
        again: asked when a pass is complete, whether there is to be another.
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
        """Return something to do; None if there is nothing now."""
        if not self._left:
            return None
        item = self._left.popleft()
        self._out.add(item)
        return item

    def done(self, item: Item) -> None:
        """Cross an item off; the last of a pass decides whether there is another."""
        self._out.remove(item)
        if not (self._left or self._out):
            if self._again():
                self._begin()
            else:
                self.over = True

    def give_back(self, item: Item) -> None:
        """Let it be done by somebody else."""
        self._out.remove(item)
        self._left.appendleft(item)

    def _begin(self) -> None:
        self.passes += 1
        self._left.extend((self.passes, index) for index in range(self._files))
