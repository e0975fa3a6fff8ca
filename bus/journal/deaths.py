"""`Deaths`: the deaths of processes, as recorded by living ones.

A killed process closes nothing, so its journal has no end. If another process recorded
its death, that record is the end: the file holds all that the dead process recorded,
and it did nothing afterwards. The terms are those of `bus.journal.rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from bus.model.events import BusReason

if TYPE_CHECKING:
    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts

__all__ = ["Deaths"]


@attrs.frozen
class _Death:
    """One record of a death.

    journal: the one that holds it. pid, machine: of the dead process. mono: its time,
    on the machine's clock.
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
        """Add a LINK_DOWN record; ``machine`` is the name for its `peer`."""
        if record.reason == BusReason.DIED:
            death = _Death(journal, record.mid, machine, record.mono)
            self._deaths.append(death)

    def judge(self, facts: dict[int, JournalFacts]) -> dict[int, JournalFacts]:
        """Return the facts of all journals, with `died` set where it applies."""
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
