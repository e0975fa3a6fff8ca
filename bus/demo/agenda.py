"""`Agenda`: which file is still to be done, and who has it.

A worker may hang up with a file in hand; then another gets it. So a worker that finds
nothing left waits until the others are done with theirs, and no pass begins before the
one before it is complete.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from queuebroker import _sync
from queuebroker.parking import PENDING, Pending, WaitList, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Agenda", "Item"]

Item = tuple[int, int]  # the pass, from 1, and the index of the file


class Agenda:
    """The files of one pass after another.

    Lock: ``lock`` guards everything.

    Invariant: an item is in ``_left``, in ``_out`` or done, and in one of them only.

    Args:
        files: how many files a pass has, at least 1.
        again: asked when a pass is complete, whether there is to be another.
    """

    def __init__(self, files: int, again: Callable[[], bool]) -> None:
        self.lock = _sync.Lock()
        self._files = files
        self._again = again
        self._waiters = WaitList()
        self._out: set[Item] = set()
        self._pass_number = 1
        self._over = False
        self._left: deque[Item] = deque((1, index) for index in range(files))

    @property
    def passes(self) -> int:
        """How many passes were begun."""
        return self._pass_number

    def take(self) -> Item | None:
        """Wait for something to do; None when there is nothing more."""
        item = wait_for(self, self._waiters, self._take_locked, self._ready, None)
        assert not isinstance(item, Pending)  # there is no deadline
        return item

    def done(self, item: Item) -> None:
        """Cross an item off; the last of a pass decides whether there is another."""
        with self.lock:
            self._out.discard(item)
            if not (self._left or self._out):
                self._over = not self._again()
                if not self._over:
                    self._pass_number += 1
                    self._left.extend(
                        (self._pass_number, i) for i in range(self._files)
                    )
            self.rouse_locked()

    def give_back(self, item: Item) -> None:
        """Let somebody else do it."""
        with self.lock:
            self._out.discard(item)
            self._left.appendleft(item)
            self.rouse_locked()

    def rouse_locked(self) -> None:
        """Wake everybody who waits for something to do."""
        self._waiters.wake_all()

    def recover_locked(self) -> None:
        """Nothing is left half done but a wake-up."""
        self.rouse_locked()

    def settle(self) -> None:
        """Nothing is left for later."""

    def _ready(self) -> bool:
        return bool(self._left) or self._over

    def _take_locked(self) -> Item | Pending | None:
        if self._left:
            item = self._left.popleft()
            self._out.add(item)
            return item
        return None if self._over else PENDING
