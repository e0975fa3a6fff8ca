"""`LiveCheck`: the small checker, fed with journals while they are written.

It reports a violation as soon as records prove it. A rule on absence needs the end of
the journals: the missing record may still be written. So when all journals have ended,
it checks them all again as `bus check` does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.bus_traffic import key_of
from bus.journal.checker import CheckResult, check, judged
from bus.journal.follower import EARLIEST, Follower
from bus.journal.format import RecordKind
from bus.journal.reader import FactsBuilder, StoredJournal, open_journals
from bus.journal.rules import RULES, Basis, Verdict
from bus.journal.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.bus_traffic import Key
    from bus.journal.follower import Position, Range
    from bus.journal.reader import JournalFacts
    from bus.journal.violation import Violation

__all__ = ["LiveCheck"]

_BUS: Final = int(RecordKind.REGISTER)
# Bounds the records that are judged together, while it catches up.
RECORDS_AT_A_TIME: Final = 65_536


@attrs.define
class _Read:
    """A journal, as far as it was read."""

    journal: StoredJournal
    builder: FactsBuilder
    facts: JournalFacts


class LiveCheck:
    """Follows the journals at or below a folder, from their beginnings.

    It keeps all messages that it has read: 200 bytes for each message of a bus.

    directory: a folder that exists; journals may appear in it later.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory: Final = os.fspath(directory)
        self._follower: Final = Follower(self._directory, may_lack=True)
        self._position: Position = EARLIEST
        self._traffic: Final = Traffic()
        self._read: Final[dict[int, _Read]] = {}
        self._reported: Final[set[tuple[str | int | None, ...]]] = set()
        self._ended: frozenset[int] = frozenset()

    def advance(self, most: int = RECORDS_AT_A_TIME) -> list[Violation] | None:
        """Read new records; return the violations that are certain since, each once.

        Records that are damaged or deleted are skipped and logged.

        most: how many records to read.

        Returns:
            None if there was nothing to read.

        Raises:
            JournalError: the folder cannot be listed, or two journals are copies.
        """
        end = self._follower.latest(self._position, most)
        if end == self._position:
            return None
        channels: set[int] = set()
        messages: set[Key] = set()
        for group in self._follower.plan(self._position, end):
            for each in group:
                self._take(each, channels, messages)
        self._position = end
        facts = {number: each.facts for number, each in self._read.items()}
        found = [*self._proven(facts, channels, messages), *self._at_the_end(facts)]
        return sorted(found, key=lambda each: (each.journal or 0, each.n or 0))

    def result(self) -> CheckResult:
        """Check all journals, as they are now.

        Raises:
            JournalError: there is none, or see `advance`.
        """
        return check(open_journals(self._directory))

    def _take(self, part: Range, channels: set[int], messages: set[Key]) -> None:
        segment = part.read()
        if segment is None:
            return
        read = self._read.get(part.journal)
        if read is None:
            journal = StoredJournal(Path(part.folder))
            builder = FactsBuilder(journal)
            read = _Read(journal, builder, builder.result())
            self._read[part.journal] = read
        read.builder.add(segment)
        # Built after the records were read, so it has every name in them.
        read.facts = read.builder.result()
        records = list(segment.records())
        self._traffic.enter(part.journal, read.journal.name)
        self._traffic.take(records)
        met = self._traffic.channels
        for record in records:
            if record.kind < _BUS:
                if record.flow >> 1 in met:
                    channels.add(record.flow >> 1)
            elif (key := key_of(record)) is not None:
                messages.add(key)

    def _proven(
        self,
        facts: dict[int, JournalFacts],
        channels: set[int],
        messages: set[Key],
    ) -> Iterator[Violation]:
        for each in judged(self._traffic, facts, channels, messages):
            basis = RULES[each.rule].basis_of(each.case)
            if basis is Basis.PRESENCE and self._is_new(each):
                yield each

    def _at_the_end(self, facts: dict[int, JournalFacts]) -> Iterator[Violation]:
        """Yield the certain violations of all rules, each time that all have ended."""
        facts = self._traffic.deaths.judge(facts)
        ended = frozenset(number for number, each in facts.items() if each.ended)
        if len(ended) < len(facts) or ended == self._ended:
            return
        self._ended = ended
        for each in self.result().violations:
            if each.verdict is Verdict.FAIL and self._is_new(each):
                yield each

    def _is_new(self, violation: Violation) -> bool:
        known = violation.key in self._reported
        self._reported.add(violation.key)
        return not known
