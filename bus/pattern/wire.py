"""The bytes of the SP wire: the handshake and the head of a frame.

Facts of the nanomsg documents and of captures; see specs/bus-pattern.md. Each
connection starts with eight bytes in both directions: a magic number, the endpoint type
of the sender, and two reserved bytes. Then each message is one frame.

Two bus sockets of this package agree on the endpoint type `NATIVE_BUS`. Its frames are
SP frames, whose first byte is their kind: see `bus.pattern.native`.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from bus.errors import WireError

__all__ = [
    "HANDSHAKE",
    "IPC_MESSAGE",
    "MAGIC",
    "EndpointType",
    "frame_head",
    "type_mismatch",
]


class EndpointType(enum.IntEnum):
    """The protocol of a socket and its role, as the handshake states them.

    The numbers 3840 to 4095 are free for local use; a native bus takes 3847.
    """

    PAIR0 = 0x10
    PAIR1 = 0x11
    BUS = 0x70
    NATIVE_BUS = 3847 << 4


MAGIC: Final = b"\0SP\0"
HANDSHAKE: Final = struct.Struct("!4sHH")  # magic, endpoint type, reserved
IPC_MESSAGE: Final = 1  # the only type of frame on UNIX sockets

_TCP_HEAD: Final = struct.Struct("!Q")
_IPC_HEAD: Final = struct.Struct("!BQ")


def frame_head(size: int, *, is_ipc: bool) -> bytes:
    """Return the head of a frame with ``size`` bytes."""
    return _IPC_HEAD.pack(IPC_MESSAGE, size) if is_ipc else _TCP_HEAD.pack(size)


def type_mismatch(source: str, stated: int, expected: EndpointType) -> WireError:
    """Return the error for an endpoint type of another protocol.

    source: stated the type.
    """
    return WireError(
        f"{source} has endpoint type {_name_of(stated)}, not {_name_of(expected)}; "
        "use sockets of one protocol"
    )


def _name_of(endpoint: int) -> str:
    try:
        return f"{endpoint:#x} ({EndpointType(endpoint).name})"
    except ValueError:
        return f"{endpoint:#x}"
