"""`Schedule`: the instants at which a replay sends recorded messages. Pure.

It never reads a clock. The caller passes each instant, and waits.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["Schedule"]

_RATE_MIN: Final = 2**-10


class Schedule:
    """Maps the times of a recording to instants of a replay.

    rate: seconds of the recording for each second of the replay; `math.inf` sends each
      message at once.
    first_ns: the time of the first message, on the recorded clock.
    now: the present instant, in seconds of any clock that never goes back.
    paused: start paused.

    Each message is due at a fixed distance from one instant, not from the message
    before it, so delays do not add up. A change of the rate and the end of a pause
    choose a new such instant.

    lag_s: the greatest delay of a message after the instant at which it was due.
    """

    __slots__ = ("_at_ns", "_since", "_steps", "lag_s", "paused", "rate")

    def __init__(
        self, rate: float, first_ns: int, now: float, *, paused: bool = False
    ) -> None:
        self.rate: float = rate
        self.paused: bool = paused
        self.lag_s: float = 0.0
        # The recording has reached the time `_at_ns` at the instant `_since`.
        self._at_ns, self._since = first_ns, now
        self._steps = 0  # messages to send in spite of the pause

    @property
    def is_unlimited(self) -> bool:
        """True if each message is due at once, until a key is pressed."""
        return self.rate == math.inf and not self.paused

    def wait_s(self, at_ns: int, now: float) -> float:
        """Return the seconds until a message is due; 0 or less if it is due now.

        `math.inf` while the replay is paused.

        at_ns: the time of the message, on the recorded clock.
        """
        if self._steps:
            return 0.0
        if self.paused:
            return math.inf
        if self.rate == math.inf:
            return 0.0
        # A difference of integers: times since the epoch are too long for a float.
        return self._since + (at_ns - self._at_ns) / 1e9 / self.rate - now

    def on_sent(self, at_ns: int, now: float) -> None:
        """Note that a message is sent now, as `wait_s` allowed."""
        if self._steps:
            # The pause goes on, and ends at the time of this message.
            self._steps -= 1
            self._at_ns = max(self._at_ns, at_ns)
        else:
            self.lag_s = max(self.lag_s, -self.wait_s(at_ns, now))

    def pause(self, now: float) -> None:
        """Pause; the recording keeps its time until `resume`."""
        if not self.paused:
            self._move_to(now)
            self.paused = True

    def resume(self, now: float) -> None:
        """End the pause."""
        if self.paused:
            self._since = now
            self._steps = 0
            self.paused = False

    def step(self, now: float) -> None:
        """Pause, and let one more message be sent."""
        self.pause(now)
        self._steps += 1

    def restart(self, first_ns: int, now: float) -> None:
        """Begin again at the first message."""
        self._at_ns, self._since = first_ns, now

    def scale(self, factor: float, now: float) -> None:
        """Multiply the rate; an infinite rate remains infinite."""
        if not self.paused:
            self._move_to(now)
        slowest = min(self.rate, _RATE_MIN)
        self.rate = max(slowest, self.rate * factor)

    def _move_to(self, now: float) -> None:
        """Let the distances begin at the present instant."""
        if self.rate != math.inf:
            self._at_ns += round((now - self._since) * self.rate * 1e9)
        self._since = now
