"""Many generated histories judged in one run: a run costs seconds, a history nothing.

Each history of a `Batch` has journals and channels of its own, so that violations can
be assigned to their history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RecordKind
from bus.pipeline.folder import OutFolder
from bus.pipeline.results import first_violations
from bus.pipeline.run import run_pipeline
from queuebroker.observer import SHARED_CHANNELS
from tests.journal.histories import Condition, Entry, History, journal_id, store

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.results import Result
    from bus.journal.violation import Violation

__all__ = ["Batch", "Case", "Judged", "judge"]

_CHANNELS: Final = 1000  # for one history, and as many registrations
_BASE: Final = (Entry(RecordKind.SEND, channel=1).flow >> 1) - 1


@attrs.frozen
class Case:
    """One history's place in a batch: its journals and the base of its channels.

    Its registrations on a bus have the same base.
    """

    journals: range
    channels: range

    def flow(self, flow: int) -> int:
        """Return the number in the batch for a flow of the history."""
        return flow + (self.channels.start << 1)

    def registration(self, number: int) -> int:
        """Return the number in the batch for a registration of the history."""
        return self.channels[number]

    def owns(self, violation: Violation) -> bool:
        """Whether a violation belongs to this history."""
        if violation.origin is not None:
            return violation.origin in self.channels
        if violation.flow is None:
            return violation.journal in [journal_id(one) for one in self.journals]
        return (violation.flow >> 1) % SHARED_CHANNELS - _BASE in self.channels


@attrs.frozen
class Judged:
    """The result of Spark for a batch."""

    result: Result
    folder: OutFolder
    violations: list[Violation]

    def of(self, case: Case) -> list[Violation]:
        """The violations of one history."""
        return [one for one in self.violations if case.owns(one)]


@attrs.define
class Batch:
    """Histories to be judged together."""

    entries: list[Entry] = attrs.field(factory=list)
    conditions: list[Condition] = attrs.field(factory=list)
    cases: int = 0

    def add(self, history: History, *conditions: Condition) -> Case:
        """Add a copy of a history.

        conditions: of its journals, in order; a single one applies to all.
        """
        channels = range(self.cases * _CHANNELS, (self.cases + 1) * _CHANNELS)
        first = len(self.conditions)
        history.number()
        for entry in history.entries:
            channel = channels[entry.channel] if entry.channel else 0
            journal = entry.journal + first
            # A death refers to the process of a journal.
            port = entry.port + first * (entry.kind is RecordKind.LINK_DOWN)
            copy = attrs.evolve(entry, channel=channel, journal=journal, port=port)
            if entry.destination:
                copy.origin = channels[entry.origin]
                copy.destination = channels[entry.destination]
            self.entries.append(copy)
        given = conditions or (Condition(),)
        self.conditions += given * history.journals if len(given) == 1 else given
        self.cases += 1
        return Case(range(first, len(self.conditions)), channels)

    def store(self, folder: Path) -> list[Path]:
        """Store all journals below a folder; return the path of each."""
        together = History(self.entries, len(self.conditions))
        together.number_journals()
        conditions = dict(enumerate(self.conditions))
        return store(together, folder, slots=16, conditions=conditions)


def judge(journals: Path, out: Path) -> Judged:
    """Run the pipeline without the report, on the session of the fixture `spark`."""
    result = run_pipeline(journals, out, report=False)
    folder = OutFolder(out)
    return Judged(result, folder, list(first_violations(folder, per_rule=10**6)))
