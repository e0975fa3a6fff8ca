"""`NewAddresses`: the new addresses of tasks that moved elsewhere (BUS-MOVE-9)."""

from __future__ import annotations

from typing import Final

__all__ = ["NewAddresses"]

_NAMES_MAX: Final = 1024


class NewAddresses:
    """The new addresses of moved tasks, which a master keeps for their senders.

    by_name: each new address, and until when senders receive it, in seconds; at most
      `_NAMES_MAX`, the latest last.
    """

    __slots__ = ("by_name",)

    def __init__(self) -> None:
        self.by_name: Final[dict[str, tuple[str, float]]] = {}

    def record(self, name: str, address: str, until: float) -> None:
        """Keep the new address of a task; if there are too many, drop the oldest."""
        self.forget(name)
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

    def next_deadline(self) -> float | None:
        """Return until when senders receive the first one; None if there is none."""
        return next((until for _, until in self.by_name.values()), None)

    def expire(self, now: float) -> None:
        """Drop the new addresses that no message can wait for any more."""
        while (until := self.next_deadline()) is not None and until <= now:
            del self.by_name[next(iter(self.by_name))]
