"""`Burst`: messages sent in quick succession, which are handed over together."""

from __future__ import annotations

from typing import Final

__all__ = ["Burst"]

# A message sent within this time of the previous one, in seconds, waits for the next
# ones: they are encoded together, and one system call carries them to each peer. It
# waits until so many messages or bytes are together, or until another thread comes.
_BURST_S: Final = 5e-5
_MESSAGES_MAX: Final = 256
_BYTES_MAX: Final = 1 << 16


class Burst:
    """The messages of a node that wait for the next ones; under its lock."""

    __slots__ = ("_bodies", "_sent_at", "_size")

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._size: int = 0
        self._sent_at: float = 0.0  # when the last message was sent

    @property
    def is_full(self) -> bool:
        """True if they must not wait any longer."""
        return len(self._bodies) >= _MESSAGES_MAX or self._size >= _BYTES_MAX

    def continues(self, size: int, now: float) -> bool:
        """Return True if a message of ``size`` bytes that is sent now may wait."""
        is_soon, self._sent_at = now - self._sent_at < _BURST_S, now
        return is_soon and size < _BYTES_MAX

    def add(self, body: bytes) -> bool:
        """Append a message; return True if it is the first."""
        is_first = not self._bodies
        self._bodies.append(body)
        self._size += len(body)
        return is_first

    def take(self) -> list[bytes]:
        """Remove and return all of them."""
        bodies = self._bodies
        self._bodies, self._size = [], 0
        return bodies
