"""`Verdict`: the decision of another process on a join or on the name of a task.

`JoinState` is that of a process on its network: joined, refused, or undecided. The
caller that opens a bus waits for it. Its sources are the master's answer to the
handshake, a failure to reach the master, and a lack of trust.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import (
    AccessDeniedError,
    BusyError,
    MachineNameConflictError,
    VersionMismatchError,
)
from bus.kernel.wire import VERSIONS, Reason
from queuebroker import _sync
from queuebroker.waiting.parking import taken_lock

if TYPE_CHECKING:
    import _thread

    from bus.errors import BusError
    from bus.kernel.links.link_table import LinkTable
    from bus.kernel.wire import Identity, Refused

__all__ = ["JoinState", "Verdict"]


class Verdict:
    """A decision that is settled once, by the first caller, and has one waiter."""

    __slots__ = ("_decision", "_woken")

    def __init__(self) -> None:
        # Empty, or the decision. `dict.setdefault` is one step of the interpreter, so
        # no interrupt leaves it half settled. An interrupt may lose the wake-up; then
        # the waiter wakes at its deadline.
        self._decision: Final[dict[str, tuple[BusError | None]]] = {}
        self._woken: Final[_thread.LockType] = taken_lock()

    @property
    def settled(self) -> bool:
        """True once the decision is known."""
        return bool(self._decision)

    def settle(self, error: BusError | None = None) -> bool:
        """Grant, or refuse with an error; return False if it is already settled."""
        word = (error,)
        if self._decision.setdefault("it", word) is not word:
            return False
        self._woken.release()
        return True

    def wait(self, deadline: float) -> None:
        """Wait for the decision until a deadline; then settle it as granted.

        Raises:
            BusError: the decision is a refusal.
        """
        if not self.settled:
            _sync.park(self._woken, lambda: self.settled, deadline)
        (error,) = self._decision.setdefault("it", (None,))
        if error is not None:
            raise error


# The number of refusals after which the refusal of a duplicate name is final.
_REFUSALS: Final = 4


class JoinState:
    """The join state; all but ``verdict`` is for the comm thread alone.

    Args:
        me: the identity of this process.
        patient: True if a missing master is no failure.

    Attributes:
        verdict: the outcome; the caller that opens the bus waits for it.
    """

    __slots__ = ("_me", "_patient", "_refusals", "verdict")

    def __init__(self, me: Identity, *, patient: bool) -> None:
        self._me: Final = me
        self._patient: Final = patient
        self._refusals: int = 0
        self.verdict: Final = Verdict()

    @property
    def settled(self) -> bool:
        """True if the outcome is known."""
        return self.verdict.settled

    def check_answer(self, links: LinkTable, *, stands: bool) -> None:
        """Check for an answer of the master.

        stands: True if this process is master, or has a link with the master.
        """
        if stands:
            self.verdict.settle()
        elif (refusal := links.refusal) is not None:
            links.refusal = None
            self._refusals += 1
            error = _error_of(self._me, refusal)
            # The previous holder of the name may have just ended, unnoticed so far.
            again = refusal.reason is Reason.DUPLICATE and self._refusals < _REFUSALS
            if error is not None and not again:
                self.verdict.settle(error)

    def on_no_master(self) -> None:
        """Note that no process listens at the master's address."""
        if self._patient:
            self.verdict.settle()

    def on_denied(self, why: str) -> None:
        """Note why the master rejects this process, or this process the master."""
        self.verdict.settle(AccessDeniedError(f"join bus {self._me.bus!r}", why))


def _error_of(me: Identity, refusal: Refused) -> BusError | None:
    """Return the error for a refusal by the master.

    None if the master may answer differently the next time.
    """
    match refusal.reason:
        case Reason.BUSY | Reason.CLOSING:
            return None  # that process is no longer master, or not for long
        case Reason.VERSION:
            return VersionMismatchError(VERSIONS, refusal.versions)
        case Reason.DUPLICATE:
            name = f"process name {me.process!r} on bus {me.bus!r}"
            return BusyError(f"{name}; choose another, or none: open_bus(process=...)")
        case Reason.MACHINE_NAME:
            return MachineNameConflictError(me.machine)
        case Reason.ACCESS:
            fact = (
                f"machine {me.machine!r} is not the machine of the master there; "
                "another machine on this file system needs its own BUS_RUN_DIR"
            )
            return AccessDeniedError(f"join bus {me.bus!r}", fact)
        case reason:
            fact = f"the master rejects it: {reason.value}"
            return AccessDeniedError(f"join bus {me.bus!r}", fact)
