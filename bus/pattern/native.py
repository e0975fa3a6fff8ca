"""Frames between two bus sockets of this package: messages, and accounts of drops.

Each is the body of an SP frame, and starts with its kind. All numbers are big-endian;
counts and lengths of single messages have 32 bits, all others 64. A node id is not 0,
and messages are numbered from 1.

==========  ==============================================================
kind        fields behind it
==========  ==============================================================
1 messages  the origin's node id, the number of the first message there,
            how many there are, the length of each, their bodies
2 hello     the node id of the sender; the first frame in each direction
3 sent      how many messages were meant for the peer, and how many of
            them the sender has dropped; a repeated one is a request
            for the peer's accounts
4 taken     how many messages arrived, how many of them the application
            has taken, and how many were dropped: since the receive queue
            was full, and as duplicates
==========  ==============================================================
"""

from __future__ import annotations

import struct
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from bus.errors import WireError
from bus.pattern.message_run import MessageRun
from queuebroker.arguments import snapshot
from queuebroker.errors import MessageTooLargeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "BODY_BYTES_MAX",
    "HEAD_BYTES",
    "Control",
    "Hello",
    "ReceiverAccount",
    "SenderAccount",
    "body_of",
    "decode",
    "encode",
    "head",
]

_MESSAGES: Final = 1
_HEAD: Final = struct.Struct("!BQQI")  # kind, origin, first number, count
_LENGTH: Final = struct.Struct("!I")
HEAD_BYTES: Final = _HEAD.size + _LENGTH.size  # before the body of a lone message
# The maximum length of a message, by the 32 bits of its length.
BODY_BYTES_MAX: Final = (1 << 32) - 1
_NUMBERS: Final = 1 << 64
# The most messages of a frame. Empty ones take no bytes but 4 for their length, so a
# hostile peer could state millions of them.
_COUNT_MAX: Final = 1 << 16


@attrs.frozen(slots=True)
class Hello:
    """The node id of the peer."""

    node: int


@attrs.frozen(slots=True)
class SenderAccount:
    """The account of a sender, for one peer: totals since the connection began."""

    messages: int
    dropped: int


@attrs.frozen(slots=True)
class ReceiverAccount:
    """The account of a receiver, for one peer: totals since the connection began.

    arrived: messages of that peer that have arrived.
    delivered: those that the application has taken.
    overflowed: those dropped since the receive queue was full.
    duplicates: those that had come by another path.
    """

    arrived: int
    delivered: int
    overflowed: int
    duplicates: int


Control: TypeAlias = "Hello | SenderAccount | ReceiverAccount"

_CONTROLS: Final[dict[int, tuple[struct.Struct, type[Control]]]] = {
    2: (struct.Struct("!BQ"), Hello),
    3: (struct.Struct("!BQQ"), SenderAccount),
    4: (struct.Struct("!BQQQQ"), ReceiverAccount),
}
_KINDS: Final = {made: kind for kind, (_, made) in _CONTROLS.items()}


def body_of(data: Buffer) -> bytes:
    """Return the body of a new message.

    Raises:
        TypeError: ``data`` is not bytes-like.
        MessageTooLargeError: it has 4 GiB or more.
    """
    body = snapshot(data, 0, None, None)
    if len(body) > BODY_BYTES_MAX:
        raise _too_large(len(body))
    return body


def _too_large(size: int) -> MessageTooLargeError:
    return MessageTooLargeError(
        f"cannot send a message of {size} bytes: a message has at most "
        f"{BODY_BYTES_MAX} bytes; send it in parts"
    )


def head(run: MessageRun) -> bytes:
    """Return the part of the frame of some messages before their bodies.

    Raises:
        MessageTooLargeError: one of them has 4 GiB or more.
    """
    count = len(run.bodies)
    try:
        lengths = struct.pack(f"!{count}I", *map(len, run.bodies))
    except struct.error:
        raise _too_large(max(map(len, run.bodies))) from None
    return _HEAD.pack(_MESSAGES, run.origin, run.first, count) + lengths


def encode(control: Control) -> bytes:
    """Return the frame of an account or a hello."""
    kind = _KINDS[type(control)]
    return _CONTROLS[kind][0].pack(kind, *attrs.astuple(control))


def decode(frame: bytes) -> MessageRun | Control:
    """Return the content of a frame: messages, an account or a hello.

    Raises:
        WireError: it is no such frame.
    """
    kind = frame[0] if frame else 0
    if kind == _MESSAGES and len(frame) >= HEAD_BYTES:
        return _messages(frame)
    layout = _CONTROLS.get(kind)
    if layout is None or len(frame) != layout[0].size:
        raise WireError(f"native frame of kind {kind} has {len(frame)} bytes")
    control = layout[1](*layout[0].unpack(frame)[1:])
    if isinstance(control, Hello) and not control.node:
        raise WireError("native hello has node id 0")
    return control


def _messages(frame: bytes) -> MessageRun:
    _, origin, first, count = _HEAD.unpack_from(frame)
    begin = _HEAD.size + count * _LENGTH.size
    if (
        not (origin and first)
        or not 1 <= count <= _COUNT_MAX
        or first + count > _NUMBERS
        or begin > len(frame)
    ):
        msg = f"native frame has {count} messages of {origin:#x} from number {first}"
        raise WireError(msg)
    if count == 1:
        bodies = [frame[begin:]]
        ends = begin + _LENGTH.unpack_from(frame, _HEAD.size)[0]
    else:
        lengths = struct.unpack_from(f"!{count}I", frame, _HEAD.size)
        places = [*accumulate(lengths, initial=begin)]
        bodies = [frame[start:stop] for start, stop in pairwise(places)]
        ends = places[-1]
    if ends != len(frame):
        raise WireError(f"native frame has {len(frame)} bytes, announced: {ends}")
    return MessageRun(origin, first, bodies)
