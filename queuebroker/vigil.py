"""`Vigil`: whether who waits at a socket stays awake for it, or sleeps at once.

To be put to sleep, and woken on another processor, takes longer than to answer a short
question. So who was answered soon the last time waits awake for a moment the next time,
and sleeps only if that was in vain.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AWAKE_S", "CAUTION_MAX", "Vigil"]

# What comes sooner is worth to be awaited, for so long at most; in seconds. Twice of
# what two programs take to answer each other, both of which have to be woken.
AWAKE_S: Final = 2e-4
# How many waits have to be short before there is a vigil again, at most: so where each
# is in vain next to nothing is wasted.
CAUTION_MAX: Final = 64


class Vigil:
    """What one who waits knows of the last times; for one thread at a time.

    A vigil in vain costs `AWAKE_S` of a processor. There is none while what comes is
    far between, one at most when that begins, and one in `CAUTION_MAX` waits where each
    is short and yet no vigil helps.
    """

    __slots__ = ("_caution", "_wanted")

    def __init__(self) -> None:
        # How many waits have to be short before the next vigil; after one in vain.
        self._wanted: int = 1
        self._caution: int = 1

    @property
    def due(self) -> bool:
        """Whether to stay awake this time."""
        return self._wanted <= 0

    def kept(self, *, came: bool) -> None:
        """Note whether what was waited for came while it stayed awake."""
        if came:
            self._caution = 1
        else:
            self._wanted = self._caution
            self._caution = min(2 * self._caution, CAUTION_MAX)

    def slept(self, seconds: float) -> None:
        """Note for how long it slept before something came."""
        if seconds <= AWAKE_S:
            self._wanted -= 1
