"""`Parcel`: messages on their way to another process.

A parcel is of one task, for one relay. Mostly it holds one message. Commands that came
one right after the other and differ in nothing but their payload share a parcel, since
all that is done for each of them would be done alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bus.core.wire import FAILED, RAW
from bus.error_text import error_text_of, fitting
from bus.message import Incoming, Kind
from bus.payload import encode, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bus.core.routing_table import Entry
    from bus.core.trace import Trace
    from bus.payload import Payload

__all__ = ["Parcel", "commands_of", "packed", "packed_answer"]


class Parcel(Struct, frozen=True, eq=False):
    """One message or more on their way to another process.

    source: the task that sends it; relay: the number by which others know that.
    id, flags: as in `bus.core.wire.Run`.
    turn: tells of two of one sender which was sent first.
    deadline: on the clock of this process, in seconds.
    bodies: one of each message, at least one.
    size: how long they are together, in bytes.
    message: the command it was made from, to be sent elsewhere or to fail; None for
      what concerns nobody else, and for several.
    name: of whom several commands are for; they are payloads of bytes, sent `RAW`.
    trace: what a journal is told of the only message; None if nothing.
    gap: how many notifications were dropped between the one before it and this.
    """

    kind: Kind
    source: Entry
    relay: int
    id: int
    flags: int
    turn: int
    deadline: float | None
    bodies: Sequence[bytes]
    size: int
    message: Incoming | None = None
    name: str | None = None
    trace: Trace | None = None
    gap: int = 0

    @property
    def is_command(self) -> bool:
        """Whether its messages go elsewhere, or fail, if nobody takes them here."""
        return self.kind is Kind.COMMAND

    def commands(self) -> list[Incoming]:
        """Return the commands it holds, in order; none if it holds something else."""
        if self.message is not None:
            return [self.message]
        if self.name is None:
            return []
        return commands_of(self.source, self.name, self.bodies, self.deadline)

    def part(self, start: int, stop: int | None = None) -> Parcel:
        """Return the messages from one place to another of a parcel of several."""
        return self._only(self.bodies[start:stop])

    def sifted(self, most: int) -> tuple[Parcel | None, Parcel | None]:
        """Return the messages of so many bytes at most, and those that are longer."""
        if self.size <= most:
            return self, None
        fit = [each for each in self.bodies if len(each) <= most]
        long = [each for each in self.bodies if len(each) > most]
        return self._only(fit) if fit else None, self._only(long) if long else None

    def _only(self, bodies: Sequence[bytes]) -> Parcel:
        if len(bodies) == len(self.bodies):
            return self
        return replace(self, bodies=bodies, size=sum(map(len, bodies)))


def commands_of(
    source: Entry, name: str, payloads: Iterable[bytes], deadline: float | None
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


def packed(payload: Payload) -> tuple[int, bytes]:
    """Return how a payload goes over a link: the flags that say so, and the body."""
    if type(payload) is bytes:
        return RAW, payload
    return 0, encode(payload)


def packed_answer(
    payload: Payload, error: str | None, message_bytes_max: int
) -> tuple[int, bytes]:
    """Return how an answer goes over a link, as `packed`; ``error``: why there is none.

    What cannot be packed, since something in front of this has let it pass, becomes an
    error, too: nothing that one answer holds ends the thread that speaks for all tasks.
    """
    if error is None:
        try:
            return packed(payload)
        except Exception as fault:  # noqa: BLE001 # as said
            error = error_text_of(fault)
    return FAILED, encode(fitting(error, message_bytes_max))
