"""What is said of a stream of messages beside the messages (BUS-WIRE-2).

Of each frame the docstring says which clauses need its fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bus.core.incoming_stream import Acknowledgement
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.parts import U32, U64, Number  # noqa: TC001  # read by `msgspec`

__all__ = [
    "EXTRACTED_MAX",
    "MISSING_MAX",
    "Ack",
    "Descriptor",
    "OpenStream",
    "Release",
]

MISSING_MAX: Final = 128  # gaps in an ACK
EXTRACTED_MAX: Final = 256  # relays in an ACK
_LEASES_MAX: Final = 256
_BUFFERS_MAX: Final = 256


class OpenStream(ControlFrame, frozen=True, kw_only=True):
    """Begin a stream, or go on with it over this link (BUS-RELAY-10).

    epoch: of its numbers (AMO-16); nonce: random, tells rivals apart (AMO-17).
    incarnation: of the receiver it is meant for (AMO-19).
    first: the number of its first message (AMO-6).
    window: how many numbers may be outstanding (AMO-13).
    known: the epoch of the other way that is known here; 0 for none.
    last: the greatest number that came in it; heard: how many control frames did. What
      is above is sent again, in the order in which it was sent first.
    """

    type = FrameType.OPEN_STREAM
    epoch: U64
    nonce: U64
    incarnation: U64
    first: Number
    window: Annotated[int, Meta(ge=1, lt=2**32)]
    known: U64 = 0
    last: U64 = 0
    heard: U64 = 0


class Ack(ControlFrame, frozen=True, kw_only=True):
    """What of a stream has come, and what its tasks have taken (BUS-RELAY-9).

    epoch: the newest that is known of its sender, for one that was superseded, too
      (AMO-16); incarnation: of who acknowledges (AMO-19).
    last: the greatest number that came or was given up; 0 for none. One below ``next``
      of the `Acknowledgement`, which may not fit into 64 bits.
    missing: as there (AMO-23).
    extracted: relays of the acknowledger's tasks, with the last number that each took;
      relay 0 stands for all that hear notifications there (BUS-RELAY-7).
    heard: how many control frames have come; they need not be kept any longer.
    """

    type = FrameType.ACK
    epoch: U64
    incarnation: U64
    last: U64
    missing: Annotated[tuple[tuple[U64, U64], ...], Meta(max_length=MISSING_MAX)] = ()
    extracted: Annotated[
        tuple[tuple[U32, Number], ...], Meta(max_length=EXTRACTED_MAX)
    ] = ()
    heard: U64 = 0

    def __post_init__(self) -> None:
        below = 0
        for start, stop in self.missing:
            # Ranges that touch would be one.
            if not below < start < stop:
                msg = f"missing ranges must rise, got {start} to {stop} after {below}"
                raise ValueError(msg)
            below = stop
        if below > self.last:
            msg = f"missing ranges must end at {self.last}, got {below}"
            raise ValueError(msg)

    @staticmethod
    def of(
        has: Acknowledgement,
        *,
        epoch: int,
        incarnation: int,
        extracted: tuple[tuple[int, int], ...] = (),
        heard: int = 0,
    ) -> Ack:
        """Say what a receiver has.

        With more than `MISSING_MAX` gaps it claims nothing of what lies above the first
        that does not fit: that is true as well, and a later one says the rest.
        """
        stop = has.next
        if len(has.missing) > MISSING_MAX:
            stop = has.missing[MISSING_MAX][0]
        return Ack(
            epoch=epoch,
            incarnation=incarnation,
            last=stop - 1,
            missing=has.missing[:MISSING_MAX],
            extracted=extracted,
            heard=heard,
        )

    @property
    def acknowledgement(self) -> Acknowledgement:
        """What the sender's end of the stream is to be told."""
        return Acknowledgement(self.last + 1, self.missing)


class Descriptor(ControlFrame, frozen=True, kw_only=True):
    """Where in shared memory the body of a message lies; that comes after this (MC-29).

    lease: what the message has for a body (`LEASED`); never used twice in an epoch.
    arena, epoch: whose memory, and which life of it.
    buffers: of each its index, offset, length and generation, in order.
    size: bytes of the whole body.
    """

    type = FrameType.DESCRIPTOR
    lease: U64
    arena: U64
    epoch: U64
    buffers: Annotated[
        tuple[tuple[U32, U32, U32, U32], ...], Meta(max_length=_BUFFERS_MAX)
    ]
    size: U32

    def __post_init__(self) -> None:
        held = sum(length for _, _, length, _ in self.buffers)
        if held != self.size:
            msg = f"buffers must hold {self.size} bytes together, got {held}"
            raise ValueError(msg)


class Release(ControlFrame, frozen=True, kw_only=True):
    """Bodies in shared memory that nobody reads any more (MC-29)."""

    type = FrameType.RELEASE
    arena: U64
    epoch: U64
    leases: Annotated[tuple[U64, ...], Meta(max_length=_LEASES_MAX)]
