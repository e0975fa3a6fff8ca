"""`Trace`: one message as a journal knows it, and what becomes of it.

A message carries its trace with it, through whatever threads, FIFOs and relays; where
nothing is recorded it has none. So each place that takes a step with a message tells of
that step, and none of them knows a journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from bus.errors import (
    AccessDeniedError,
    AddresseeGoneError,
    BusFullError,
    ExpiredError,
    InDoubtError,
    MessageTooLargeError,
    PeerLostError,
    UnreachableError,
    UnresolvedError,
)
from bus.events import BusOperation, BusReason
from bus.message import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.core.routing_table import Overflow
    from bus.errors import BusError

__all__ = ["Trace", "Tracer", "Witness", "dropped_by"]

_REASONS: Final[dict[type[BusError], BusReason]] = {
    AccessDeniedError: BusReason.DENIED,
    AddresseeGoneError: BusReason.ADDRESSEE_GONE,
    BusFullError: BusReason.FULL,
    ExpiredError: BusReason.EXPIRED,
    InDoubtError: BusReason.PROCESS_LOST,
    MessageTooLargeError: BusReason.TOO_LONG,
    UnreachableError: BusReason.UNREACHABLE,
    UnresolvedError: BusReason.UNRESOLVED,
}
_DROPPED: Final[dict[Overflow, BusReason]] = {
    "drop-oldest": BusReason.OLDEST,
    "drop-newest": BusReason.NEWEST,
}
_ANSWERS: Final = {
    Kind.COMMAND: Kind.COMMAND_RESPONSE,
    Kind.NOTIFICATION: Kind.NOTIFICATION_RESPONSE,
}


def dropped_by(overflow: Overflow) -> BusReason:
    """Return why a message is dropped where that is the policy."""
    return _DROPPED.get(overflow, BusReason.FULL)


class Witness(Protocol):
    """Who is told what happens on the bus, in this process: a `BusRecorder`.

    Nothing of it raises or waits. What each is called for, and when, says that class.
    """

    def __call__(
        self,
        operation: BusOperation,
        origin: int,
        mid: int,
        destination: int,
        hop: int = 0,
        size: int = 0,
        reason: BusReason | int = 0,
        kind: Kind = Kind.COMMAND,
    ) -> None:
        """One step of one message."""

    def registered(self, registration: int, name: str) -> None:
        """A task has its name; or, without one, it is the process itself."""

    def deregistered(self, registration: int) -> None:
        """A task has left."""

    def moved(self, registration: int) -> None:
        """A task has another thread."""

    def link_up(self, pid: int, machine: str, process: str) -> None:
        """Another process can be spoken with."""

    def link_down(
        self, pid: int, machine: str, process: str, reason: BusReason
    ) -> None:
        """It cannot any more."""


class Trace:
    """What is told of one message for one destination, and to whom.

    Args:
        witness: who is told.
        kind: of the message.
        origin: the registration that sends it.
        size: of its payload, in bytes.
        numbers: where its number comes from as soon as it is accepted anywhere; under
          the lock of where that is, so that one destination sees them rise, whatever
          threads send. None if it has one.
        mid: that number. destination: whom it is for, 0 as long as nobody has it.
        hop: how many links it has passed.
        accepted_as: what is told when somebody has it, None for nothing: another
          process has told that already.

    A message that nobody has accepted yet is in no record, whatever becomes of it.
    """

    __slots__ = (
        "_accepted_as",
        "_gone",
        "_numbers",
        "destination",
        "hop",
        "kind",
        "mid",
        "origin",
        "size",
        "witness",
    )

    def __init__(
        self,
        witness: Witness,
        kind: Kind,
        origin: int,
        size: int,
        *,
        numbers: Iterator[int] | None = None,
        mid: int = 0,
        destination: int = 0,
        hop: int = 0,
        accepted_as: BusOperation | None = None,
    ) -> None:
        self.witness: Final = witness
        self.kind: Final = kind
        self.origin: Final = origin
        self.size: Final = size
        self.mid: int = mid
        self.destination: int = destination
        self.hop: Final = hop
        self._numbers: Final = numbers
        self._accepted_as: Final = accepted_as
        self._gone: bool = False  # whether `destination` has given it back

    # Other messages, of which this one is the reason.

    def for_hearer(self) -> Trace:
        """Return that of a notification for one process, or one task that hears it."""
        return Trace(
            self.witness,
            self.kind,
            self.origin,
            self.size,
            mid=self.mid,
            hop=self.hop,
            accepted_as=BusOperation.NOTIFY,
        )

    def answer(self, responder: int, size: int) -> Trace:
        """Return that of an answer to it."""
        return Trace(
            self.witness,
            _ANSWERS[self.kind],
            responder,
            size,
            mid=self.mid,
            accepted_as=BusOperation.RESPOND,
        )

    # What happens to it.

    def number(self) -> None:
        """Give it its number, unless it has one: it keeps its turn from now on."""
        if not self.mid:
            assert self._numbers is not None
            self.mid = next(self._numbers)

    def accepted(self, destination: int) -> None:
        """It is about to be put where it waits for a task, or for a link to one."""
        self.number()
        if self._accepted_as is None:
            return
        if self.destination not in {0, destination} and not self._gone:
            self.discarded(BusReason.ADDRESSEE_GONE)
        self.destination, self._gone = destination, False
        self._tell(self._accepted_as)

    def sent(self) -> None:
        """It is about to be put on a link."""
        self._tell(BusOperation.RELAY_OUT, hop=self.hop + 1)

    def arrived(self) -> None:
        """It was read from a link, and accepted by its stream."""
        self._tell(BusOperation.RELAY_IN)

    def extracted(self) -> None:
        """Its receiver has taken it out of its FIFO."""
        self._tell(BusOperation.EXTRACT)

    def delivered(self) -> None:
        """Its receiver is about to get it."""
        self._tell(BusOperation.DELIVER)

    def discarded(self, reason: BusReason) -> None:
        """Its destination will not get it, and nobody is told why."""
        if self.destination and not self._gone:
            self._gone = True
            self._tell(BusOperation.DISCARD, reason=reason)

    def lost(self, reason: BusReason) -> None:
        """It was put on a link that is lost; nobody knows whether it is delivered."""
        self._tell(BusOperation.IN_DOUBT, reason=reason)

    def failed(
        self, error: BusError, reason: BusReason | None = None, *, told: bool
    ) -> None:
        """Its destination will not get it.

        reason: if the error does not say it. told: whether its sender learns that.
        """
        if not self.destination or isinstance(error, PeerLostError):
            return  # who has it had taken it before it was lost
        reason = reason or _REASONS[type(error)]
        if isinstance(error, InDoubtError):
            self.lost(reason)
        elif told:
            self._tell(BusOperation.UNDELIVERED, reason=reason)
        else:
            self.discarded(reason)

    def _tell(
        self, operation: BusOperation, hop: int | None = None, reason: int = 0
    ) -> None:
        self.witness(
            operation,
            self.origin,
            self.mid,
            self.destination,
            self.hop if hop is None else hop,
            self.size,
            reason,
            self.kind,
        )


class Tracer:
    """Makes the traces of what one task sends.

    origin: its registration. numbers: those of its messages, which only rise.
    """

    __slots__ = ("_numbers", "_origin", "_witness")

    def __init__(self, witness: Witness, origin: int, numbers: Iterator[int]) -> None:
        self._witness: Final = witness
        self._origin: Final = origin
        self._numbers: Final = numbers

    def command(self, size: int) -> Trace:
        """Return the trace of a command."""
        return self._trace(Kind.COMMAND, size, BusOperation.COMMAND)

    def notification(self, size: int) -> Trace:
        """Return the trace of a notification, for one task of this process."""
        return self._trace(Kind.NOTIFICATION, size, BusOperation.NOTIFY)

    def notification_abroad(self, size: int) -> Trace:
        """Return the trace of one on its way to whoever hears it in other processes.

        For each of these it gets another one, with its number.
        """
        return self._trace(Kind.NOTIFICATION, size, None)

    def _trace(self, kind: Kind, size: int, accepted_as: BusOperation | None) -> Trace:
        return Trace(
            self._witness,
            kind,
            self._origin,
            size,
            numbers=self._numbers,
            accepted_as=accepted_as,
        )
