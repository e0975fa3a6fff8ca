"""`PeerLog`: the peer log: reports the misbehaviour of other processes.

A peer may misbehave as often as it likes, under any name. So the number of lines in
each period is limited, and each report is one line of limited length. Errors in this
process are always logged.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

__all__ = ["PeerLog"]

_log: Final = logging.getLogger("bus")

_LINES_MAX: Final = 20  # in each period
_PERIOD_S: Final = 60.0
_CHARACTERS_MAX: Final = 400


class PeerLog:
    """Reports of one process: noted during decisions, logged elsewhere.

    The deciding thread holds a lock, and a log handler may do anything. It may even
    wait for a result that needs that lock.
    """

    __slots__ = ("_left_out", "_logged", "_noted", "_since")

    def __init__(self) -> None:
        # Each text, with True if it is always logged.
        self._noted: Final[deque[tuple[str, bool]]] = deque()
        self._since: float | None = None
        self._logged: int = 0
        self._left_out: int = 0

    def note(self, text: str) -> None:
        """Note misbehaviour of a peer; logged by the next `write`."""
        self._noted.append((text, False))

    def report(self, text: str) -> None:
        """Note an error in this process; logged by the next `write`."""
        self._noted.append((text, True))

    def write(self, now: float) -> None:
        """Log the notes, or the number left out; ``now`` is in seconds."""
        while self._noted:
            text, always = self._noted.popleft()
            text = (text if text.isprintable() else ascii(text))[:_CHARACTERS_MAX]
            if always:
                _log.error("%s", text)
                continue
            if self._since is None or now - self._since >= _PERIOD_S:
                if self._left_out:
                    _log.warning("%d more such warnings suppressed", self._left_out)
                self._since, self._logged, self._left_out = now, 0, 0
            if self._logged >= _LINES_MAX:
                self._left_out += 1
                continue
            self._logged += 1
            _log.warning("%s", text)
