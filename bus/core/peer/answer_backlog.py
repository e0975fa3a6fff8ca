"""`AnswerBacklog`: the bound on the answers that wait for one process.

Windows limit requests, but not a peer that sends requests and reads no answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from bus.core import constants

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AnswerBacklog"]


class _Relay(Protocol):
    def waiting_answers(self) -> tuple[int, int]:
        """Return how many answers are queued, and their total length in bytes."""


class AnswerBacklog:
    """The answers that may wait in the relays of one process.

    ``_count`` and ``_size`` are upper bounds: the answers posted since the waiting ones
    were last counted, plus those that waited then, in number and bytes. The exchange's
    lock guards both.
    """

    __slots__ = ("_count", "_relays", "_size")

    def __init__(self, relays: Mapping[int, _Relay]) -> None:
        self._relays: Final = relays
        self._count = self._size = 0

    def count(self, size: int) -> bool:
        """Count an answer of `size` bytes; return False if too many wait."""
        self._count += 1
        self._size += size
        if not self._is_over():
            return True
        # Most answers have been sent by now, so the recount is rare.
        waiting = [each.waiting_answers() for each in self._relays.values()]
        self._count = sum([count for count, _ in waiting])
        self._size = sum([size for _, size in waiting])
        return not self._is_over()

    def _is_over(self) -> bool:
        return (
            self._count > constants.BACKLOG_FRAMES
            or self._size > constants.BACKLOG_BYTES
        )

    def admit(self, size: int) -> bool:
        """Count one more answer of `size` bytes, unless too many might wait."""
        if (
            self._count >= constants.BACKLOG_FRAMES
            or self._size + size > constants.BACKLOG_BYTES
        ):
            return False
        self._count += 1
        self._size += size
        return True

    def clear(self) -> None:
        """Forget all answers, since their relays are released."""
        self._count = self._size = 0
