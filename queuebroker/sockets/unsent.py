"""`Unsent`: the output that a socket has not taken yet.

It holds frames in order, in pieces; a long message is a piece by itself and never
copied. It does not interpret the frames and does not block: its owner tries again when
the socket is writable.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Final

from queuebroker import _net
from queuebroker.sockets.descriptors import close_all
from queuebroker.sockets.memory import keep_memory

if TYPE_CHECKING:
    from queuebroker._net import Socket

__all__ = ["JOIN_BYTES_MAX", "Unsent"]

# Below this it is faster to copy the output into one piece.
JOIN_BYTES_MAX: Final = 1 << 16
# Maximum pieces written with one call.
PIECES_MAX: Final = 64


class Unsent:
    """The pieces, oldest first; guarded by the lock of its owner.

    Each method that writes raises `OSError` if the socket has failed.

    written: how many bytes of pieces the socket has taken so far.
    """

    __slots__ = ("_fds", "pieces", "written")

    def __init__(self) -> None:
        self.pieces: deque[memoryview] = deque()
        self.written: int = 0
        # Descriptors to send with the first byte of a piece, by the `id` of the piece.
        self._fds: dict[int, list[int]] = {}

    def keep_described(self, frame: bytes, fds: list[int]) -> None:
        """Append a frame and the descriptors to send with it and then close."""
        piece = memoryview(frame)
        self._fds[id(piece)] = fds
        self.pieces.append(piece)

    def write_new(self, socket: Socket, parts: list[bytes], flags: int) -> bool:
        """Write parts; if the socket does not take all, keep the rest, return False.

        flags: `_net.AT_ONCE` for a plain socket, none for TLS.
        """
        if len(parts) > 1 and sum(map(len, parts)) > JOIN_BYTES_MAX:
            # Long messages are not copied: each head is a piece of its own.
            keep_memory()  # for the sender, which allocated these messages
            self.pieces.extend(map(memoryview, filter(None, parts)))
            return True
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            sent = socket.send(data, flags)
        except _net.WOULD_BLOCK:
            sent = 0
        if sent == len(data):
            return True
        self.pieces.append(memoryview(data)[sent:])
        return False

    def write(self, socket: Socket, flags: int) -> bool:
        """Write some of the pieces; return False if the socket takes no more.

        flags: as in `write_new`; TLS takes one piece per call.
        """
        head = self.pieces[0]
        try:
            if flags and len(self.pieces) > 1 and not self._fds:
                return self._write_several(socket, flags)
            sent = self._send_head(socket, head, flags)
        except _net.WOULD_BLOCK:
            return False
        self.written += sent
        if sent == len(head):
            self.pieces.popleft()
            return True
        self.pieces[0] = head[sent:]
        return False

    def _write_several(self, socket: Socket, flags: int) -> bool:
        pieces = list(itertools.islice(self.pieces, PIECES_MAX))
        sent = socket.sendmsg(pieces, (), flags)
        self.written += sent
        for piece in pieces:
            if sent < len(piece):
                self.pieces[0] = piece[sent:]
                return sent > 0
            sent -= len(piece)
            self.pieces.popleft()
        return True

    def _send_head(self, socket: Socket, head: memoryview, flags: int) -> int:
        fds = self._fds.get(id(head)) if self._fds else None
        if fds is None:
            return socket.send(head, flags)
        sent = _net.send_with_fds(socket, head, fds)
        del self._fds[id(head)]
        close_all(fds)
        return sent

    def close_fds(self) -> None:
        """Close the descriptors of messages that will not be sent."""
        while self._fds:
            close_all(self._fds.popitem()[1])
