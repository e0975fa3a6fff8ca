"""`Joining`: whether a process has found the others of its bus, or why it may not.

Who opens a bus waits for that. What it is told comes from three sides: the master's
answer to the greeting, who cannot be reached, and who is not to be trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.wire import VERSIONS, Reason
from bus.errors import (
    AccessDeniedError,
    BusyError,
    MachineNameConflictError,
    VersionMismatchError,
)
from bus.threads.verdict import Verdict

if TYPE_CHECKING:
    from bus.core.links import Links
    from bus.core.wire import Identity, Refused
    from bus.errors import BusError

__all__ = ["Joining"]

# How often a process may be told that its name is taken before that is believed.
_REFUSALS: Final = 4


class Joining:
    """How one process stands; for its comm thread alone, but for ``verdict``.

    Args:
        me: who it is.
        patient: whether it is well that there is no master yet.

    Attributes:
        verdict: what whoever opens the bus waits for.
    """

    __slots__ = ("_me", "_patient", "_refusals", "verdict")

    def __init__(self, me: Identity, *, patient: bool) -> None:
        self._me: Final = me
        self._patient: Final = patient
        self._refusals: int = 0
        self.verdict: Final = Verdict()

    @property
    def settled(self) -> bool:
        """Whether it is known how this process stands."""
        return self.verdict.settled

    def look(self, links: Links, *, stands: bool) -> None:
        """See what the master has said.

        stands: whether this process is master, or has a link with who is.
        """
        if stands:
            self.verdict.settle()
        elif (refusal := links.refusal) is not None:
            links.refusal = None
            self._refusals += 1
            error = _turned_away(self._me, refusal)
            # Who had the name before may just have ended, and be missed soon.
            again = refusal.reason is Reason.DUPLICATE and self._refusals < _REFUSALS
            if error is not None and not again:
                self.verdict.settle(error)

    def no_master(self) -> None:
        """Note that nobody listens where the master should."""
        if self._patient:
            self.verdict.settle()

    def denied(self, why: str) -> None:
        """Note that the master wants no link with this process, or this one with it."""
        self.verdict.settle(AccessDeniedError(f"join bus {self._me.bus!r}", why))


def _turned_away(me: Identity, refusal: Refused) -> BusError | None:
    """Return the error for what the master has said to the greeting.

    None if it may say something else the next time.
    """
    match refusal.reason:
        case Reason.BUSY | Reason.CLOSING:
            return None  # it is master no more, or not for long
        case Reason.VERSION:
            return VersionMismatchError(VERSIONS, refusal.versions)
        case Reason.DUPLICATE:
            name = f"process name {me.process!r} on bus {me.bus!r}"
            return BusyError(f"{name}; choose another, or none: open_bus(process=...)")
        case Reason.MACHINE_NAME:
            return MachineNameConflictError(me.machine)
        case Reason.ACCESS:
            fact = f"machine {me.machine!r} is not what the master there is on"
            return AccessDeniedError(f"join bus {me.bus!r}", fact)
        case reason:
            fact = f"the master says {reason.value}"
            return AccessDeniedError(f"join bus {me.bus!r}", fact)
