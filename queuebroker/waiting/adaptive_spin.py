"""`AdaptiveSpin`: the choice to spin or to sleep at once before a socket wait.

To put a thread to sleep and wake it on another processor takes longer than a short
reply. So a waiter whose last reply came soon spins for a moment the next time, and
sleeps only if no reply came.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AWAKE_S", "CAUTION_MAX", "AdaptiveSpin"]

# Maximum duration of a spin in seconds; a reply within it is worth the spin. Twice the
# round trip of two programs if both have to be woken.
AWAKE_S: Final = 2e-4
# Maximum number of short waits required before the next spin: if every spin is in vain,
# hardly any time is wasted.
CAUTION_MAX: Final = 64


class AdaptiveSpin:
    """The recent waits of one waiter; for one thread at a time.

    due: True if the next wait should begin with a spin.

    A spin in vain costs `AWAKE_S` of a processor. While messages are far apart, no wait
    spins. When they begin to be far apart, at most one spin is in vain. If every wait
    is short and yet no spin helps, one wait in `CAUTION_MAX` spins.
    """

    __slots__ = ("_caution", "_wanted", "due")

    def __init__(self) -> None:
        # Number of short waits before the next spin, and its next value after a spin in
        # vain.
        self._wanted: int = 1
        self._caution: int = 1
        self.due: bool = False

    def record_spin(self, *, came: bool) -> None:
        """Record the result of a spin: True if the awaited event came."""
        if came:
            self._caution = 1
        else:
            self._wanted, self.due = self._caution, False
            self._caution = min(2 * self._caution, CAUTION_MAX)

    def record_sleep(self, seconds: float) -> None:
        """Record how long the waiter slept before an event came."""
        if seconds <= AWAKE_S:
            self._wanted -= 1
            self.due = self._wanted <= 0
