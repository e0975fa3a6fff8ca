"""Runs: messages of one task to or from another process, kept as one object.

An `InboundRun` has messages that arrived together. They are commands, or notifications
for one subscriber, and differ only in their payloads. They are read one by one, and
shared work is done once for all. An iterator knows how many were read. Advancing it is
a single fast step that no interrupt can split. Under the policy `drop-oldest`, where
other threads drop messages out of a run, `bus.process.account` advances it.

An `OutboundRun` has messages on their way to another process, for one relay; most runs
hold one. Successive commands that differ only in their payloads share a run, since they
all need the same processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from bus.kernel.streams.receipts import Receipt
from bus.kernel.tasks.routing_table import Entry
from bus.kernel.trace import Trace
from bus.kernel.wire import FAILED, RAW, Bodies, Lengths
from bus.model.arrays import MADE, is_array
from bus.model.error_text import error_text_of, fitting
from bus.model.message import Incoming, Kind
from bus.model.payload import ENCODER, Payload, encode, size_of

__all__ = [
    "InboundRun",
    "OutboundRun",
    "commands_in",
    "commands_of",
    "pack_answer",
    "pack_payload",
]

_NONE: Final = Lengths(0, 0)


class InboundRun(Struct, eq=False):
    """Messages of one task for another, none of which wants an answer.

    payloads: the bytes of each message; lengths: their lengths.
    receipt: where the extraction of commands is reported; None for notifications.
    number: of the first message; the others have the numbers after it.
    deadline: when they are no longer worth delivering, on the monotonic clock in
      seconds.
    subscriptions: those that the notifications match; empty for commands.
    settled: how many messages the account has counted as read or dropped; written by
      the thread that hosts the task, or, under `drop-oldest`, by the holder of the lock
      of its inbox.
    reported: how many of the settled commands were reported to the remote process;
      written by the comm thread.
    """

    _to: Entry
    source: Entry
    payloads: Sequence[bytes]
    receipt: Receipt | None
    number: int
    deadline: float | None
    subscriptions: tuple[Any, ...] = ()
    settled: int = 0
    reported: int = 0
    _account: Any = None
    lengths: Lengths = _NONE
    _unread: Iterator[bytes] = iter(())

    def __post_init__(self) -> None:
        # Compute the lengths now, while the payloads are in this processor's cache: a
        # pass by another thread later takes several times as long.
        if self.lengths is _NONE:
            payloads = self.payloads
            known = payloads if isinstance(payloads, Bodies) else Bodies(payloads)
            self.lengths = known.lengths
        self._unread = iter(self.payloads)

    def __len__(self) -> int:
        return length_hint(self._unread)

    @property
    def kind(self) -> Kind:
        """The kind of the messages."""
        return Kind.NOTIFICATION if self.subscriptions else Kind.COMMAND

    @property
    def at(self) -> int:
        """The number of messages read or dropped; a snapshot, from any thread."""
        return self.lengths.count - length_hint(self._unread)

    @property
    def unsettled(self) -> int:
        """The number of read messages not yet counted by the account; likewise."""
        return self.at - self.settled

    @property
    def unsettled_bytes(self) -> int:
        """The total length of these messages, in bytes; likewise."""
        return self.lengths.part(self.settled, self.at).total

    @property
    def _dropped(self) -> bool:
        # As of a single message, for the queues that remove dropped ones.
        return not self

    def read(self, reference: Any) -> Iterator[Incoming]:
        """Return an iterator of messages for a callback; each step reads one.

        No Python code runs between reading a message and returning it. So no interrupt
        finds a message that was read but not given to the callback.
        """
        usual = (
            repeat(self.kind),
            self._unread,
            repeat(reference),
            repeat(self.source),
            repeat(self._to),
        )
        if not self.subscriptions:
            return map(Incoming, *usual)
        # Up to the subscriptions, in the order of the fields.
        others = (self._account, 0, None, None, 0, 0, None, 0, self.subscriptions)
        return map(Incoming, *usual, *map(repeat, others))

    def split(
        self, count: int
    ) -> tuple[InboundRun, tuple[Sequence[bytes], Lengths, Iterator[bytes], int]]:
        """Return the first messages as a run, and the rest; none may have been read.

        This changes nothing. The caller assigns the rest to ``payloads``, ``lengths``,
        ``_unread`` and ``number``.
        """
        payloads, lengths = self.payloads, self.lengths
        rest: Sequence[bytes] = ()
        others = _NONE
        if count < len(payloads):
            rest, others = payloads[count:], lengths.part(count, lengths.count)
            payloads, lengths = payloads[:count], lengths.part(0, count)
        first = InboundRun(
            self._to,
            self.source,
            payloads,
            self.receipt,
            self.number,
            self.deadline,
            self.subscriptions,
            lengths=lengths,
        )
        return first, (rest, others, iter(rest), self.number + count)

    def shift(self) -> Incoming:
        """Remove and return the first message; none may have been read."""
        first, rest = self.split(1)
        [message] = first.rest()
        self.payloads, self.lengths, self._unread, self.number = rest
        return message

    def rest(self) -> list[Incoming]:
        """Remove and return the unread messages, in order; the run ends before them."""
        rest, end = self.unpacked()
        self.payloads, self.lengths, self._unread = end
        return rest

    def unpacked(
        self,
    ) -> tuple[list[Incoming], tuple[Sequence[bytes], Lengths, Iterator[bytes]]]:
        """Return the unread messages, and the end of the run before them.

        This changes nothing. The caller assigns the end to ``payloads``, ``lengths``
        and ``_unread``, in this order: a thread that calls `at` meanwhile sees too few
        messages as read.
        """
        start = self.at
        rest, read = self.payloads[start:], self.payloads[:start]
        messages = [
            Incoming(
                self.kind,
                payload,
                None,
                self.source,
                self._to,
                self._account,
                len(payload),
                self.deadline,
                self.receipt,
                number,
                subscriptions=self.subscriptions,
            )
            for number, payload in enumerate(rest, self.number + start)
        ]
        nothing: Iterator[bytes] = iter(())
        return messages, (read, self.lengths.part(0, start), nothing)


class OutboundRun(Struct, frozen=True, eq=False):
    """One or more messages on their way to another process.

    source: the sending task; relay: the number by which other processes know that task.
    id, flags: as in `bus.kernel.wire.Run`.
    turn: orders the runs of one sender by their time of sending; 0 for one that never
      waits for the link.
    deadline: on the clock of this process, in seconds.
    bodies: the encoded payloads, one of each message; at least one.
    size: the total length of the bodies, in bytes.
    message: the command it was made from, to be sent elsewhere or to fail; None for a
      run of several messages, and for messages that are never sent elsewhere.
    name: the addressee of several commands, whose payloads are bytes, sent `RAW`.
    trace: the trace of the only message; None if it is not recorded.
    gap: how many notifications were dropped between the previous one and this one.
    """

    kind: Kind
    source: Entry
    relay: int
    id: int
    flags: int
    turn: int
    deadline: float | None
    bodies: Sequence[bytes | memoryview]
    size: int
    message: Incoming | None = None
    name: str | None = None
    trace: Trace | None = None
    gap: int = 0

    @property
    def is_command(self) -> bool:
        """True for commands: if not extracted, they are sent elsewhere or fail."""
        return self.kind is Kind.COMMAND

    def commands(self) -> list[Incoming]:
        """Return the commands it holds, in order; none for messages of other kinds."""
        if self.message is not None:
            return [self.message]
        if self.name is None:
            return []
        return commands_of(self.source, self.name, self.bodies, self.deadline)

    def part(self, start: int, stop: int | None = None) -> OutboundRun:
        """Return a slice of the messages, as a run; only the first reports the gap."""
        part = self._only(self.bodies[start:stop])
        return replace(part, gap=0) if start and part.gap else part

    def count_up_to(self, most: int) -> int:
        """Return how many leading messages have at most `most` bytes each."""
        if self.size <= most:
            return len(self.bodies)
        long = (at for at, body in enumerate(self.bodies) if len(body) > most)
        return next(long, len(self.bodies))

    def split_by_length(
        self, most: int
    ) -> tuple[OutboundRun | None, OutboundRun | None]:
        """Return the messages of at most `most` bytes each, and the longer ones."""
        if self.size <= most:
            return self, None
        fit = [each for each in self.bodies if len(each) <= most]
        long = [each for each in self.bodies if len(each) > most]
        return self._only(fit) if fit else None, self._only(long) if long else None

    def _only(self, bodies: Sequence[bytes | memoryview]) -> OutboundRun:
        if len(bodies) == len(self.bodies):
            return self
        return replace(self, bodies=bodies, size=sum(map(len, bodies)))


def commands_in(outbound_runs: Iterable[OutboundRun]) -> list[Incoming]:
    """Return the commands of several runs, in order."""
    return [command for each in outbound_runs for command in each.commands()]


def commands_of(
    source: Entry,
    name: str,
    payloads: Iterable[bytes | memoryview],
    deadline: float | None,
) -> list[Incoming]:
    """Return a message for each payload, to be sent elsewhere or to fail."""
    return [
        Incoming(
            Kind.COMMAND,
            payload,
            _source=source,
            _name=name,
            _size=size_of(payload),
            _deadline=deadline,
        )
        for payload in payloads
    ]


def pack_payload(payload: Payload) -> tuple[int, bytes | memoryview]:
    """Return the flags and the body by which a link carries a payload."""
    if type(payload) is bytes:
        return RAW, payload
    # A long payload in shared memory, of this process (MC-41) or of another.
    if type(payload) is memoryview and not is_array(payload):
        return RAW, payload
    return 0, encode(payload) if MADE.any else ENCODER.encode(payload)  # as `encode`


def pack_answer(
    payload: Payload, error: str | None, message_bytes_max: int
) -> tuple[int, bytes | memoryview]:
    """Return the flags and the body of an answer: its ``error``, or else its payload.

    If the payload cannot be packed although earlier checks passed it, the answer
    becomes an error. No content of one answer may end the thread that serves all tasks.
    """
    if error is None:
        try:
            return pack_payload(payload)
        except Exception as fault:  # noqa: BLE001 # contained: see the docstring
            error = error_text_of(fault)
    return FAILED, encode(fitting(error, message_bytes_max))
