"""`FrameReader`: what comes by one link, put together into frames.

The body of a long message is a frame of its own, behind the one that tells of it. So
its bytes are copied nowhere: what the link hands over is what the callback gets.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bus.core.wire.batch import FOLLOWS, FOLLOWS_MIN, Batch
from bus.core.wire.codec import MESSAGE_BYTES_MAX, Frame, decode, encode
from bus.errors import WireError

__all__ = ["FrameReader", "pieces"]


class FrameReader:
    """Reads the frames of one link, in the order in which they came.

    message_bytes_max: how long the body of a message may be (OPEN-6).
    """

    __slots__ = ("_begun", "_message_bytes_max")

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX) -> None:
        self._message_bytes_max: Final = message_bytes_max
        # A message whose body is to come, and how long that is.
        self._begun: tuple[Batch, int] | None = None

    @property
    def midway(self) -> bool:
        """Whether what comes next is a body, and no frame."""
        return self._begun is not None

    def read(self, data: bytes) -> Frame | None:
        """Return the frame that is complete with this; None for none.

        Raises:
            WireError: as `decode`; or it is not the body that was to follow.
        """
        if self._begun is not None:
            (batch, length), self._begun = self._begun, None
            if len(data) != length:
                raise WireError(f"body has {len(data)} bytes, announced: {length}")
            (run,) = batch.runs
            whole = replace(run, flags=run.flags & ~FOLLOWS, bodies=[data])
            return replace(batch, runs=[whole])
        frame = decode(data, message_bytes_max=self._message_bytes_max)
        if isinstance(frame, Batch) and frame.runs and frame.runs[0].flags & FOLLOWS:
            # It ends with the length of the one body that it does not have.
            self._begun = frame, int.from_bytes(data[-_LENGTH_BYTES:])
            return None
        return frame


_LENGTH_BYTES: Final = 4


def pieces(frame: Frame) -> tuple[bytes, ...]:
    """Return what is to be put on a link for a frame, one after the other.

    Raises:
        ValueError: as `encode`.
    """
    if isinstance(frame, Batch) and len(frame.runs) == 1:
        run = frame.runs[0]
        body = run.bodies[0] if len(run.bodies) == 1 else b""
        if len(body) >= FOLLOWS_MIN:
            run = replace(run, flags=run.flags | FOLLOWS)
            return encode(replace(frame, runs=[run])), bytes(body)
    return (encode(frame),)
