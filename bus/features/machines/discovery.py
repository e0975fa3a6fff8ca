"""`Discovery`: the part of one master in the discovery of machines.

It makes the announcements of its machine and reads those of others. It has no clock and
no socket: `bus.features.machines.announcer` sends and receives for it.
"""

from __future__ import annotations

import ipaddress
import itertools
import math
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
from msgspec.structs import replace

from bus.errors import VersionMismatchError, WireError
from bus.features.machines.announcement import (
    Announcement,
    decode_announcement,
    encode_announcement,
    is_signed,
)
from bus.features.machines.machine_table import Change, Machine, MachineTable
from bus.kernel.wire import VERSIONS, negotiate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bus.kernel.wire import Identity

__all__ = [
    "INTERVALS_BEFORE_DIAL",
    "AnnouncementReader",
    "Discovery",
    "DiscoverySettings",
    "Event",
    "Rejection",
]

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

    Not thread-safe: `bus.features.machines.announcer` guards it by its lock.

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


# Intervals without a link after which the higher side of a pair dials, too (OPEN-20);
# and intervals of silence after which a lower instance counts as a restart
# (BUS-DISC-8).
INTERVALS_BEFORE_DIAL: Final = 3
# Maximum delay, as a fraction of the interval, of the extra announcement after a
# machine is found: a new machine need not wait a full interval.
_ANSWER_SHARE: Final = 0.1

_REJECTIONS: Final[Mapping[Change, Rejection]] = {
    Change.REPEATED: Rejection.REPEATED,
    Change.FULL: Rejection.TABLE_FULL,
    Change.CONFLICT: Rejection.CONFLICT,
    Change.IN_CONFLICT: Rejection.CONFLICT,
}


@attrs.frozen(kw_only=True)
class DiscoverySettings:
    """The settings of discovery.

    host, port: the address at which other masters dial this one.
    advertised: True if it is the address of a router that translates it.
    scheme: of all addresses, ``tls`` or ``tcp``.
    keys: the group keys, the newest first; empty without keys.
    interval_s: the interval between announcements, in seconds; jitter: its relative
      variation (BUS-DISC-3).
    lease_s: the silence, in seconds, after which a machine is forgotten (BUS-DISC-12).
    """

    host: str
    port: int
    scheme: str
    keys: Sequence[bytes] = attrs.field(repr=False)
    interval_s: float
    jitter: float
    lease_s: float
    advertised: bool = False


@attrs.frozen
class Event:
    """A change of the known machines.

    machine: the machine; for a conflict, the other machine of that name.
    patience_s: how long this machine waits for a link that the other one dials, in
      seconds; 0 for the lower machine (OPEN-20).
    """

    change: Change
    machine: Machine
    patience_s: float = 0.0


class Discovery:
    """The discovery of machines by one master, from its start as master to its end.

    Not thread-safe: `bus.features.machines.announcer` guards it by its lock.

    Args:
        me: the identity of the master.
        instance: higher than that of each earlier master of this machine.
        settings: the settings.
        random: returns numbers from 0 to 1, for the jitter.

    Attributes:
        reader: the checks, with their counters.
        machines: the known machines.
        due_at: the time of the next announcement; the first one is due at once.
    """

    def __init__(
        self,
        me: Identity,
        instance: int,
        settings: DiscoverySettings,
        random: Callable[[], float],
    ) -> None:
        self._settings: Final = settings
        self._random: Final = random
        self._announcement: Final = Announcement(
            bus=me.bus,
            machine=me.machine,
            machine_id=me.machine_id,
            instance=instance,
            counter=0,
            versions=VERSIONS,
            host=settings.host,
            port=settings.port,
            advertised=settings.advertised,
        )
        self._counter: Final = itertools.count(1)
        self._rank: Final = (me.machine_id, me.machine)
        interval_s = settings.interval_s
        self.reader: Final = AnnouncementReader(me.bus, instance, settings.keys)
        self.machines: Final = MachineTable(
            me.machine,
            me.machine_id,
            instance,
            INTERVALS_BEFORE_DIAL * interval_s,
            settings.scheme,
        )
        self.due_at: float = -math.inf

    def set_keys(self, keys: Sequence[bytes]) -> None:
        """Sign with these group keys from now on, and accept any of them."""
        self.reader.keys = keys

    # Out.

    def announce(self, now: float) -> bytes:
        """Return the next announcement, and schedule the one after it."""
        spread = self._settings.jitter * (2 * self._random() - 1)
        self.due_at = now + self._settings.interval_s * (1 + spread)
        return self._encoded(leaves=False)

    def leave_datagram(self) -> bytes:
        """Return the announcement that this master shuts down (BUS-DISC-9)."""
        return self._encoded(leaves=True)

    def _encoded(self, *, leaves: bool) -> bytes:
        announcement = msgspec.structs.replace(
            self._announcement, counter=next(self._counter), leaves=leaves
        )
        return encode_announcement(announcement, self.reader.keys)

    # In.

    def on_datagram(self, data: bytes, host: str, now: float) -> Event | None:
        """Read a datagram; return the change to act on, if any.

        host: the IP address from which it came.
        """
        announcement = self.reader.on_datagram(data, host, now)
        if announcement is None:
            return None
        leaving = self.machines.get(announcement.machine)
        change = self.machines.on_announcement(announcement, now)
        if change in _REJECTIONS:
            self.reader.rejected[_REJECTIONS[change]] += 1
        if change is Change.LEFT:
            assert leaving is not None
            return Event(change, replace(leaving))
        if change is Change.CONFLICT:
            return Event(change, self.machines.entry_of(announcement, now))
        if change not in {Change.FOUND, Change.RESTARTED}:
            return None
        # One answer serves all machines that are found until it is sent. If each of
        # them brought it forward, many machines that start at once would flood one
        # another: of N draws the least is a fraction of an N-th.
        longest_s = self._settings.interval_s * _ANSWER_SHARE
        if self.due_at > now + longest_s:
            self.due_at = now + longest_s * self._random()
        found = self.machines.get(announcement.machine)
        assert found is not None
        machine = replace(found)  # another thread reads it
        if self._rank < (machine.id, machine.name):
            return Event(change, machine)
        return Event(change, machine, INTERVALS_BEFORE_DIAL * self._settings.interval_s)

    def expire(self, now: float) -> list[Event]:
        """Remove the machines that were silent for the lease; return these changes.

        To be called when all datagrams that have arrived are read.
        """
        events = []
        while (first := self.machines.first_silent()) is not None:
            if now - first.announced_at < self._settings.lease_s:
                break
            self.machines.remove(first.name)
            events.append(Event(Change.SILENT, first))
        return events

    def next_deadline(self) -> float:
        """Return when the next call of `announce` or `expire` is due."""
        first = self.machines.first_silent()
        if first is None:
            return self.due_at
        return min(self.due_at, first.announced_at + self._settings.lease_s)
