"""`decode` and `encode`: bytes of a link to frames, and back (BUS-WIRE-1).

The first byte is the type. After it MSG is packed (`bus.core.wire.batch`), and each
other frame is one MessagePack map. For any input, no error but `WireError` is raised.
The result takes at most twice the length of the input and 64 KiB: control frames are
short, and the runs of long batches are made on first access.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from bus.core.wire.batch import Batch, decode_batch, encode_batch
from bus.core.wire.frames import ControlFrame, FrameType
from bus.core.wire.link_frames import (
    Bye,
    ConnectOffer,
    Error,
    Hello,
    Ping,
    Pong,
    Refused,
    Welcome,
)
from bus.core.wire.stream_frames import Ack, OpenStream
from bus.core.wire.task_frames import (
    AddRelay,
    Cancel,
    Dismiss,
    Dismissed,
    Eliminate,
    Export,
    Gap,
    Search,
    Subscribe,
    Unexport,
    Unrelay,
    Unsubscribe,
)
from bus.errors import WireError

__all__ = [
    "CONTROL_BYTES_MAX",
    "MESSAGE_BYTES_MAX",
    "OPTIONAL",
    "Frame",
    "decode",
    "encode",
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
# All types of BUS-WIRE-2. One without a decoder is of a feature that is not loaded.
_TYPES: Final = frozenset(FrameType)


def register(*types: type[ControlFrame]) -> None:
    """Let `decode` return frames of some types; a feature adds its own when loaded.

    A bus of this process that does not use the feature ignores them all the same: its
    `RemoteManager` has no row for them.
    """
    for each in types:
        _DECODERS[each.type.value] = msgspec.msgpack.Decoder(each)


register(
    *(Hello, Welcome, Refused, OpenStream, ConnectOffer, Ping, Pong, Bye, Error),
    *(Export, Unexport, Search, Cancel, AddRelay, Unrelay, Eliminate, Dismiss),
    *(Dismissed, Subscribe, Unsubscribe, Ack, Gap),
)


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
        if kind & OPTIONAL or kind in _TYPES:
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
