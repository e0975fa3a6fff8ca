"""`FrameReaders`: reads frames from links, or the reason why a link has ended.

A frame may arrive in two pieces, its head and a long body, so each link has its own
reader. The comm thread passes all frames of a round to the manager at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bus.core.wire import FOLLOWS_MIN, Frame, FrameReader
from bus.errors import WireError
from queuebroker.sockets import ProtocolError, RemoteError

__all__ = ["FrameReaders", "Read"]


class Read(Struct, frozen=True, eq=False):
    """One item read from a link: a frame, one to be skipped, none, or the end.

    error: set if the data is not a frame, or broke the rules of links.
    lost: True for the end of the link.
    mid_io: True if the link ended without a farewell: its process died.
    why: the peer's reason for ending the link; "" for none.
    """

    frame: Frame | None = None
    error: WireError | None = None
    lost: bool = False
    mid_io: bool = False
    why: str = ""


class FrameReaders:
    """The readers of a process's links; used under `Rounds.hold`.

    midway: the readers of the links whose next bytes are the body of a long message, by
      the numbers of the links. A link without one is read from the start of a frame.

    cause: returns why a link ended without a farewell, by its number; see
      `LinkPool.cause`.
    resolve_body: see `Bodies.resolve_body`.
    message_bytes_max: maximum length of a message body (OPEN-6). A body too short for a
      frame of its own is always allowed, since error reports need that much.
    """

    __slots__ = ("_cause", "_message_bytes_max", "_resolve_body", "midway")

    def __init__(
        self,
        cause: Callable[[int], BaseException | None],
        resolve_body: Callable[[int, Frame], Frame],
        message_bytes_max: int,
    ) -> None:
        self._cause: Final = cause
        self._resolve_body: Final = resolve_body
        self._message_bytes_max: Final = max(message_bytes_max, FOLLOWS_MIN)
        self.midway: Final[dict[int, FrameReader]] = {}

    def read(self, number: int, data: bytes | None) -> Read:
        """Read one item from a link; ``data`` is None at its end."""
        if data is None:
            self.forget(number)
            cause = self._cause(number)
            if isinstance(cause, ProtocolError):
                # The link was closed for that, and the peer notified. The rest is
                # handled like any other violation (BUS-WIRE-4, BUS-SEC-10).
                return Read(error=WireError(str(cause)))
            if isinstance(cause, RemoteError):
                # The peer lives, and closed the link because of an error of this
                # process.
                return Read(lost=True, why=str(cause) or cause.kind or "no reason")
            return Read(lost=True, mid_io=cause is not None)
        reader = self.midway.pop(number, None) or FrameReader(self._message_bytes_max)
        try:
            frame = reader.read(data)
            if frame is None:
                self.midway[number] = reader
                return Read()
            return Read(self._resolve_body(number, frame))
        except WireError as error:
            return Read(error=error)

    def forget(self, number: int) -> None:
        """Forget the reader of a link that was lost or closed."""
        self.midway.pop(number, None)
