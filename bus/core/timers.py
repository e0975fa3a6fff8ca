"""`Timers`: the work of the remote manager that time brings about.

Each part that waits for a time has one `Alarm`. An event that gives the part a deadline
sets the alarm, so that no round asks the part for one. A part with many deadlines keeps
them itself, for example in `Deadlines`, and the alarm stands for the first.

So there are as many alarms as parts, however many peers, links and tasks there are: a
list needs no heap.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Alarm", "Timers"]


class Alarm:
    """The time by which one part is called.

    It may be early: nothing sets it back when a deadline ends or moves. The part then
    finds nothing due, and returns the deadline that it has by now.

    at: when the part is called, in seconds; infinite for never. A part with a single
      deadline may set it, to postpone the call.
    on_due: handles the due work; returns the next deadline, or None for none.
    """

    __slots__ = ("at", "on_due")

    def __init__(self, on_due: Callable[[float], float | None]) -> None:
        self.on_due: Final = on_due
        self.at: float = math.inf

    def by(self, deadline: float | None) -> None:
        """Have the part called by a deadline; None for none.

        Call this before the part gets the deadline: an interrupt in between leaves an
        early alarm, never a deadline without one.
        """
        if deadline is not None and deadline < self.at:
            self.at = deadline


class Timers:
    """The alarms of one process."""

    __slots__ = ("_alarms",)

    def __init__(self) -> None:
        self._alarms: Final[list[Alarm]] = []

    def alarm(self, on_due: Callable[[float], float | None]) -> Alarm:
        """Add and return the alarm of a part; see `Alarm`."""
        alarm = Alarm(on_due)
        self._alarms.append(alarm)
        return alarm

    def next(self) -> float | None:
        """Return the earliest time of an alarm, in seconds; None for never."""
        at = min([each.at for each in self._alarms], default=math.inf)
        return None if at == math.inf else at

    def run(self, now: float) -> None:
        """Call each part that is due once, in the order of creation.

        A part that becomes due meanwhile is called, too, unless its turn has passed:
        then it is due in the next call. If a part raises, it stays due.
        """
        for alarm in self._alarms:
            if alarm.at <= now:
                at = alarm.on_due(now)
                alarm.at = math.inf if at is None else at
