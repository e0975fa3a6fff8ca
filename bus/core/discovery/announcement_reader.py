"""`AnnouncementReader`: checks received datagrams (BUS-DISC-11, BUS-SEC-6, OPEN-19)."""

from __future__ import annotations

import ipaddress
import math
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Final

from bus.core.wire import VERSIONS, negotiate
from bus.core.wire.announcement import Announcement, decode_announcement, is_signed
from bus.errors import VersionMismatchError, WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AnnouncementReader", "Rejection"]

# Bounds for each second: for signed datagrams of one host, on which several machines
# may be, and of all hosts; and for unsigned ones that are decoded only to count the
# reason. To check a signature takes about as long as to receive a datagram. So unsigned
# ones do not count against a host, whose address an attacker could use as its own.
_FROM_ONE_HOST_MAX: Final = 512
_FROM_ALL_HOSTS_MAX: Final = 2048
_UNSIGNED_MAX: Final = 64
_PERIOD_S: Final = 1.0


class Rejection(Enum):
    """The reason for which a datagram is ignored."""

    MALFORMED = "malformed"
    OTHER_BUS = "of another bus"
    VERSION = "of another protocol version"
    UNAUTHENTICATED = "not signed with the group key"
    OTHER_HOST = "from another host than its address"
    TOO_MANY = "beyond the rate that is read"
    REPEATED = "repeated"
    TABLE_FULL = "of one machine too many"
    CONFLICT = "of a machine whose name is in use"


class AnnouncementReader:
    """The checks of the datagrams that one master receives.

    Not thread-safe: `bus.links.announcer` guards it by its lock.

    rejected: the number of ignored datagrams, by reason.
    read: the number of datagrams that passed these checks; `Discovery` may still reject
      some. Those of this master itself are not counted.

    Args:
        bus: the name of the bus.
        instance: of this master; its own datagrams are not rejected, but skipped.
        keys: the group keys; empty without keys.

    Attributes:
        keys: the same; `Discovery.set_keys` replaces them.
    """

    __slots__ = (
        "_bus",
        "_from_hosts",
        "_instance",
        "_period_at",
        "_total",
        "_unsigned",
        "keys",
        "read",
        "rejected",
    )

    def __init__(self, bus: str, instance: int, keys: Sequence[bytes]) -> None:
        self._bus: Final = bus
        self._instance: Final = instance
        self.keys: Sequence[bytes] = keys
        # The present period: its start, and the datagrams in it.
        self._period_at = -math.inf
        self._from_hosts: Final[Counter[str]] = Counter()
        self._total = self._unsigned = 0
        self.read = 0
        self.rejected: Final[Counter[Rejection]] = Counter()

    def on_datagram(self, data: bytes, host: str, now: float) -> Announcement | None:
        """Return the announcement in a datagram; None if it is to be ignored.

        host: the IP address from which the datagram came.
        now: the present time, in seconds, of any clock that does not go back.
        """
        if now - self._period_at >= _PERIOD_S:
            self._period_at, self._total, self._unsigned = now, 0, 0
            self._from_hosts.clear()
        if not is_signed(data, self.keys):
            self.rejected[self._why_unsigned(data)] += 1
            return None
        if self._is_too_many(host):
            self.rejected[Rejection.TOO_MANY] += 1
            return None
        try:
            announcement = decode_announcement(data)
        except WireError:
            self.rejected[Rejection.MALFORMED] += 1
            return None
        reason = self._objection(announcement)
        if reason is None and not _may_come_from(announcement, host):
            reason = Rejection.OTHER_HOST
        if reason is not None:
            self.rejected[reason] += 1
            return None
        if announcement.instance == self._instance:
            return None
        self.read += 1
        return announcement

    def _why_unsigned(self, data: bytes) -> Rejection:
        """Return the reason that helps most to find the fault."""
        self._unsigned += 1
        if self._unsigned > _UNSIGNED_MAX:
            return Rejection.UNAUTHENTICATED
        try:
            announcement = decode_announcement(data)
        except WireError:
            return Rejection.MALFORMED
        return self._objection(announcement) or Rejection.UNAUTHENTICATED

    def _objection(self, announcement: Announcement) -> Rejection | None:
        if announcement.bus != self._bus:
            return Rejection.OTHER_BUS
        try:
            negotiate(VERSIONS, announcement.versions)
        except VersionMismatchError:
            return Rejection.VERSION
        return None

    def _is_too_many(self, host: str) -> bool:
        if self._total >= _FROM_ALL_HOSTS_MAX:
            return True
        if self._from_hosts[host] >= _FROM_ONE_HOST_MAX:
            return True
        self._total += 1
        self._from_hosts[host] += 1
        return False


def _may_come_from(announcement: Announcement, source: str) -> bool:
    """Return True if an address may be announced by a datagram from another one."""
    if announcement.host == source:
        return True
    announced, came = map(ipaddress.ip_address, (announcement.host, source))
    if not announcement.advertised:
        return announced == came
    # No router translates these; a member could make all masters dial a service of
    # their own hosts.
    return not announced.is_link_local and (
        not announced.is_loopback or came.is_loopback
    )
