"""`MachineInfo`: another machine, as a master knows it (BUS-DISC-13)."""

from __future__ import annotations

import enum

from msgspec import Struct

__all__ = ["MachineInfo", "MachineState"]


class MachineState(enum.Enum):
    """The progress of one master towards a link with another one.

    LINKED: a link is open.
    DIALLING: this master dials the other one, again and again.
    WAITING: the other master is to dial this one: it has the lower id (OPEN-20), or had
      dialled the lost link.
    REFUSED: as DIALLING, but one of the two machines has refused the other one.
    CONFLICT: another machine has its name, which may be that of this one; it gets no
      link (BUS-DISC-8).
    """

    LINKED = "linked"
    DIALLING = "dialling"
    WAITING = "waiting"
    REFUSED = "refused"
    CONFLICT = "conflict"


class MachineInfo(Struct, frozen=True, kw_only=True):
    """Another machine that a master has found, was given, or is linked with.

    name: its name; in a conflict perhaps that of this machine; None for a static
      address whose machine is not known yet.
    address: where its master listens; None if this master was never given an address,
      since the other one has dialled. In a conflict it may be the host that has
      dialled, without a port.
    state: the progress towards a link with it.
    since_s: for how long it has been linked or, in any other state, without a link, in
      seconds; None if its first dial has not ended.
    round_trip_s: the time from the last PING to its answer, in seconds; None without a
      link, or before the first answer.
    why: the reason why there is no link; empty if it is linked, or no dial has failed.
    """

    name: str | None
    address: str | None
    state: MachineState
    since_s: float | None
    round_trip_s: float | None
    why: str
