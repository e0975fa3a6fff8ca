"""`FrameReader`: data that arrives on one link, assembled into frames.

The body of a long message is a frame of its own, behind the one that announces it. So
its bytes are never copied: the callback gets the object that the link hands over.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bus.core.wire.batch import FOLLOWS, FOLLOWS_MIN, Batch
from bus.core.wire.codec import MESSAGE_BYTES_MAX, Frame, decode, encode
from bus.core.wire.single import decode_single
from bus.errors import WireError

__all__ = ["FrameReader", "long_body", "pieces"]


class FrameReader:
    """A reader of the frames of one link, in order of arrival.

    message_bytes_max: maximum length of the body of a message, in bytes (OPEN-6).

    begun: a message whose body is still to come, and the length of that body. The next
      data is then a body, not a frame.
    """

    __slots__ = ("_message_bytes_max", "begun")

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._message_bytes_max: Final = message_bytes_max
        self.begun: tuple[Batch, int] | None = None

    def read(self, data: bytes) -> Frame | None:
        """Return the frame that this data completes, or None.

        An empty body takes the place of one for which a process on the way had no
        memory. The message then keeps the flag `FOLLOWS`, and its body is the length.

        Raises:
            WireError: as `decode`; or the data is not the body that was announced.
        """
        if self.begun is not None:
            (batch, length), self.begun = self.begun, None
            if not data:
                (run,) = batch.runs
                announced = length.to_bytes(_LENGTH_BYTES)
                return replace(batch, runs=[replace(run, bodies=[announced])])
            if len(data) != length:
                raise WireError(f"body has {len(data)} bytes, announced: {length}")
            (run,) = batch.runs
            whole = replace(run, flags=run.flags & ~FOLLOWS, bodies=[data])
            return replace(batch, runs=[whole])
        # The first succeeds for each lone message, and takes a tenth of the time.
        frame = decode_single(data) or decode(
            data, message_bytes_max=self._message_bytes_max
        )
        if isinstance(frame, Batch) and frame.runs and frame.runs[0].flags & FOLLOWS:
            # The frame ends with the length of the one body that it does not contain.
            self.begun = frame, int.from_bytes(data[-_LENGTH_BYTES:])
            return None
        return frame


_LENGTH_BYTES: Final = 4


def long_body(frame: Frame) -> bytes | memoryview | None:
    """Return the body of the only message of a frame, if a link carries it by itself.

    None for any other frame.
    """
    if isinstance(frame, Batch) and len(frame.runs) == 1:
        bodies = frame.runs[0].bodies
        if len(bodies) == 1 and len(bodies[0]) >= FOLLOWS_MIN:
            return bodies[0]
    return None


def pieces(frame: Frame) -> tuple[bytes, ...]:
    """Return the data to put on a link for a frame, in order.

    Raises:
        ValueError: as `encode`.
    """
    body = long_body(frame)
    if body is None:
        return (encode(frame),)
    assert isinstance(frame, Batch)
    [run] = frame.runs
    run = replace(run, flags=run.flags | FOLLOWS)
    return encode(replace(frame, runs=[run])), bytes(body)
