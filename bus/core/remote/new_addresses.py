"""`NewAddresses`: the new addresses of tasks that moved elsewhere (BUS-MOVE-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.timers import Rank

if TYPE_CHECKING:
    from bus.core.timers import Timers

__all__ = ["NewAddresses"]

_NAMES_MAX: Final = 1024


class NewAddresses:
    """The new addresses of moved tasks, which a master keeps for their senders.

    by_name: each new address, and until when senders receive it, in seconds; at most
      `_NAMES_MAX`, the latest last.
    """

    __slots__ = ("_alarm", "by_name")

    def __init__(self, timers: Timers) -> None:
        self._alarm: Final = timers.alarm(Rank.NEW_ADDRESSES, self._expire)
        self.by_name: Final[dict[str, tuple[str, float]]] = {}

    def record(self, name: str, address: str, until: float) -> None:
        """Keep the new address of a task; if there are too many, drop the oldest."""
        self.forget(name)
        self._alarm.by(until)
        self.by_name[name] = (address, until)
        if len(self.by_name) > _NAMES_MAX:
            del self.by_name[next(iter(self.by_name))]

    def find(self, name: str) -> str | None:
        """Return the new address of the task that had a name; None if unknown."""
        found = self.by_name.get(name)
        return None if found is None else found[0]

    def forget(self, name: str) -> None:
        """Drop a new address, since another task has the name."""
        self.by_name.pop(name, None)

    def _expire(self, now: float) -> float | None:
        """Drop the new addresses that no message can wait for any more."""
        for name, (_, until) in list(self.by_name.items()):
            if until > now:
                return until
            del self.by_name[name]
        return None
