"""`Departures`: registrations that have left but are not emptied, by name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.core.local.routing_table import Entry

__all__ = ["Departures"]


class Departures:
    """The earlier holders of names, and the later ones that wait to be opened.

    A later holder is opened once all earlier ones are emptied, so that their unread
    messages precede its own (BUS-DEREG-4, BUS-MOVE-5).

    Attributes:
        leaving: by name, the registrations that have left, each with its turn. A task
            of another process that is announced again may appear twice.
        unopened: by name, the entries that wait.

    Invariant: a name in ``unopened`` is in ``leaving``.
    """

    __slots__ = ("_turns", "leaving", "unopened")

    def __init__(self) -> None:
        self.leaving: Final[dict[str, list[tuple[Entry, int]]]] = {}
        self.unopened: Final[dict[str, list[Entry]]] = {}
        self._turns = itertools.count()

    def next_turn(self) -> int:
        """Return the next number; holders that leave are numbered in their order."""
        return next(self._turns)

    def is_leaving(self, name: str) -> bool:
        """Return True if a holder of a name has left and is not emptied yet.

        Its unread messages precede all that wait for the name by now.
        """
        return bool(self.leaving.get(name))

    def is_unopened(self, entry: Entry) -> bool:
        """Return True if an entry waits until earlier holders are emptied."""
        return entry in self.unopened.get(entry.name, ())

    def delay(self, entry: Entry) -> None:
        """Let a new holder wait until the earlier ones are emptied."""
        self.unopened.setdefault(entry.name, []).append(entry)

    def open(self, entry: Entry) -> None:
        """Remove an entry that waits no longer."""
        waiting = self.unopened[entry.name]
        waiting.remove(entry)
        if not waiting:
            del self.unopened[entry.name]

    def add(self, entry: Entry) -> None:
        """Add a registration that is no longer found."""
        self.leaving.setdefault(entry.name, []).append((entry, self.next_turn()))

    def end(self, entry: Entry) -> tuple[int, list[Entry]]:
        """Remove a registration that is emptied.

        Returns its turn, and the entries that need not wait any more.
        """
        name = entry.name
        others = self.leaving[name]
        _, turn = departure = next(each for each in others if each[0] is entry)
        others.remove(departure)
        if others:
            return turn, []
        del self.leaving[name]
        return turn, self.unopened.pop(name, [])
