"""`DialFailures`: why the masters that a process dials have no link with it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DialFailure", "DialFailures"]


class DialFailure(Struct, frozen=True):
    """The failure of one dial.

    why: the reason, in the words of the log.
    is_refusal: True if one of the two processes does not admit the other; False if
      there was no answer.
    """

    why: str
    is_refusal: bool = False


class DialFailures:
    """The last failure to reach each master since its last link, by key of its dial."""

    __slots__ = ("_first_at", "_last")

    def __init__(self) -> None:
        # Each with its time in seconds.
        self._last: Final[dict[str, tuple[float, DialFailure]]] = {}
        # The time, in seconds, of the first failure since the last link.
        self._first_at: Final[dict[str, float]] = {}

    def note(self, key: str, failure: DialFailure, now: float) -> None:
        """Record a failure; ``now`` is in seconds."""
        self._last[key] = now, failure
        self._first_at.setdefault(key, now)

    def forget(self, key: str) -> None:
        """Forget the failures: there is a link, or the master is dialled no more."""
        self._last.pop(key, None)
        self._first_at.pop(key, None)

    def last(self, keys: Iterable[str]) -> list[DialFailure]:
        """Return the last failure of each key that has one, the latest at the end."""
        known = [self._last[key] for key in keys if key in self._last]
        return [failure for _, failure in sorted(known, key=itemgetter(0))]

    def first_at(self, key: str) -> float | None:
        """Return when the first one happened, in seconds; None if none is known."""
        return self._first_at.get(key)
