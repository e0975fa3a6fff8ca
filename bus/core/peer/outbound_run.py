"""`OutboundRun`: a run of messages on their way to another process.

A run is from one task, for one relay. Most runs hold one message. Successive commands
that differ only in their payloads share a run, since they all need the same processing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bus.arrays import MADE, is_array
from bus.core.local.routing_table import Entry
from bus.core.local.trace import Trace
from bus.core.wire import FAILED, RAW
from bus.error_text import error_text_of, fitting
from bus.message import Incoming, Kind
from bus.payload import ENCODER, Payload, encode, size_of

__all__ = ["OutboundRun", "commands_in", "commands_of", "pack_answer", "pack_payload"]


class OutboundRun(Struct, frozen=True, eq=False):
    """One or more messages on their way to another process.

    source: the sending task; relay: the number by which other processes know that task.
    id, flags: as in `bus.core.wire.Run`.
    turn: orders the runs of one sender by their time of sending.
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
