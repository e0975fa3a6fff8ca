"""`HorizonStore`: the horizons of one process, in memory and on stable storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.local.actions import Store
from bus.core.streams.horizons import Horizons
from bus.errors import HorizonError
from bus.horizon.log import HorizonLog
from bus.horizon.storage import DiskStorage

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable, Iterable

    from bus.durability import Durability
    from bus.horizon.format import Owner

__all__ = ["HorizonStore", "horizons_of"]


class HorizonStore:
    """What the exchange of a durable process needs to perform `Store` actions.

    Args:
        log: the log, closed by `close`.
        ahead: see `Horizons`.

    Attributes:
        horizons: decides; used under the lock of the exchange.
        incarnation: see `HorizonLog`.
        on_lost: called once a horizon is not stored: no message from another process
            may be delivered, or acknowledged, any more. The caller holds no lock.
    """

    __slots__ = ("_log", "horizons", "incarnation", "on_lost")

    def __init__(self, log: HorizonLog, *, ahead: int) -> None:
        self._log: Final = log
        self.horizons: Final = Horizons(log.horizons, ahead=ahead)
        self.incarnation: Final = log.incarnation
        self.on_lost: Callable[[HorizonError], object] = lambda _: None

    @classmethod
    def open(cls, durability: Durability, owner: Owner) -> HorizonStore:
        """Open the directory of a process, and begin another life of it.

        Raises:
            BusyError, HorizonError, OSError: see `DiskStorage` and `HorizonLog`.
        """
        log = HorizonLog(DiskStorage(durability.directory), owner)
        return cls(log, ahead=durability.ahead)

    def store(
        self, action: Store, queued: Iterable[object], lock: _thread.LockType
    ) -> None:
        """Store the horizon of an action, and by the same write all that wait behind.

        Without this each frame of a round would wait for a sync of its own.

        queued: the actions behind this one, guarded by ``lock``.
        """
        if self._log.has({action.sender: action.horizon}):
            return  # by an earlier write
        with lock:
            behind = [each for each in queued if isinstance(each, Store)]
        # The last one of a sender is the highest.
        group = {each.sender: each.horizon for each in (action, *behind)}
        try:
            self._log.store(group)
        except HorizonError as error:
            with lock:
                self.horizons.fail()  # before any action behind this one
            self.close()  # no more is stored, so another process may take over
            self.on_lost(error)

    def close(self) -> None:
        """Release the directory."""
        self._log.close()


def horizons_of(store: HorizonStore | None) -> Horizons | None:
    """Return the horizons of a process; None if it is volatile."""
    return None if store is None else store.horizons
