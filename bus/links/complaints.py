"""`Complaints`: what other processes do wrong, as the log of this one tells it.

Whoever misbehaves may do so as often as it likes, under any name. So only so many lines
are told in a while, and each is one line, and not too long. What that led to here is
told in any case.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

__all__ = ["Complaints"]

_log: Final = logging.getLogger("bus")

_LINES_MAX: Final = 20  # in each period
_PERIOD_S: Final = 60.0
_CHARACTERS_MAX: Final = 400


class Complaints:
    """Complaints of one process: noted where decisions are made, told elsewhere.

    Who decides holds a lock, and who reads a log may do anything: also wait for what
    only a holder of that lock can bring.
    """

    __slots__ = ("_left_out", "_noted", "_since", "_told")

    def __init__(self) -> None:
        # Each with whether it is told in any case.
        self._noted: Final[deque[tuple[str, bool]]] = deque()
        self._since: float | None = None
        self._told: int = 0
        self._left_out: int = 0

    def note(self, text: str) -> None:
        """Complain, as soon as `tell` is called."""
        self._noted.append((text, False))

    def report(self, text: str) -> None:
        """Tell of an error in this process, as soon as `tell` is called."""
        self._noted.append((text, True))

    def tell(self, now: float) -> None:
        """Put into the log what was noted, or how much was too much; in seconds."""
        while self._noted:
            text, always = self._noted.popleft()
            text = (text if text.isprintable() else ascii(text))[:_CHARACTERS_MAX]
            if always:
                _log.error("%s", text)
                continue
            if self._since is None or now - self._since >= _PERIOD_S:
                if self._left_out:
                    _log.warning("%d more such warnings were left out", self._left_out)
                self._since, self._told, self._left_out = now, 0, 0
            if self._told >= _LINES_MAX:
                self._left_out += 1
                continue
            self._told += 1
            _log.warning("%s", text)
