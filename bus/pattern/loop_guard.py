"""`LoopGuard`: recognises a message that has come by another path (BP-16).

Each message between sockets of this package has an origin, the node that sent it first,
and its number there. So it is accepted once, however many devices form a ring.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from bus.kernel.streams.incoming_stream import IncomingStream

if TYPE_CHECKING:
    from bus.pattern.message_run import MessageRun

__all__ = ["LoopGuard"]

# How far a message may fall behind a later one of its origin, on another path, and how
# many ranges of such messages are remembered.
_WINDOW: Final = 1 << 16
_RANGES_MAX: Final = 1024
# The number of origins that are remembered; the one unheard for longest goes first.
_ORIGINS_MAX: Final = 4096


class LoopGuard:
    """The messages that a socket has accepted, by origin; for the holder of its lock.

    own: the node id of the socket, whose messages never come back.
    """

    __slots__ = ("_streams", "own")

    def __init__(self, own: int) -> None:
        self.own: Final = own
        self._streams: Final[OrderedDict[int, IncomingStream[None]]] = OrderedDict()

    def without_duplicates(self, run: MessageRun) -> list[MessageRun]:
        """Record messages; return those that have not come before, in order."""
        origin, first, count = run.origin, run.first, len(run.bodies)
        stream = self._streams.get(origin)
        # The common case first: the messages after the last one.
        if stream is not None and stream.accept_next(first, count, 1):
            self._streams.move_to_end(origin)
            return [run]
        return [
            run.part(at, at + 1)
            for at in range(count)
            if self.accepts(origin, first + at)
        ]

    def accepts(self, origin: int, number: int) -> bool:
        """Record a message; return False if it has come before."""
        if origin == self.own:
            return False
        stream = self._streams.get(origin)
        if stream is None:
            stream = self._begin(origin, number)
        else:
            self._streams.move_to_end(origin)
        # The common case first: the message after the last one.
        if stream.accept_next(number, 1, 1):
            return True
        return bool(stream.accept(number, (None,), 1))

    def _begin(self, origin: int, number: int) -> IncomingStream[None]:
        if len(self._streams) >= _ORIGINS_MAX:
            self._streams.popitem(last=False)
        # Earlier messages may still come by a slower path.
        stream = IncomingStream[None](
            max(1, number - _WINDOW),
            window=_WINDOW,
            ranges_max=_RANGES_MAX,
            ordered=False,
        )
        self._streams[origin] = stream
        return stream
