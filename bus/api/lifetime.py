"""`Lifetime`: the time in which a bus may be used, and the process that may use it."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from bus.errors import UnknownTaskError, WrongProcessError
from queuebroker import _platform

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.process.exchange import Exchange

__all__ = ["Lifetime", "Orphans"]

# The lifetimes of the buses that this process has created; a forked child has none
# (BUS-INIT-16).
_made: Final[WeakSet[Lifetime]] = WeakSet()


def _forked() -> None:
    """Disable the inherited buses: they have no threads, and locks may be taken."""
    for lifetime in _made:
        lifetime.foreign = True
        for entry in lifetime._exchange.manager.table:
            entry.order = object()  # ends the send batches, so that a send raises


_platform.after_fork_in_child(_forked)


class Lifetime:
    """The lifetime of a bus: from its creation to `Bus.close`, in one process.

    foreign: True if this process inherited the bus by a fork.
    closed: True once `Bus.close` has begun; guarded by the lock of the threads.
    """

    __slots__ = ("__weakref__", "_bus", "_exchange", "_pid", "closed", "foreign")

    def __init__(self, bus: str, exchange: Exchange) -> None:
        self._bus: Final = bus
        self._exchange: Final = exchange
        self._pid: Final = os.getpid()
        self.foreign: bool = False
        self.closed: bool = False
        _made.add(self)  # after the attributes that `_forked` uses

    def check_process(self) -> None:
        """Raise `WrongProcessError` if this process inherited the bus by a fork."""
        if self.foreign:
            raise WrongProcessError(self._pid, os.getpid())

    def check(self) -> None:
        """Raise unless the bus is open, and of this process."""
        self.check_process()
        if self.closed:
            raise UnknownTaskError("", f"bus {self._bus!r} is closed")


class Orphans:
    """What dropped iterators, collected calls and ended threads leave (BUS-DEREG-14).

    A finalizer may run while its thread holds any lock. So it only appends a function
    here, and a later call of the bus calls that.

    waiting: the functions, in order. append: the method of the deque itself, so that a
      finalizer runs no other code.
    """

    __slots__ = ("append", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], object]] = deque()
        self.append = self.waiting.append

    def close(self) -> None:
        """Deregister all orphans, and drop later ones: a closed bus has no tasks.

        They would keep the closed event loops of their calls.
        """
        self.deregister()
        self.waiting = deque(maxlen=0)
        self.append = self.waiting.append

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
