"""`Protocol`: one SP connection without I/O: its handshake, then its frames.

The caller passes it the bytes that arrive, and sends the bytes that it returns. It does
not interpret messages.
"""

from __future__ import annotations

import enum
import struct
from io import BytesIO
from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.pattern.wire import HANDSHAKE, IPC_MESSAGE, MAGIC, EndpointType, type_mismatch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Protocol", "ProtocolState"]

_TCP_HEAD: Final = struct.Struct("!Q")
_IPC_HEAD: Final = struct.Struct("!BQ")
_LENGTHS: Final = (1 << 63) - 1  # the greatest length of a frame in any library


class ProtocolState(enum.Enum):
    """Where a connection is."""

    HANDSHAKE = enum.auto()  # the peer's type is not known
    OPEN = enum.auto()
    FAILED = enum.auto()  # the peer broke the rules: close the connection


class Protocol:
    """The protocol of one connection; one thread at a time calls it.

    A peer of this package is recognised before it is sent a type. Both ends send the
    magic number at once. A listener sends its type only after that of the dialler, and
    sends the same, or its plain type if it rejects that of the dialler. So a dialler
    that gets four bytes, and no type, has a listener of this package, and states the
    native type. Every other library sends all eight bytes at once. If those bytes
    arrive in pieces, the listener rejects the native type, and the next dial must be a
    plain one (`states_native`).

    Args:
        plain: the endpoint type of this socket among all libraries.
        native: the endpoint type among sockets of this package; None without one.
        dials: True for the end that connected.
        is_ipc: True if each frame starts with a type, as on UNIX sockets.
        bytes_max, native_bytes_max: the maximum length of an incoming frame, with each
          of the endpoint types; 0 for no limit.

    Attributes:
        state: see `ProtocolState`.
        agreed: the endpoint type of both ends; None during the handshake.
    """

    __slots__ = (
        "_begun",
        "_bytes_max",
        "_dials",
        "_head",
        "_is_ipc",
        "_missing",
        "_native",
        "_native_bytes_max",
        "_partial",
        "_plain",
        "_to_send",
        "_typed",
        "agreed",
        "state",
    )

    def __init__(
        self,
        plain: EndpointType,
        native: EndpointType | None = None,
        *,
        dials: bool,
        is_ipc: bool,
        bytes_max: int,
        native_bytes_max: int = 0,
    ) -> None:
        self._plain: Final = plain
        self._native: Final = native
        self._dials: Final = dials
        self._is_ipc: Final = is_ipc
        self._bytes_max: int = bytes_max or _LENGTHS
        self._native_bytes_max: Final = native_bytes_max or _LENGTHS
        self._head: Final = _IPC_HEAD if is_ipc else _TCP_HEAD
        self.state: ProtocolState = ProtocolState.HANDSHAKE
        self.agreed: EndpointType | None = None
        self._begun: bytes = b""  # data of an incomplete head or of a short message
        # The data of a message that has more to come, and how much. Not a `Gathering`:
        # memory grows as data arrives, not by the length that a peer states.
        self._partial: BytesIO = BytesIO()
        self._missing: int = 0
        # Bytes for the peer; the own type, once it is among them or was.
        self._to_send: bytes = MAGIC
        self._typed: EndpointType | None = None
        if native is None:
            self._state_type(plain)

    @property
    def is_midway(self) -> bool:
        """True if a part of a long message has arrived."""
        return self._missing > 0

    def data_to_send(self) -> bytes:
        """Remove and return the bytes of the handshake that are to be sent."""
        data, self._to_send = self._to_send, b""
        return data

    def state_plain_type(self) -> None:
        """State the plain type, since the peer has sent nothing for a while."""
        if self._typed is None:
            self._state_type(self._plain)

    @property
    def states_native(self) -> bool:
        """True if this end has stated the native type."""
        return self._typed is not None and self._typed is self._native

    def receive_data(self, data: bytes) -> list[bytes]:
        """Take in bytes of the peer; return the messages that they complete.

        Raises:
            WireError: the peer broke the rules; the state is FAILED. The messages
              before that are lost.
        """
        try:
            if self.state is ProtocolState.HANDSHAKE:
                data = self._shake_hands(self._begun + data)
                if self.state is ProtocolState.HANDSHAKE:
                    return []
            if self.state is ProtocolState.FAILED:
                return []
            return self._cut(data)
        except WireError:
            self.state = ProtocolState.FAILED
            raise

    # The handshake.

    def _state_type(self, stated: EndpointType) -> None:
        self._typed = stated
        self._to_send += HANDSHAKE.pack(MAGIC, stated, 0)[len(MAGIC) :]

    def _shake_hands(self, data: bytes) -> bytes:
        """Read the peer's handshake; return the data behind it."""
        if data[: len(MAGIC)] != MAGIC[: len(data)]:
            raise WireError(f"SP handshake has a wrong magic number: {data[:4].hex()}")
        if len(data) < HANDSHAKE.size:
            self._begun = data
            withholds = len(data) == len(MAGIC)
            if withholds and self._dials and self._native and self._typed is None:
                self._state_type(self._native)
            return b""
        _, stated, reserved = HANDSHAKE.unpack_from(data)
        if reserved:
            raise WireError(f"SP handshake has reserved bytes other than 0: {reserved}")
        known = {self._plain, self._native} if self._typed is None else {self._typed}
        if stated not in known:
            if self._typed is None:
                self._state_type(self._plain)  # so that the peer can name both types
            raise type_mismatch("SP handshake", stated, self._plain)
        if self._typed is None:
            self._state_type(EndpointType(stated))
        self._begun = b""
        self.agreed = EndpointType(stated)
        if self.agreed is self._native:
            self._bytes_max = self._native_bytes_max
        self.state = ProtocolState.OPEN
        return data[HANDSHAKE.size :]

    # Frames.

    def _cut(self, data: bytes) -> list[bytes]:
        """Return the messages that end in this data."""
        messages: list[bytes] = []
        if self._missing:
            self._missing -= (taken := self._partial.write(data[: self._missing]))
            if self._missing:
                return messages
            messages.append(self._partial.getvalue())
            self._partial = BytesIO()
            data = data[taken:]
        elif self._begun:
            data = self._begun + data
        unpack, head = self._head.unpack_from, self._head.size
        most, is_ipc = self._bytes_max, self._is_ipc
        start, end = 0, len(data)
        while end - start >= head:
            fields = unpack(data, start)
            length = fields[-1]
            if length > most or (is_ipc and fields[0] != IPC_MESSAGE):
                self._refuse(fields)
            begin = start + head
            start = begin + length
            if start > end:
                self._partial.write(data[begin:])
                self._missing = start - end
                self._begun = b""
                return messages
            messages.append(data[begin:start])
        self._begun = data[start:]
        return messages

    def _refuse(self, fields: Sequence[int]) -> None:
        if self._is_ipc and fields[0] != IPC_MESSAGE:
            raise WireError(f"SP frame has type {fields[0]}, not {IPC_MESSAGE}")
        raise WireError(
            f"SP frame has {fields[-1]} bytes, allowed: {self._bytes_max}; "
            "SocketConfig.message_bytes of the receiver is the limit"
        )
