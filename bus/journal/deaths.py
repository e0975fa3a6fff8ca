"""`Deaths`: what living processes recorded of those that died.

A process that is killed closes nothing, and its journal has no end. If another process
recorded its death, that is its end: what it had recorded lies in the file, and it did
nothing after it. The terms are those of `bus.journal.rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.events import BusReason

if TYPE_CHECKING:
    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts

__all__ = ["Deaths"]


@attrs.frozen
class _Death:
    """One record of a death.

    journal: where it stands. pid, machine: of whom. mono: when, on the machine's clock.
    """

    journal: int
    pid: int
    machine: str
    mono: int


class Deaths:
    """All deaths on record."""

    def __init__(self) -> None:
        self._deaths: list[_Death] = []

    def take(self, journal: int, record: Record, machine: str) -> None:
        """A LINK_DOWN record; ``machine`` is the name that its `peer` stands for."""
        if record.reason == BusReason.DIED:
            death = _Death(journal, record.mid, machine, record.mono)
            self._deaths.append(death)

    def judge(self, facts: dict[int, JournalFacts]) -> dict[int, JournalFacts]:
        """The facts of all journals, with those that died marked as that."""
        return {
            journal: attrs.evolve(each, died=self._is_of_the_dead(each, facts))
            for journal, each in facts.items()
        }

    def _is_of_the_dead(
        self, one: JournalFacts, facts: dict[int, JournalFacts]
    ) -> bool:
        if one.closed or one.last_mono is None:
            return False
        return any(
            death.journal != one.journal
            and (death.pid, death.machine) == (one.pid, one.machine)
            and facts[death.journal].boot == one.boot
            and one.last_mono <= death.mono
            for death in self._deaths
        )
