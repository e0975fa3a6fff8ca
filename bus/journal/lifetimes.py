"""`Lifetimes`: the registrations and subscriptions of tasks, as journals record them.

It holds the small checker's facts for B4 and B6: from when to when a task was
registered, and subscribed to a name. The predicates are those of `bus.journal.rules`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RecordKind
from bus.model.address import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts

__all__ = ["Lifetimes"]

_PARTS: Final = {"*": "/[^/]+", "**": "(?:/[^/]+)*"}
_RESERVED: Final = f"{SYSTEM}/"


@attrs.define
class _Subscription:
    """A SUBSCRIBE record; ``number`` is that of the subscription in its process."""

    n: int
    number: int
    pattern: str

    def matches(self, name: str) -> bool:
        """Return True unless pattern and name are known and exclude one another."""
        if not (self.pattern and name):
            return True
        # Not by `bus.model.specification`, which decided the recorded deliveries.
        parts = self.pattern.split("/")
        if name.startswith(_RESERVED) and parts[0] != SYSTEM:
            return False
        expression = "".join(
            _PARTS.get(part) or "/" + re.escape(part) for part in parts
        )
        return re.fullmatch(expression, "/" + name) is not None


class Lifetimes:
    """The registrations, and the subscriptions of each, by journal.

    names: the names of tasks; a process has none.
    homes: by registration, the journals with a REGISTER, and the least time of one.
    left: by registration, the journals with a DEREGISTER, and the least n of one.
    """

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.homes: dict[int, dict[int, int]] = {}
        self.left: dict[int, dict[int, int]] = {}
        # By journal and registration; the ends, the least n of each, by number, too.
        self._subscriptions: dict[tuple[int, int], list[_Subscription]] = {}
        self._ends: dict[tuple[int, int, int], int] = {}

    def take(self, journal: int, record: Record, task: str) -> None:
        """Add a record of a registration or subscription; ``task``: its name field."""
        kind, registration = record.kind, record.flow
        if kind == RecordKind.REGISTER:
            homes = self.homes.setdefault(registration, {})
            homes[journal] = min(record.mono, homes.get(journal, record.mono))
            if task:
                known = self.names.get(registration, task)
                self.names[registration] = min(known, task)
        elif kind == RecordKind.DEREGISTER:
            self.left.setdefault(registration, {}).setdefault(journal, record.n)
        elif kind == RecordKind.SUBSCRIBE:
            new = _Subscription(record.n, record.mid, task)
            self._subscriptions.setdefault((journal, registration), []).append(new)
        elif kind == RecordKind.UNSUBSCRIBE:
            self._ends.setdefault((journal, registration, record.mid), record.n)

    def start(
        self, registration: int, boot: str, facts: Mapping[int, JournalFacts]
    ) -> int | None:
        """Return the least time of a REGISTER in a boot; None if there is none."""
        homes = self.homes.get(registration, {})
        times = [mono for each, mono in homes.items() if facts[each].boot == boot]
        return min(times, default=None) if boot else None

    def subscribed(
        self, journal: int, task: int, origin: int
    ) -> list[tuple[int, int | None]]:
        """Return the subscriptions of a task that match a notifier.

        Each is the record of its begin and that of its end, None if it has none.
        """
        name = self.names.get(origin, "")
        return [
            (each.n, self._ends.get((journal, task, each.number)))
            for each in self._subscriptions.get((journal, task), ())
            if each.matches(name)
        ]
