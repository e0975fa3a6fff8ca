"""A monotonic clock that the test sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queuebroker import _sync

if TYPE_CHECKING:
    import pytest

__all__ = ["Clock"]


class Clock:
    """A clock in place of the monotonic one; `now` is its time, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    @classmethod
    def installed(cls, monkeypatch: pytest.MonkeyPatch, now: float = 1000.0) -> Self:
        """Replace the monotonic clock of both packages until the end of the test."""
        clock = cls(now)
        monkeypatch.setattr(_sync, "monotonic", clock)
        return clock
