"""`Unsent`: the frames that wait for room in one link, and when to retry."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from queuebroker.errors import DisconnectedError, SendTimeoutError

if TYPE_CHECKING:
    from queuebroker.channel.message_queue import MessageQueue

__all__ = ["Unsent"]

# Shortest and longest pause before a full link is tried again, unless `LinkPoller.wait`
# ends before: the peer may have read meanwhile. A peer that does not read must not keep
# the owner awake.
_ROOM_S: Final = 0.001
_ROOM_S_MAX: Final = 0.05


class Unsent:
    """Frames that found a link full.

    frames: the frames, in order. size: their total length, in bytes.
    again_at: the time of the next attempt, in seconds.
    """

    __slots__ = ("_pause_s", "again_at", "frames", "size")

    def __init__(self, frame: bytes, now: float) -> None:
        self.frames: Final = deque([frame])
        self.size: int = len(frame)
        self._pause_s: float = _ROOM_S
        self.again_at: float = now + _ROOM_S

    def append(self, frame: bytes) -> None:
        """Add a frame after all others."""
        self.frames.append(frame)
        self.size += len(frame)

    def send(self, queue: MessageQueue, now: float) -> bool:
        """Send as many frames as the link takes; return True if none is left.

        Raises:
            MessageTooLargeError: the link can never take the first frame.
        """
        frames, before = self.frames, len(self.frames)
        try:
            while frames:
                # As many as the peer may have room for, in one step.
                run = list(islice(frames, queue.capacity))
                for _ in range(queue.send_many(run, timeout=0)):
                    self.size -= len(frames.popleft())
        except SendTimeoutError:
            if len(frames) < before:
                self._pause_s = _ROOM_S
            elif now < self.again_at:
                return False  # tried early, along with other work
            else:
                self._pause_s = min(2 * self._pause_s, _ROOM_S_MAX)
            self.again_at = now + self._pause_s
            return False
        except DisconnectedError:
            frames.clear()
        return True
