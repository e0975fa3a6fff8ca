"""`HorizonStore`: the horizons of one process, in memory and on stable storage.

`HorizonLog` has them on stable storage (AMO-20). The log is append-only. When the
process starts, and when the log has become long, it is rewritten into a second file,
which then takes the name of the first. Each step is synced before the next one relies
on it:

1. the horizons of a group before `store` returns, and so before their messages are
   handed over;
2. the second file before it is renamed; otherwise the name could refer to a file
   without contents;
3. the directory before `store` appends to the renamed file; otherwise a crash could
   restore the old file, without the appended groups.

`tests.crash_states` checks the states that a crash can leave between these steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import HorizonError
from bus.features.durable.format import Owner, groups, head, read
from bus.features.durable.horizons import Horizons, Store
from bus.features.durable.storage import DiskStorage
from bus.kernel.hooks import OpenHooks

if TYPE_CHECKING:
    import _thread
    from collections.abc import Iterable, Mapping

    from bus.features.durable.api import Durability
    from bus.features.durable.horizons import Horizon
    from bus.features.durable.storage import Storage

__all__ = ["HorizonLog", "HorizonStore"]

# Added to the last incarnation, so that the next life begins above all epochs that an
# earlier life can have begun (AMO-16).
_LIFE: Final = 2**32
# A log is rewritten when it is longer than this, and longer than a multiple of its
# length after the last rewrite.
_BYTES_MAX: Final = 1 << 18
_GROWTH: Final = 4
_MEND: Final = "check the storage and start this process again"


class HorizonLog:
    """The horizons of one process; a single thread at a time may use it.

    Args:
        storage: released by `close`, and if this constructor fails.
        owner: the process; its incarnation is the one taken from its clock.
        bytes_max: the length above which the log may be rewritten.

    Attributes:
        incarnation: the incarnation of this life: greater than those of all earlier
            lives, even if the clock was set back (AMO-17).
        horizons: the stored horizons, by sender.

    Invariant: while ``_appends`` is True, the name of the file refers to the file that
    `Storage.write` applies to, even after a crash. The first ``_size`` bytes of that
    file contain all of ``horizons``.

    Raises:
        HorizonError: the file is broken, or belongs to another process.
        OSError: the storage fails.
    """

    __slots__ = (
        "_appends",
        "_bytes_max",
        "_failure",
        "_owner",
        "_rewrite_at",
        "_size",
        "_storage",
        "horizons",
        "incarnation",
    )

    def __init__(
        self, storage: Storage, owner: Owner, *, bytes_max: int = _BYTES_MAX
    ) -> None:
        self._storage: Final = storage
        self._bytes_max: Final = bytes_max
        self._failure: str = ""
        self._size: int = 0
        self._rewrite_at: int = 0
        self._appends: bool = False
        self.horizons: Final[dict[str, Horizon]] = {}
        self.incarnation: int = owner.incarnation
        try:
            self._load(owner)
            self._owner: Final = Owner(
                owner.bus, owner.machine, owner.process, self.incarnation
            )
            self._rewrite()
        except BaseException:
            storage.close()
            raise

    def _load(self, owner: Owner) -> None:
        data = self._storage.read()
        if data is None:
            return
        path = self._storage.path
        before, horizons = read(data, path)
        if not owner.is_same(before):
            raise HorizonError(
                path,
                f"they are those of process {before.process!r} of machine "
                f"{before.machine!r} on bus {before.bus!r}, and this process is "
                f"{owner.process!r} of {owner.machine!r} on {owner.bus!r}",
                "give each process on each bus a directory of its own",
            )
        self.horizons.update(horizons)
        self.incarnation = max(owner.incarnation, before.incarnation + _LIFE)

    def has(self, horizons: Mapping[str, Horizon]) -> bool:
        """Return True if all these horizons are stored."""
        return not self._missing(horizons)

    def store(self, horizons: Mapping[str, Horizon]) -> None:
        """Store horizons, by sender; return when they are on stable storage.

        After an interrupt the caller may call this again with the same horizons.

        Raises:
            HorizonError: the storage fails, has failed before, or is closed. A failed
                sync may have lost earlier writes, so a later sync proves nothing.
        """
        missing = self._missing(horizons)
        if not missing:
            return
        if self._failure:
            raise HorizonError(self._storage.path, self._failure, _MEND)
        try:
            if not self._appends:
                self._rewrite()
            self._appends = False  # as in `_rewrite`
            for group in groups(missing):
                # Not several groups in one write: a crash could keep only the last one.
                self._storage.write(group, self._size)
                self._storage.sync()
                self._size += len(group)
            self.horizons.update(missing)
            self._appends = True
            if self._size > self._rewrite_at:
                self._rewrite()
        except OSError as error:
            self._failure = f"they cannot be stored: {error.strerror or error}"
            raise HorizonError(self._storage.path, self._failure, _MEND) from error

    def close(self) -> None:
        """Release the storage; the stored horizons remain."""
        self._failure = self._failure or "their log is closed"
        self._storage.close()

    def _missing(self, horizons: Mapping[str, Horizon]) -> dict[str, Horizon]:
        stored = self.horizons
        return {
            sender: each
            for sender, each in horizons.items()
            if sender not in stored or not stored[sender].covers(each)
        }

    def _rewrite(self) -> None:
        """Replace the file by one that has each horizon once."""
        storage = self._storage
        # An interrupt may come between the renaming and the end. Then `store` must not
        # append to either file before the next rewrite.
        self._appends = False
        data = b"".join([head(self._owner), *groups(self.horizons)])
        storage.create()
        storage.write(data, 0)
        storage.sync()
        storage.publish()
        storage.sync_directory()
        self._size = len(data)
        self._rewrite_at = max(self._bytes_max, _GROWTH * len(data))
        self._appends = True


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

    def hooks(self) -> OpenHooks:
        """Return the hooks of the feature."""
        return OpenHooks(
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
