"""`HorizonStore`: the horizons of one process, in memory and on stable storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.hooks import Hooks
from bus.errors import HorizonError
from bus.horizon.horizons import Horizons, Store
from bus.horizon.log import HorizonLog
from bus.horizon.storage import DiskStorage

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterable

    from bus.durability import Durability
    from bus.horizon.format import Owner

__all__ = ["HorizonStore"]


class HorizonStore:
    """The horizons on which the exchange of a durable process performs `Store` actions.

    Args:
        log: the log, closed by `close`.
        ahead: see `Horizons`.

    Attributes:
        horizons: the horizons in memory, guarded by the lock of the exchange.
        incarnation: see `HorizonLog`.
    """

    __slots__ = ("_log", "horizons", "incarnation")

    def __init__(self, log: HorizonLog, *, ahead: int) -> None:
        self._log: Final = log
        self.horizons: Final = Horizons(log.horizons, ahead=ahead)
        self.incarnation: Final = log.incarnation

    @classmethod
    def open(cls, durability: Durability, owner: Owner) -> HorizonStore:
        """Open the directory of a process, and begin its next life.

        Raises:
            BusyError, HorizonError, OSError: see `DiskStorage` and `HorizonLog`.
        """
        log = HorizonLog(DiskStorage(durability.directory), owner)
        return cls(log, ahead=durability.ahead)

    def hooks(self) -> Hooks:
        """Return the hooks of the feature."""
        return Hooks(
            horizons=self.horizons,
            incarnation=self.incarnation,
            performers={Store: self.store},
            on_left=self.close,
        )

    def store(
        self, action: Store, queued: Iterable[object], lock: _thread.LockType
    ) -> None:
        """Store the horizon of an action, and in the same write those queued behind.

        With a write for each action, each frame of a round would wait for its own sync.

        queued: the actions behind this one, guarded by ``lock``.

        Raises:
            HorizonError: it cannot be stored. From now on no message from another
                process may be delivered or acknowledged.
        """
        if self._log.has({action.sender: action.horizon}):
            return  # an earlier write has stored it
        with lock:
            behind = [each for each in queued if isinstance(each, Store)]
        # The last horizon of a sender is the highest.
        group = {each.sender: each.horizon for each in (action, *behind)}
        try:
            self._log.store(group)
        except HorizonError:
            with lock:
                self.horizons.fail()  # before any action behind this one
            self.close()  # so that another process may use the directory
            raise

    def close(self) -> None:
        """Release the directory."""
        self._log.close()
