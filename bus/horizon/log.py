"""`HorizonLog`: the horizons of one process on stable storage (AMO-20).

The log only grows, and is rewritten when the process starts, and when it has become
long: into a second file, which then takes the name of the first. Each step is synced
before the next one relies on it:

1. the horizons of a group before `store` returns, and so before their messages are
   handed over;
2. the second file before it is renamed, else the name could lead to a file without
   contents;
3. the directory before `store` appends to the renamed file, else the old file could
   come back, without what was appended.

`tests.crash_states` checks what any crash leaves of these steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import HorizonError
from bus.horizon.format import Owner, groups, head, read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.core.streams.horizons import Horizon
    from bus.horizon.storage import Storage

__all__ = ["HorizonLog"]

# Above the epochs that an earlier life can have begun (AMO-16).
_LIFE: Final = 2**32
# A log is rewritten when it is longer than this, and than a multiple of its contents.
_BYTES_MAX: Final = 1 << 18
_GROWTH: Final = 4
_MEND: Final = "check the storage and start this process again"


class HorizonLog:
    """The horizons of one process; a single thread at a time may use it.

    Args:
        storage: released by `close`, and if this constructor fails.
        owner: the process; its incarnation is the one that its clock gives.
        bytes_max: the length above which the log may be rewritten.

    Attributes:
        incarnation: the incarnation of this life: above those of all earlier lives,
            also if the clock was set back (AMO-17).
        horizons: the stored horizons, by sender.

    Invariant: while ``_appends`` is True, the name of the file leads to the file that
    `Storage.write` applies to, even after a crash; it has all of ``horizons`` in its
    first ``_size`` bytes.

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
                f"{before.machine!r} on bus {before.bus!r}, this is "
                f"{owner.process!r} of {owner.machine!r} on {owner.bus!r}",
                "give each process on each bus a directory of its own",
            )
        self.horizons.update(horizons)
        self.incarnation = max(owner.incarnation, before.incarnation + _LIFE)

    def has(self, horizons: Mapping[str, Horizon]) -> bool:
        """Return True if all these horizons are stored."""
        return not self._missing(horizons)

    def store(self, horizons: Mapping[str, Horizon]) -> None:
        """Return when these horizons, by sender, are on stable storage.

        After an interrupt it may be called again with the same horizons.

        Raises:
            HorizonError: the storage fails, or has failed before, or is closed. A
                failed sync may have lost earlier writes, so no later one is trusted.
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
                # Not several groups at once: a crash could leave the last of them.
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
        """Release the storage; what is stored remains."""
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
        # An interrupt may come between the renaming and the end. Then nothing may be
        # appended to either file before the next rewriting.
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
