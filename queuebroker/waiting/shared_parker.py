"""`SharedParker`: a parker that several wakers may release at once.

A bare lock can be released only once. A caller listed in several places, under several
locks, may be woken from each of them at once. No interrupt may separate the removal of
a parker from its release (`queuebroker.waiting.parking`).
"""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

__all__ = ["SharedParker"]

_release: Final = methodcaller("release")


class SharedParker:
    """A parker for one sleep: sleep on ``lock``; wake it by `release`, once or often.

    `release` is one call in C, like the release of a lock. The first call takes the
    only item of an iterator, which releases the lock. Every other call finds no item.
    """

    __slots__ = ("lock", "locked", "release")

    def __init__(self) -> None:
        self.lock: Final[_thread.LockType] = taken_lock()
        self.locked: Final[Callable[[], bool]] = self.lock.locked
        self.release: Final[Callable[[], object]] = partial(
            next, map(_release, (self.lock,)), None
        )
