"""`Orphans`: the tasks that lost their owner, until a later call deregisters them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Orphans"]


class Orphans:
    """The tasks of dropped iterators and of ended threads (BUS-DEREG-9, BUS-DEREG-14).

    A finalizer may run while its thread holds any lock. So it only appends a function
    here, and a later call of the bus calls that.

    waiting: the functions, in order. append: the method of the deque itself, so that a
      finalizer runs no other code.
    """

    __slots__ = ("append", "waiting")

    def __init__(self) -> None:
        self.waiting: Final[deque[Callable[[], object]]] = deque()
        self.append: Final = self.waiting.append

    def deregister(self) -> None:
        """Deregister all orphans."""
        # Remove from the list last: an interrupt before that loses nothing, and a
        # second deregistration does nothing. Another thread may run this concurrently.
        while True:
            try:
                deregister = self.waiting[0]
            except IndexError:
                return
            deregister()
            with suppress(ValueError):
                self.waiting.remove(deregister)
