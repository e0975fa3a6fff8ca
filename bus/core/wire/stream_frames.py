"""Frames about a stream of messages, other than the messages (BUS-WIRE-2).

The docstring of each frame names the clauses that need its fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from bus.core.streams.incoming_stream import Acknowledgement
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.parts import U32, U64, Number  # read by `msgspec`

__all__ = [
    "EXTRACTED_MAX",
    "MISSING_MAX",
    "Ack",
    "OpenStream",
]

MISSING_MAX: Final = 128  # gaps in an ACK
EXTRACTED_MAX: Final = 256  # relays in an ACK


class OpenStream(ControlFrame, frozen=True, kw_only=True):
    """The start of a stream, or its continuation over this link (BUS-RELAY-10).

    epoch: of its numbers (AMO-16); nonce: random, distinguishes rivals (AMO-17).
    incarnation: of the receiver that it is meant for (AMO-19).
    first: the number of its first message (AMO-6).
    window: how many numbers may be outstanding (AMO-13).
    known: the newest epoch known of the process that gets this frame; 0 for none. If it
      is greater than that process's own, that process takes a greater one (AMO-17).
    last: the greatest number received in that epoch; heard: how many control frames
      were received. All later ones are sent again, in their original order.
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
    """The receipt of a stream's messages, and their extraction by tasks (BUS-RELAY-9).

    epoch: the newest epoch known of the stream's sender, also in answer to a superseded
      one (AMO-16); incarnation: of the process that acknowledges (AMO-19).
    last: the greatest number that was received or given up; 0 for none. It is one below
      ``next`` of the `Acknowledgement`, which may not fit into 64 bits.
    missing: as in the `Acknowledgement` (AMO-23).
    extracted: relays of the acknowledger's tasks, with the last number that each took;
      relay 0 stands for all subscribers there (BUS-RELAY-7).
    heard: how many control frames were received; the sender may drop these.
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
        """Return the ACK for the state of a receiver.

        With more than `MISSING_MAX` gaps it claims nothing above the first gap that
        does not fit. That is correct as well, and a later ACK covers the rest.
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
        """The acknowledgement, for the sender's end of the stream."""
        return Acknowledgement(self.last + 1, self.missing)
