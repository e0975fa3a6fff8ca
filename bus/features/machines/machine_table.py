"""`MachineTable`: the machines that have announced themselves (BUS-DISC-5 to 8)."""

from __future__ import annotations

import math
from collections import OrderedDict
from enum import Enum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from queuebroker.sockets.address import Address, Scheme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.features.machines.announcement import Announcement

__all__ = ["CONFLICTS_S", "MACHINES_MAX", "Change", "Machine", "MachineTable"]

MACHINES_MAX: Final = 256  # BUS-DISC-5
# Reported conflicts, and for how long none of them is reported again.
_CONFLICTS_MAX: Final = 64
CONFLICTS_S: Final = 600.0


class Change(Enum):
    """A change of the table, or the reason why there is none."""

    NONE = "none"
    FOUND = "found"
    RESTARTED = "restarted"
    LEFT = "left"
    SILENT = "silent"  # for too long
    CONFLICT = "conflict"  # and reported for the first time
    IN_CONFLICT = "in conflict"  # as reported before
    REPEATED = "repeated"
    FULL = "full"


class _Former(Struct, frozen=True):
    """An instance of a machine that a later one has replaced.

    counter: of an announcement of it. since: when it was replaced, in seconds.
    """

    instance: int
    counter: int
    since: float

    def is_alive(self, announcement: Announcement, now: float, quiet_s: float) -> bool:
        """Return True if it still announces itself, so that two machines are alike.

        quiet_s: for how long its last announcements may be under way, in seconds.
        """
        return (
            announcement.instance == self.instance
            and announcement.counter > self.counter
            and not announcement.leaves
            and now - self.since > quiet_s
        )


class Machine(Struct):
    """A machine that announces itself.

    id: the id of its host (BUS-DISC-8).
    instance: of its present master.
    address: the address at which that master is dialled.
    found_at, announced_at: the times, in seconds, of the first announcement of that
      instance, and of the latest one.
    counter: of the latest announcement.
    former: the instance before; None if none is known.
    """

    name: str
    id: str
    instance: int
    address: str
    found_at: float
    announced_at: float
    counter: int
    former: _Former | None = None


