"""`LeaseAccount`: the long messages for one recipient, and its leases."""

from __future__ import annotations

from typing import Final

from bus.snapshot import LongMessageCounters
from queuebroker import _sync

__all__ = ["LeaseAccount"]


class LeaseAccount:
    """The counters of the long messages for one recipient, and the age of its leases.

    All methods are for the holder of the lock of `LinkMemory`.

    Invariant: ``shared == released + leases``.

    Attributes:
        shared, released, beyond_share, no_room, not_mapped: as `LongMessageCounters`.
    """

    __slots__ = (
        "_since",
        "beyond_share",
        "no_room",
        "not_mapped",
        "released",
        "shared",
    )

    def __init__(self) -> None:
        self.shared: int = 0
        self.released: int = 0
        self.beyond_share: int = 0
        self.no_room: int = 0
        self.not_mapped: int = 0
        # When each lease began, by its id; the oldest is first.
        self._since: Final[dict[int, float]] = {}

    @property
    def leases(self) -> int:
        """The number of leases that have not ended."""
        return len(self._since)

    @property
    def since(self) -> float | None:
        """When the oldest lease began, on the clock of `_sync.monotonic`."""
        return next(iter(self._since.values()), None)

    def begin(self, lease: int) -> None:
        """Count a message that the recipient has leased."""
        self.shared += 1
        self._since[lease] = _sync.monotonic()

    def end(self, lease: int) -> None:
        """Count the release of a lease that the recipient has."""
        del self._since[lease]
        self.released += 1

    def end_all(self) -> None:
        """Count the release of all leases, as the link is lost (MC-32)."""
        self.released += len(self._since)
        self._since.clear()

    def add(self, other: LeaseAccount) -> None:
        """Add the counters of another recipient, not its leases."""
        self.shared += other.shared
        self.released += other.released
        self.beyond_share += other.beyond_share
        self.no_room += other.no_room
        self.not_mapped += other.not_mapped

    def counters(self) -> LongMessageCounters:
        """Return the present counters."""
        return LongMessageCounters(
            shared=self.shared,
            released=self.released,
            beyond_share=self.beyond_share,
            no_room=self.no_room,
            not_mapped=self.not_mapped,
        )
