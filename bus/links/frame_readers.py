"""`FrameReaders`: what comes by links, as frames, or why one of them has ended.

A frame may come in two pieces, its head and a long body, so each link is read by a
reader of its own. What comes of it is decided elsewhere, all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bus.core.wire import FOLLOWS_MIN, FrameReader
from bus.errors import WireError
from queuebroker.sockets import ProtocolError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.wire import Frame

__all__ = ["FrameReaders", "Read"]


class Read(Struct, frozen=True, eq=False):
    """What was read of a link: a frame, one to be passed over, none, or the end.

    error: what came was no frame, or broke the rules of links.
    lost: whether it is the end. torn: with no good-bye: a process has died.
    why: what the other side complained of when it ended the link; "" if of nothing.
    """

    frame: Frame | None = None
    error: WireError | None = None
    lost: bool = False
    torn: bool = False
    why: str = ""


class FrameReaders:
    """The readers of the links of a process; for whoever does its round.

    cause: why a link ended with no good-bye, by its number; see `Lines.cause`.
    message_bytes_max: how long the body of a message may be (OPEN-6). What is too short
      for a frame of its own always may: what went wrong is told in as many words.
    """

    __slots__ = ("_cause", "_message_bytes_max", "_readers")

    def __init__(
        self, cause: Callable[[int], BaseException | None], message_bytes_max: int
    ) -> None:
        self._cause: Final = cause
        self._message_bytes_max: Final = max(message_bytes_max, FOLLOWS_MIN)
        self._readers: Final[dict[int, FrameReader]] = {}

    def read(self, number: int, data: bytes | None) -> Read:
        """Read what came by a link; None for its end."""
        if data is None:
            self.forget(number)
            cause = self._cause(number)
            if isinstance(cause, ProtocolError):
                # It has been closed for that, and its peer was told; what is left is
                # to do as with any other violation (BUS-WIRE-4, BUS-SEC-10).
                return Read(error=WireError(str(cause)))
            if isinstance(cause, RemoteError):
                # It is there, and has taken its leave: of what it says this did.
                return Read(lost=True, why=str(cause) or cause.kind or "no word")
            return Read(lost=True, torn=cause is not None)
        reader = self._readers.get(number)
        if reader is None:
            reader = FrameReader(self._message_bytes_max)
            self._readers[number] = reader
        try:
            return Read(reader.read(data))
        except WireError as error:
            return Read(error=error)

    def forget(self, number: int) -> None:
        """Forget a link that is gone."""
        self._readers.pop(number, None)

    def midway(self, number: int) -> bool:
        """Whether what comes next by a link is the body of a long message."""
        reader = self._readers.get(number)
        return reader is not None and reader.midway