class MachineTable:
    """The other machines of a bus; bounded.

    Invariant: ``_machines`` is in the order of ``announced_at``. So the next lease to
    end is that of the first machine, however many there are.

    Args:
        machine, machine_id: this machine.
        instance: of this master.
        quiet_s: the silence, in seconds, after which an announcement with a lower
          instance is taken for a restart with a clock that was set back, and not for
          an old datagram.
        scheme: of the addresses, ``tls`` or ``tcp``.
    """

    __slots__ = (
        "_conflicts",
        "_conflicts_at",
        "_former",
        "_instance",
        "_machines",
        "_me",
        "_own_former",
        "_quiet_s",
        "_scheme",
    )

    def __init__(
        self, machine: str, machine_id: str, instance: int, quiet_s: float, scheme: str
    ) -> None:
        self._me: Final = (machine, machine_id)
        self._instance: Final = instance
        # An earlier master of this machine, when its first announcement arrived. Only
        # a clone of this machine sends further ones.
        self._own_former: _Former | None = None
        self._quiet_s: Final = quiet_s
        self._scheme: Final = scheme
        # A plain dict finds its first entry behind all those that were moved away.
        self._machines: Final[OrderedDict[str, Machine]] = OrderedDict()
        # The reported conflicts, each the name and the id of the other machine.
        # Bounded, since every member of the bus can invent ids.
        self._conflicts: Final[set[tuple[str, str]]] = set()
        self._conflicts_at = -math.inf
        # Machines that have left the table, so that recorded datagrams do not bring
        # them back. Bounded: the oldest goes first.
        self._former: Final[dict[str, Machine]] = {}

    def __iter__(self) -> Iterator[Machine]:
        """Iterate over the machines; the one that is silent for longest is first."""
        return iter(list(self._machines.values()))

    def get(self, name: str) -> Machine | None:
        """Return a machine; None if it is not known."""
        return self._machines.get(name)

    def first_silent(self) -> Machine | None:
        """Return the machine that is silent for longest; None if there is none."""
        return next(iter(self._machines.values()), None)

    def on_announcement(self, announcement: Announcement, now: float) -> Change:
        """Update the table; the first machine of a name stays (BUS-DISC-8)."""
        if announcement.machine == self._me[0]:
            return self._on_own_name(announcement, now)
        known = self._machines.get(announcement.machine)
        if known is None:
            return self._on_unknown(announcement, now)
        if known.id != announcement.machine_id:
            return self._conflict(announcement, now)
        return self._on_known(known, announcement, now)

    def _on_own_name(self, announcement: Announcement, now: float) -> Change:
        # The former master of this machine had a lower instance.
        former = announcement.instance < self._instance
        if former and announcement.machine_id == self._me[1]:
            earlier = self._own_former
            if earlier is None or earlier.instance != announcement.instance:
                earlier = _Former(announcement.instance, announcement.counter, now)
                self._own_former = earlier
            if not earlier.is_alive(announcement, now, self._quiet_s):
                return Change.NONE
        return self._conflict(announcement, now)

    def _on_known(
        self, known: Machine, announcement: Announcement, now: float
    ) -> Change:
        former = known.former
        if former is not None and former.is_alive(announcement, now, self._quiet_s):
            return self._conflict(announcement, now)
        if self._is_repeated(announcement, known, now):
            return Change.REPEATED
        if announcement.leaves:
            known.instance, known.counter = announcement.instance, announcement.counter
            known.announced_at = now
            self.remove(known.name)
            return Change.LEFT
        restarted = announcement.instance != known.instance
        if restarted:
            known.former = _Former(known.instance, known.counter, now)
        known.instance, known.counter = announcement.instance, announcement.counter
        known.announced_at = now
        self._machines.move_to_end(known.name)
        if not restarted:
            return Change.NONE
        known.found_at, known.address = now, self._address(announcement)
        return Change.RESTARTED

    def _is_repeated(
        self, announcement: Announcement, known: Machine, now: float
    ) -> bool:
        """Return True for a datagram that is older than the latest one."""
        if announcement.instance == known.instance:
            return announcement.counter <= known.counter
        quiet = now - known.announced_at > self._quiet_s
        return announcement.instance < known.instance and not quiet

    def remove(self, name: str) -> None:
        """Remove a machine that has left, or was silent for too long."""
        self._former.pop(name, None)
        self._former[name] = self._machines.pop(name)
        if len(self._former) > MACHINES_MAX:
            del self._former[next(iter(self._former))]

    def _on_unknown(self, announcement: Announcement, now: float) -> Change:
        if announcement.leaves:
            return Change.NONE
        former = self._former.get(announcement.machine)
        if (
            former is not None
            and former.id == announcement.machine_id
            and self._is_repeated(announcement, former, now)
        ):
            return Change.REPEATED
        if len(self._machines) >= MACHINES_MAX:
            return Change.FULL
        self._machines[announcement.machine] = self.entry_of(announcement, now)
        return Change.FOUND

    def entry_of(self, announcement: Announcement, now: float) -> Machine:
        """Return the entry of an announced machine, without a place in the table."""
        return Machine(
            name=announcement.machine,
            id=announcement.machine_id,
            instance=announcement.instance,
            address=self._address(announcement),
            found_at=now,
            announced_at=now,
            counter=announcement.counter,
        )

    def _conflict(self, announcement: Announcement, now: float) -> Change:
        if now - self._conflicts_at >= CONFLICTS_S:
            self._conflicts.clear()
            self._conflicts_at = now
        other = (announcement.machine, announcement.machine_id)
        if other in self._conflicts or len(self._conflicts) >= _CONFLICTS_MAX:
            return Change.IN_CONFLICT
        self._conflicts.add(other)
        return Change.CONFLICT

    def _address(self, announcement: Announcement) -> str:
        return str(Address(Scheme(self._scheme), announcement.host, announcement.port))
