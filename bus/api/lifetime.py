"""`Lifetime`: the time in which a bus may be used, and the process that may use it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from bus.errors import UnknownTaskError, WrongProcessError

if TYPE_CHECKING:
    from bus.threads.exchange import Exchange

__all__ = ["Lifetime"]

# The lifetimes of the buses that this process has created; a forked child has none
# (BUS-INIT-16).
_made: Final[WeakSet[Lifetime]] = WeakSet()


def _forked() -> None:
    """Disable the inherited buses: they have no threads, and locks may be taken."""
    for lifetime in _made:
        lifetime.foreign = True
        for entry in lifetime._exchange.manager.table:
            entry.order = object()  # ends the send batches, so that a send raises


os.register_at_fork(after_in_child=_forked)


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
