"""`AnnouncementSurvey`: listens for announcements, without announcing a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.discovery.discovery import Discovery, DiscoverySettings
from bus.core.discovery.machine_table import Change
from queuebroker import _net, _sync

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.discovery.machine_table import Machine
    from bus.core.wire import Identity

__all__ = ["AnnouncementSurvey"]


class AnnouncementSurvey:
    """The announcements that reach this host during some time.

    Args:
        me: the identity of a process of this machine. Its own announcements are known
          by its name and its id.
        scheme: of the addresses, ``tls`` or ``tcp``.
        keys: the group keys; empty without keys.
        interval_s: the interval between the announcements of a machine, in seconds.

    conflicts: the machines whose name another one has.
    """

    __slots__ = ("_discovery", "conflicts")

    def __init__(
        self, me: Identity, scheme: str, keys: Sequence[bytes], interval_s: float
    ) -> None:
        settings = DiscoverySettings(
            host="127.0.0.1",  # this machine is not announced
            port=1,
            scheme=scheme,
            keys=keys,
            interval_s=interval_s,
            jitter=0.0,
            lease_s=60.0,  # nothing is forgotten in so short a time
        )
        # A higher instance than that of a master of this machine, which is its
        # predecessor then, and no conflict.
        self._discovery: Final = Discovery(me, _sync.wall_ns(), settings, lambda: 0.0)
        self.conflicts: Final[list[Machine]] = []

    def listen(self, datagrams: _net.Datagrams, until: float) -> None:
        """Read announcements until a time, on the monotonic clock in seconds."""
        while (left_s := until - _sync.monotonic()) > 0:
            _net.wait_to_read(datagrams.fileno(), left_s)
            while (found := datagrams.receive()) is not None:
                self._read(*found)
                if _sync.monotonic() >= until:
                    return

    def _read(self, data: bytes, host: str) -> None:
        event = self._discovery.on_datagram(data, host, _sync.monotonic())
        if event is not None and event.change is Change.CONFLICT:
            self.conflicts.append(event.machine)

    def machines(self) -> list[Machine]:
        """Return the machines that were found."""
        return list(self._discovery.machines)

    def rejected(self) -> dict[str, int]:
        """Return the number of ignored datagrams, by reason."""
        counted = self._discovery.reader.rejected
        return {reason.value: count for reason, count in counted.items()}
