"""`StreamWriter`: writes the frames for one peer to a socket, in any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.pattern.framing import whole_frames
from bus.pattern.send_queue import SendQueue
from queuebroker import _net
from queuebroker.sockets.unsent import JOIN_BYTES_MAX, Unsent

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.pattern.framing import Pieces
    from bus.pattern.socket_config import SocketConfig
    from queuebroker._net import Socket

__all__ = ["StreamWriter"]


class StreamWriter:
    """The output of one connection; the holder of the flush of ``queue`` writes.

    Args:
        config: the limits of the queue.
        is_ipc: True over a UNIX socket: a frame begins with its type.
        await_room: called when ``awaits_room`` changes.
        fail: called, in any thread, with the error that ends the connection.

    Attributes:
        queue: the frames that wait.
        awaits_room: True if `SendQueue.unblock` is to be called when the socket takes
          more.
    """

    __slots__ = (
        "_await_room",
        "_begun_at",
        "_fail",
        "_in_hand",
        "_is_ipc",
        "_is_writing",
        "_socket",
        "_unsent",
        "awaits_room",
        "queue",
    )

    def __init__(
        self,
        socket: Socket,
        config: SocketConfig,
        *,
        is_ipc: bool,
        await_room: Callable[[], object],
        fail: Callable[[BaseException], object],
    ) -> None:
        self.queue: Final[SendQueue[Pieces]] = SendQueue(
            config.send_messages, config.send_bytes, self._write, self._unwritten
        )
        self.awaits_room: bool = False
        self._socket: Final = socket
        self._await_room: Final = await_room
        self._fail: Final = fail
        self._unsent: Final = Unsent()
        self._is_writing: bool = False  # True while frames are in hand
        # The frames of these pieces and of those written before them, since the last
        # `_gather`, each with the number of its messages; the bytes written before it.
        self._in_hand: Final[list[tuple[Pieces, int]]] = []
        self._begun_at: int = 0
        self._is_ipc: Final = is_ipc

    def _unwritten(self) -> int:
        """Return how many messages the system has not taken, or not whole."""
        left, end = 0, 0
        for pieces, count in list(self._in_hand):
            begin = end
            end += len(pieces) if isinstance(pieces, bytes) else sum(map(len, pieces))
            written = self._unsent.written - self._begun_at
            if count and end > written:
                # One frame for each message, or one for all of them: `NativeFraming`.
                size = max(0, written - begin)
                left += count - whole_frames(pieces, size, is_ipc=self._is_ipc)
        return left

    @property
    def is_idle(self) -> bool:
        """True if nothing waits, not even the rest of a frame."""
        return not (self.queue or self._unsent.pieces)

    def _write(self) -> bool:
        """Write frames; return False if the socket takes no more for now."""
        if self._is_writing:
            return False  # it was interrupted, and the connection ends
        self._is_writing = True
        try:
            has_room = self._write_frames()
        except BaseException:
            # Nobody knows how much of a frame has left. The peer must not get the rest
            # of it as another frame.
            self._fail(InterruptedError("a write was interrupted"))
            raise
        self._is_writing = False
        return has_room

    def _write_frames(self) -> bool:
        unsent = self._unsent
        while unsent.pieces or self._gather():
            try:
                has_room = unsent.write(self._socket, _net.AT_ONCE)
            except OSError as error:
                self._fail(error)
                return False
            if not has_room:
                self._set_awaits_room(awaits=True)
                return False
        self._set_awaits_room(awaits=False)
        return True

    def _gather(self) -> bool:
        """Take frames of the queue for one write; return False if there is none."""
        short: list[bytes] = []
        size = 0
        self._in_hand.clear()  # all of them are written
        self._begun_at = self._unsent.written
        while (
            size < JOIN_BYTES_MAX and (taken := self.queue.take_counted()) is not None
        ):
            self._in_hand.append(taken)
            frame = taken[0]
            if isinstance(frame, tuple):
                short.append(frame[0])
                pieces = b"".join(short), frame[1]
                self._unsent.pieces.extend(map(memoryview, pieces))
                return True
            short.append(frame)
            size += len(frame)
        if short:
            self._unsent.pieces.append(memoryview(b"".join(short)))
        return bool(short)

    def _set_awaits_room(self, *, awaits: bool) -> None:
        if awaits != self.awaits_room:
            self.awaits_room = awaits
            self._await_room()
