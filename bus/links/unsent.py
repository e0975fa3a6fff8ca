"""`Unsent`: what waits for room in one link, in order, and when to look for that."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from queuebroker.errors import DisconnectedError, SendTimeoutError

if TYPE_CHECKING:
    from queuebroker.message_queue import MessageQueue

__all__ = ["Unsent"]

# Before a link that was full is tried again, at first and at last: who reads may have
# read in between, and who does not shall not keep the owner awake.
_ROOM_S: Final = 0.001
_ROOM_S_MAX: Final = 0.05


class Unsent:
    """Frames that found a link full.

    frames: these, in order. size: how long they are together, in bytes.
    again_at: when the link is to be tried again, in seconds.
    """

    __slots__ = ("_pause_s", "again_at", "frames", "size")

    def __init__(self, frame: bytes, now: float) -> None:
        self.frames: Final = deque([frame])
        self.size: int = len(frame)
        self._pause_s: float = _ROOM_S
        self.again_at: float = now + _ROOM_S

    def append(self, frame: bytes) -> None:
        """Let a frame wait behind all others."""
        self.frames.append(frame)
        self.size += len(frame)

    def send(self, queue: MessageQueue, now: float) -> bool:
        """Put on the link what it takes; True if nothing waits any more.

        Raises:
            MessageTooLargeError: the link never takes what is first.
        """
        frames, before = self.frames, len(self.frames)
        try:
            while frames:
                queue.send(frames[0], timeout=0)
                self.size -= len(frames.popleft())
        except SendTimeoutError:
            if len(frames) < before:
                self._pause_s = _ROOM_S
            elif now < self.again_at:
                return False  # tried early, since there was something else to do
            else:
                self._pause_s = min(2 * self._pause_s, _ROOM_S_MAX)
            self.again_at = now + self._pause_s
            return False
        except DisconnectedError:
            frames.clear()
        return True
