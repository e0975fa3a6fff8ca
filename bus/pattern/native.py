"""Frames between two bus sockets of this package: messages, and accounts of drops.

Each is the body of an SP frame, and starts with its kind. All numbers are big-endian
and have 64 bits.

==========  ==============================================================
kind        fields behind it
==========  ==============================================================
1 message   the origin's node id, the message's number there, the body
2 hello     the node id of the sender; the first frame in each direction
3 sent      how many messages were meant for the peer, and how many of
            them the sender has dropped
4 taken     how many messages arrived, how many of them the application
            has taken, and how many were dropped: since the receive queue
            was full, and as duplicates
==========  ==============================================================
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

import attrs

from bus.errors import WireError

__all__ = ["HEAD", "Control", "Hello", "Sent", "Taken", "decode", "encode", "head"]

_MESSAGE: Final = 1
HEAD: Final = struct.Struct("!BQQ")  # kind, origin, number


@attrs.frozen(slots=True)
class Hello:
    """The node id of the peer."""

    node: int


@attrs.frozen(slots=True)
class Sent:
    """The account of a sender, for one peer: totals since the connection began."""

    messages: int
    dropped: int


@attrs.frozen(slots=True)
class Taken:
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


Control: TypeAlias = "Hello | Sent | Taken"

_CONTROLS: Final[dict[int, tuple[struct.Struct, type[Control]]]] = {
    2: (struct.Struct("!BQ"), Hello),
    3: (struct.Struct("!BQQ"), Sent),
    4: (struct.Struct("!BQQQQ"), Taken),
}
_KINDS: Final = {made: kind for kind, (_, made) in _CONTROLS.items()}


def head(origin: int, number: int) -> bytes:
    """Return the part of a message frame before the body."""
    return HEAD.pack(_MESSAGE, origin, number)


def encode(control: Control) -> bytes:
    """Return the frame of an account or a hello."""
    kind = _KINDS[type(control)]
    return _CONTROLS[kind][0].pack(kind, *attrs.astuple(control))


def decode(frame: bytes) -> tuple[int, int] | Control:
    """Return origin and number of a message, whose body follows `HEAD`; or a control.

    Raises:
        WireError: it is no such frame.
    """
    kind = frame[0] if frame else 0
    if kind == _MESSAGE and len(frame) >= HEAD.size:
        _, origin, number = HEAD.unpack_from(frame)
        if not number:
            raise WireError("native message has number 0")
        return origin, number
    layout = _CONTROLS.get(kind)
    if layout is None or len(frame) != layout[0].size:
        raise WireError(f"native frame of kind {kind} has {len(frame)} bytes")
    return layout[1](*layout[0].unpack(frame)[1:])
