"""`Redial`: when a dialler tries again, with full jitter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Redial"]


class Redial:
    """The pauses between the attempts of one dialler.

    Args:
        min_s, max_s: bounds of the pause, in seconds. It doubles after each failure.
        share: returns a random number from 0 to 1.

    A pause is random between 0 and the current bound, so that the members of a bus do
    not all dial at once when a listener returns.
    """

    __slots__ = ("_bound_s", "_max_s", "_min_s", "_share")

    def __init__(self, min_s: float, max_s: float, share: Callable[[], float]) -> None:
        self._min_s: Final = min_s
        self._max_s: Final = max(min_s, max_s)
        self._share: Final = share
        self._bound_s: float = min_s

    def next_pause(self) -> float:
        """Return the pause before the next attempt, in seconds."""
        pause_s = self._share() * self._bound_s
        self._bound_s = min(2 * self._bound_s, self._max_s)
        return pause_s

    def on_loss(self, lasted_s: float) -> None:
        """Note a connection that has ended after a complete handshake.

        If it lasted as long as a pause might, the pauses are short again. Else they go
        on to grow: some listeners reject a connection only after the handshake, such as
        a pair that has a peer.
        """
        if lasted_s >= self._bound_s:
            self.reset()

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._bound_s = self._min_s
