"""Frames packed by hand, right or wrong, and their outcome."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from bus.errors import WireError
from bus.kernel.wire import FrameType, decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.kernel import wire

__all__ = ["REGISTRATION", "control", "head", "msg", "outcome"]


def outcome(data: bytes) -> wire.Frame | WireError | None:
    """Decode; a decoded frame must survive another round trip."""
    try:
        frame = decode(data)
    except WireError as error:
        return error
    if frame is not None:
        assert decode(encode(frame)) == frame
    return frame


def msg(
    *heads: bytes,
    floor: int = 0,
    first: int = 1,
    runs: int | None = None,
    count: int | None = None,
    lengths: Sequence[int] = (),
    bodies: bytes = b"",
) -> bytes:
    """Pack a batch; its counts are correct unless overridden."""
    runs = len(heads) if runs is None else runs
    count = len(lengths) if count is None else count
    header = struct.pack("!BQQIQQQHH", 14, 1, 2, floor, first, 3, 4, runs, count)
    return (
        header + b"".join(heads) + struct.pack(f"!{len(lengths)}I", *lengths) + bodies
    )


def head(*, kind: int = 1, flags: int = 0, count: int = 1) -> bytes:
    return struct.pack("!IIBBQIBHQ", 1, 2, kind, flags, 3, 4, 5, count, 6)


def control(kind: FrameType, /, **fields: object) -> bytes:
    return bytes((kind,)) + msgspec.msgpack.encode(fields)


REGISTRATION = {"machine": "m", "process": "p", "number": 1}
