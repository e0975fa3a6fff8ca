"""`Discovery`: the part of one master in the discovery of machines.

It makes the announcements of its machine and reads those of others. It has no clock and
no socket: `bus.links.announcer` sends and receives for it.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
from msgspec.structs import replace

from bus.core.discovery.announcement_reader import AnnouncementReader, Rejection
from bus.core.discovery.machine_table import Change, Machine, MachineTable
from bus.core.wire import VERSIONS
from bus.core.wire.announcement import Announcement, encode_announcement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bus.core.wire import Identity

__all__ = ["INTERVALS_BEFORE_DIAL", "Discovery", "DiscoverySettings", "Event"]

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

    Not thread-safe: `bus.links.announcer` guards it by its lock.

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
