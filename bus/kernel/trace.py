"""`Trace`: one message as a journal records it, and each of its steps.

A message carries its trace through all threads, FIFOs and relays. If nothing is
recorded, it has none. So each place that handles the message reports its step, and no
such place depends on a journal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from bus.errors import (
    AccessDeniedError,
    AddresseeGoneError,
    BusFullError,
    ExpiredError,
    InDoubtError,
    MessageTooLargeError,
    MovedError,
    PeerLostError,
    UnreachableError,
    UnresolvedError,
)
from bus.model.events import BusOperation, BusReason
from bus.model.message import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bus.errors import BusError
    from bus.model.registration import Overflow

__all__ = ["Journal", "Trace", "TraceSink", "TracedPayload", "Tracer", "dropped_by"]

_REASONS: Final[dict[type[BusError], BusReason]] = {
    AccessDeniedError: BusReason.DENIED,
    AddresseeGoneError: BusReason.ADDRESSEE_GONE,
    BusFullError: BusReason.FULL,
    ExpiredError: BusReason.EXPIRED,
    InDoubtError: BusReason.PROCESS_LOST,
    MessageTooLargeError: BusReason.TOO_LONG,
    MovedError: BusReason.ADDRESSEE_GONE,
    UnreachableError: BusReason.UNREACHABLE,
    UnresolvedError: BusReason.UNRESOLVED,
}
_DROPPED: Final[dict[Overflow, BusReason]] = {
    "drop-oldest": BusReason.OLDEST,
    "drop-newest": BusReason.NEWEST,
}
# An attribute of an enumeration is slow to read.
_COMMAND, _NOTIFICATION = Kind.COMMAND, Kind.NOTIFICATION
_COMMANDED, _NOTIFIED = BusOperation.COMMAND, BusOperation.NOTIFY
_EXTRACTED, _DELIVERED = BusOperation.EXTRACT, BusOperation.DELIVER
_ANSWERS: Final = {
    Kind.COMMAND: Kind.COMMAND_RESPONSE,
    Kind.NOTIFICATION: Kind.NOTIFICATION_RESPONSE,
}


def dropped_by(overflow: Overflow) -> BusReason:
    """Return the reason recorded for a message that an overflow policy drops."""
    return _DROPPED.get(overflow, BusReason.FULL)


class TraceSink(Protocol):
    """The trace sink: it records the events on the bus in this process.

    It is a `BusRecorder`, which documents when each method is called. No method raises
    or blocks.

    keeps_payloads: returns True if the payloads of the messages from or to the task of
      a name are kept; None if no payload is.
    """

    @property
    def keeps_payloads(self) -> Callable[[str], bool] | None:
        """As above."""

    def write_payload(
        self, payload: Any, encoded: bytes | memoryview | None, *, failed: bool
    ) -> tuple[int, int]:
        """Write a payload; return flags and location for the records that name it.

        encoded: its encoding, if there is one already.
        failed: True for the text of an error in the place of an answer.
        """

    def record(
        self,
        operation: BusOperation,
        origin: int,
        mid: int,
        destination: int,
        hop: int = 0,
        size: int = 0,
        reason: BusReason | int = 0,
        kind: Kind = Kind.COMMAND,
        flags: int = 0,
        location: int = 0,
    ) -> None:
        """Record one step of one message; flags, location: of `write_payload`."""

    def on_registered(self, registration: int, name: str) -> None:
        """Record that a task has its name; an empty name means the process itself."""

    def on_task_event(
        self,
        operation: BusOperation,
        registration: int,
        number: int = 0,
        name: str = "",
    ) -> None:
        """Record an event of a registered task; a feature reports its own events.

        number, name: facts about the event, as `BusRecorder` lists them.
        """

    def link_up(self, pid: int, machine: str, process: str) -> None:
        """Record that another process is reachable."""

    def link_down(
        self, pid: int, machine: str, process: str, reason: BusReason
    ) -> None:
        """Record that another process is no longer reachable."""


@runtime_checkable
class Journal(Protocol):
    """A journal as `bus.open_bus` takes it: a `bus.journal.writer.Journal`."""

    @property
    def closed(self) -> bool:
        """True if nothing is recorded any more."""

    def _trace_sink(self) -> TraceSink:
        """Return a new trace sink for one process on one bus."""


class TracedPayload:
    """The payload of a message, for the journal, which writes it on acceptance.

    The traces of one notification share it, so it is written once. It is written at the
    first acceptance and not before: most journals would fill with notifications that no
    task subscribes to, and with commands that a full inbox refuses.

    failed: True for the text of an error in the place of an answer.
    """

    __slots__ = ("_content", "_failed", "_trace_sink", "_written")

    def __init__(
        self,
        trace_sink: TraceSink,
        payload: Any,
        encoded: bytes | memoryview | None = None,
        *,
        failed: bool = False,
    ) -> None:
        self._trace_sink: Final = trace_sink
        self._failed: Final = failed
        self._content: tuple[Any, bytes | memoryview | None] | None = payload, encoded
        self._written: tuple[int, int] = 0, 0

    def drop_encoding(self) -> None:
        """Free the encoding: the message will wait, and its size counts only once."""
        if (content := self._content) is not None:
            self._content = content[0], None

    def write(self) -> tuple[int, int]:
        """Write the payload unless it is written; return its flags and location.

        Two threads may call it at once: one command to several tasks is several
        messages with one body. Then it may be written twice, and either place is right.
        The payload is freed: it may lie in shared memory, which is used again after its
        last view.
        """
        if (content := self._content) is not None:
            payload, encoded = content
            self._written = self._trace_sink.write_payload(
                payload, encoded, failed=self._failed
            )
            self._content = None
        return self._written


class Trace:
    """The trace of one message for one destination.

    Args:
        trace_sink: the trace sink.
        kind: of the message.
        origin: the registration that sends it.
        size: of its payload, in bytes.
        numbers: source of the message's number, which is drawn when the message is
          first accepted. The lock of the accepting place is held meanwhile. So the
          numbers rise at each destination, regardless of the sending threads. None if
          the message has a number.
        mid: that number. hop: how many links it has passed.
        accepted_as: the operation to record when it is accepted; None for none, such as
          when another process has recorded it already.
        payload: its payload, if the journal of this process keeps it.

    destination: its receiver; 0 until the message is accepted. One that
      came over a link is given its destination at once.

    A message that is accepted nowhere leaves no record.
    """

    __slots__ = (
        "_accepted_as",
        "_gone",
        "_numbers",
        "_payload",
        "destination",
        "hop",
        "kind",
        "mid",
        "origin",
        "size",
        "trace_sink",
    )

    def __init__(
        self,
        trace_sink: TraceSink,
        kind: Kind,
        origin: int,
        size: int,
        *,
        numbers: Iterator[int] | None = None,
        mid: int = 0,
        hop: int = 0,
        accepted_as: BusOperation | None = None,
        payload: TracedPayload | None = None,
    ) -> None:
        self.trace_sink: Final = trace_sink
        self.kind: Final = kind
        self.origin: Final = origin
        self.size: Final = size
        self.mid: int = mid
        self.destination: int = 0
        self.hop: Final = hop
        self._numbers: Final = numbers
        self._accepted_as: Final = accepted_as
        self._payload: Final = payload
        self._gone: bool = False  # True once `destination` has returned it

    # Traces of messages that this message causes.

    def for_subscriber(self) -> Trace:
        """Return the trace of a notification for one subscribed process or task."""
        return Trace(
            self.trace_sink,
            self.kind,
            self.origin,
            self.size,
            mid=self.mid,
            hop=self.hop,
            accepted_as=_NOTIFIED,
            payload=self._payload,
        )

    def answer_payload(
        self,
        names: Sequence[str],
        payload: Any,
        encoded: bytes | memoryview | None,
        error: str | None,
    ) -> TracedPayload | None:
        """Return the payload of an answer to this message if the journal keeps it.

        names: of the responder and the asker.
        error: the text that takes the place of the payload.
        """
        keeps = self.trace_sink.keeps_payloads
        if keeps is None or not any(map(keeps, names)):
            return None
        if error is not None:
            return TracedPayload(self.trace_sink, error, failed=True)
        return TracedPayload(self.trace_sink, payload, encoded)

    def answer(
        self, responder: int, size: int, payload: TracedPayload | None = None
    ) -> Trace:
        """Return the trace of an answer; payload: of `answer_payload`."""
        return Trace(
            self.trace_sink,
            _ANSWERS[self.kind],
            responder,
            size,
            mid=self.mid,
            accepted_as=BusOperation.RESPOND,
            payload=payload,
        )

    # Steps of the message.

    def number(self) -> None:
        """Give the message its number, which fixes its order, unless it has one."""
        if not self.mid:
            assert self._numbers is not None
            self.mid = next(self._numbers)

    def wait(self) -> None:
        """Give the message its number: it begins to wait for its addressee."""
        self.number()
        if self._payload is not None:
            self._payload.drop_encoding()

    def record_accepted(self, destination: int) -> None:
        """Record that the message is about to be queued for a task, or for a link."""
        self.number()
        if self._accepted_as is None:
            return
        if self.destination not in {0, destination} and not self._gone:
            self.record_discarded(BusReason.ADDRESSEE_GONE)
        self.destination, self._gone = destination, False
        if self._payload is None:
            self._record(self._accepted_as)
            return
        flags, location = self._payload.write()
        self.trace_sink.record(
            self._accepted_as,
            self.origin,
            self.mid,
            destination,
            self.hop,
            self.size,
            0,
            self.kind,
            flags,
            location,
        )

    def record_sent(self) -> None:
        """Record that the message is about to be put on a link."""
        self._record(BusOperation.RELAY_OUT, hop=self.hop + 1)

    def record_arrived(self) -> None:
        """Record that the message was read from a link and accepted by its stream."""
        self._record(BusOperation.RELAY_IN)

    def record_extracted(self) -> None:
        """Record that the receiver has taken the message out of its FIFO."""
        # Not by `_record`, as below: its call is a tenth of the time of a record.
        self.trace_sink.record(
            _EXTRACTED,
            self.origin,
            self.mid,
            self.destination,
            self.hop,
            self.size,
            0,
            self.kind,
        )

    def record_delivered(self) -> None:
        """Record that the message is about to be delivered to its receiver."""
        self.trace_sink.record(
            _DELIVERED,
            self.origin,
            self.mid,
            self.destination,
            self.hop,
            self.size,
            0,
            self.kind,
        )

    def record_discarded(self, reason: BusReason) -> None:
        """Record that the message is dropped, and that its sender gets no error."""
        if self.destination and not self._gone:
            self._gone = True
            self._record(BusOperation.DISCARD, reason=reason)

    def record_lost(self, reason: BusReason) -> None:
        """Record that the message was on a lost link, so its delivery is in doubt."""
        self._record(BusOperation.IN_DOUBT, reason=reason)

    def record_failed(
        self, error: BusError, reason: BusReason | None = None, *, told: bool
    ) -> None:
        """Record that the destination will not receive the message.

        reason: given if the error does not imply it.
        told: True if the sender receives the error.
        """
        if not self.destination or isinstance(error, PeerLostError):
            return  # it was taken before the process was lost
        reason = reason or _REASONS[type(error)]
        if isinstance(error, InDoubtError):
            self.record_lost(reason)
        elif told:
            self._record(BusOperation.UNDELIVERED, reason=reason)
        else:
            self.record_discarded(reason)

    def _record(
        self, operation: BusOperation, hop: int | None = None, reason: int = 0
    ) -> None:
        self.trace_sink.record(
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
    """A factory of the traces for the messages that one task sends.

    origin, name: its registration, and its name.
    numbers: source of the numbers of its messages, which only rise.
    """

    __slots__ = ("_keeps", "_keeps_all", "_numbers", "_origin", "_trace_sink")

    def __init__(
        self,
        trace_sink: TraceSink,
        origin: int,
        numbers: Iterator[int],
        name: str = "",
    ) -> None:
        self._trace_sink: Final = trace_sink
        self._origin: Final = origin
        self._numbers: Final = numbers
        self._keeps: Final = trace_sink.keeps_payloads
        # True if the journal keeps all its payloads.
        self._keeps_all: Final = self._keeps is not None and self._keeps(name)

    def payload(
        self, payload: Any, encoded: bytes | memoryview | None, *addressees: str
    ) -> TracedPayload | None:
        """Return the payload of a message if the journal keeps it.

        addressees: of a command; of a notification none.
        """
        keeps = self._keeps
        if keeps is None or not (self._keeps_all or any(map(keeps, addressees))):
            return None
        return TracedPayload(self._trace_sink, payload, encoded)

    # Each builds its trace without a shared function: that call takes as long as the
    # rest of the method.

    def command(self, size: int, payload: TracedPayload | None = None) -> Trace:
        """Return the trace of a command."""
        return Trace(
            self._trace_sink,
            _COMMAND,
            self._origin,
            size,
            numbers=self._numbers,
            accepted_as=_COMMANDED,
            payload=payload,
        )

    def notification(self, size: int, payload: TracedPayload | None = None) -> Trace:
        """Return the trace of a notification, for one task of this process."""
        return Trace(
            self._trace_sink,
            _NOTIFICATION,
            self._origin,
            size,
            numbers=self._numbers,
            accepted_as=_NOTIFIED,
            payload=payload,
        )

    def remote_notification(
        self, size: int, payload: TracedPayload | None = None
    ) -> Trace:
        """Return the trace of a notification on its way to other processes.

        Each of these processes gets a trace of its own, with the same number.
        """
        if payload is not None:
            payload.drop_encoding()
        return Trace(
            self._trace_sink,
            _NOTIFICATION,
            self._origin,
            size,
            numbers=self._numbers,
            payload=payload,
        )
