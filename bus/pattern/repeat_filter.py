"""`RepeatFilter`: drops messages whose bytes arrived a short time ago (BP-16)."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from queuebroker import _sync

if TYPE_CHECKING:
    from bus.pattern.message_run import MessageRun

__all__ = ["RepeatFilter"]

# The number of messages that are remembered; the oldest goes first.
_MESSAGES_MAX: Final = 1 << 16
_DIGEST_BYTES: Final = 16


class RepeatFilter:
    """The messages of the last ``seconds``, by their digests; 0 filters none.

    For the holder of the node's lock.
    """

    __slots__ = ("_came_at", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds: Final = seconds
        self._came_at: Final[OrderedDict[bytes, float]] = OrderedDict()

    def without_repeats(self, run: MessageRun) -> list[MessageRun]:
        """Record messages; return those that repeat no recent one, in order."""
        if not self._seconds:
            return [run]
        return [
            run.part(at, at + 1)
            for at, body in enumerate(run.bodies)
            if not self.repeats(body)
        ]

    def repeats(self, body: bytes) -> bool:
        """Record a message; return True if it repeats a recent one."""
        if not self._seconds:
            return False
        now, came_at = _sync.monotonic(), self._came_at
        digest = blake2b(body, digest_size=_DIGEST_BYTES).digest()
        repeated = digest in came_at and came_at[digest] > now - self._seconds
        came_at[digest] = now
        came_at.move_to_end(digest)
        if len(came_at) > _MESSAGES_MAX:
            came_at.popitem(last=False)
        return repeated
