"""`decode` and `encode`: bytes of a link to frames, and back (BUS-WIRE-1).

The first byte is the type. After it MSG is packed (`bus.kernel.wire.batch`), and each
other frame is one MessagePack map. For any input, no error but `WireError` is raised.
The result takes at most twice the length of the input and 64 KiB: control frames are
short, and the runs of long batches are made on first access.

`FrameReader` assembles the data that arrives on one link into frames. The body of a
long message is a frame of its own, behind the one that announces it. So its bytes are
never copied: the callback gets the object that the link hands over.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from bus.errors import WireError
from bus.kernel.wire.batch import (
    FOLLOWS,
    FOLLOWS_MIN,
    Batch,
    decode_batch,
    decode_single,
    encode_batch,
)
from bus.kernel.wire.frames import (
    Ack,
    AddRelay,
    Bye,
    Cancel,
    ConnectOffer,
    ControlFrame,
    Dismiss,
    Dismissed,
    Eliminate,
    Error,
    Export,
    FrameType,
    Gap,
    Hello,
    OpenStream,
    Ping,
    Pong,
    Refused,
    Search,
    Unrelay,
    Welcome,
)

__all__ = [
    "CONTROL_BYTES_MAX",
    "MESSAGE_BYTES_MAX",
    "OPTIONAL",
    "Frame",
    "FrameReader",
    "decode",
    "encode",
    "long_body",
    "pieces",
    "register",
]

Frame: TypeAlias = ControlFrame | Batch

OPTIONAL: Final = 0x80  # bit of a type that a receiver may skip if it is unknown

# The longest control frame, an ACK, is below 7 KiB. This also bounds the depth of the
# decoder's recursion in C, independently of the interpreter's own limit.
CONTROL_BYTES_MAX: Final = 8 * 2**10
# The maximum that BUS-WIRE-1 and OPEN-6 allow for the option.
MESSAGE_BYTES_MAX: Final = 64 * 2**20

# Access to members of an enumeration is slow.
_MSG: Final = FrameType.MSG.value

_WORDS_MAX: Final = 300  # characters of a peer's text that an error quotes

# Sorted, so that the bytes do not depend on the order in which fields are declared.
_ENCODER: Final = msgspec.msgpack.Encoder(order="sorted")
_DECODERS: Final[dict[int, msgspec.msgpack.Decoder[ControlFrame]]] = {}


def register(*types: type[ControlFrame]) -> None:
    """Let `decode` return frames of some types; a feature adds its own when loaded.

    A bus of this process that does not use the feature checks that they may arrive, and
    ignores them: its `RemoteManager` has no row for them.
    """
    for each in types:
        _DECODERS[each.type.value] = msgspec.msgpack.Decoder(each)


register(
    *(Hello, Welcome, Refused, OpenStream, ConnectOffer, Ping, Pong, Bye, Error),
    *(Export, Search, Cancel, AddRelay, Unrelay, Eliminate, Dismiss, Dismissed),
    *(Ack, Gap),
)


def _unused(kind: FrameType) -> type[ControlFrame]:
    """Return the struct of a type until its feature is loaded: without fields.

    So the link checks its place as if the feature were loaded (BUS-WIRE-4).
    """

    class UnusedFrame(ControlFrame, frozen=True):
        type = kind

    return UnusedFrame


register(*(_unused(each) for each in FrameType if each not in {_MSG, *_DECODERS}))


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame; equal frames have equal bytes.

    Only the decoder checks the bounds of single fields: the code that makes a frame
    sets them within bounds.

    Raises:
        ValueError: the contents do not fit into a frame.
    """
    if isinstance(frame, Batch):
        return encode_batch(frame)
    try:
        data = bytes((frame.type,)) + _ENCODER.encode(frame)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ValueError(f"{frame.type.name} cannot be encoded: {error}") from error
    if len(data) > CONTROL_BYTES_MAX:
        msg = f"{frame.type.name} must be <= {CONTROL_BYTES_MAX} bytes, got {len(data)}"
        raise ValueError(msg)
    return data


def decode(
    data: bytes | memoryview, *, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> Frame | None:
    """Return the frame that a peer sent; None for one to be skipped (BUS-WIRE-3).

    message_bytes_max: maximum length of the body of a message, as sent in HELLO.

    Raises:
        WireError: no correct peer sends these bytes; the text names the fault.
    """
    if not len(data):
        raise WireError("frame is empty")
    kind = data[0]
    if kind == _MSG:
        return decode_batch(data, message_bytes_max)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        if kind & OPTIONAL:
            return None
        raise WireError(f"frame is of unknown type: {kind}")
    if len(data) > CONTROL_BYTES_MAX:
        msg = f"longer than {CONTROL_BYTES_MAX} bytes: {len(data)}"
        raise WireError(f"{FrameType(kind).name} is {msg}")
    try:
        return decoder.decode(memoryview(data)[1:])
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        name, words = FrameType(kind).name, str(error)[:_WORDS_MAX]
        raise WireError(f"{name} cannot be decoded: {words}") from error


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
