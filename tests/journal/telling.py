"""Shared by the tests of the writer: reporting operations, and reading the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bus.journal.reader import StoredJournal, open_journals
from queuebroker.observer import Operation, Reason

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.format import Record
    from bus.journal.writer import Journal

__all__ = [
    "SLOTS",
    "SMALL",
    "SPARES",
    "has_spare",
    "only",
    "records_of",
    "spares_ready",
    "tell",
]

SMALL: Final = 16 << 10  # the smallest segment: 153 records
SLOTS: Final = (SMALL - 4096) // 80
SPARES: Final = 8  # of small segments, kept ready


def tell(journal: Journal, **fields: Any) -> None:
    """Report one operation to a journal, a send unless specified otherwise."""
    entry: dict[str, Any] = {
        "operation": Operation.SEND,
        "channel": 7,
        "direction": 1,
        "seq": 1,
        "size": 64,
        "depth": 3,
        "waited_ns": 0,
        "local": "near",
        "remote": "far",
        "port": 5,
        "reason": Reason.NONE,
    }
    journal.observe(*(entry | fields).values())


def only(folder: Path) -> StoredJournal:
    (journal,) = open_journals(folder)
    return journal


def records_of(journal: StoredJournal) -> list[Record]:
    """Return the records of operations, without the journal's own."""
    return [record for record in journal.records() if record.kind >= 16]


def has_spare(journal: Journal) -> bool:
    """Return True if the end of the current segment loses no record."""
    incarnation = journal._incarnation
    assert incarnation is not None
    return len(incarnation._supply._line) > 1


def spares_ready(journal: Journal, records: int, spares: int = SPARES) -> bool:
    """Whether all segments of a journal of small segments are prepared.

    The file of a spare has its name before writers can draw the spare from the line. A
    caller that checks only names might fill the current segment in between, and lose.
    """
    incarnation = journal._incarnation
    assert incarnation is not None
    current = (records - 1) // SLOTS
    due = [current + ahead for ahead in range(spares + 1)]
    line = [segment.header.segment for segment in list(incarnation._supply._line)]
    names = {path.name for path in incarnation.folder.glob("*.open.qbj")}
    return line == due and names == {f"seg-{number:05d}.open.qbj" for number in due}
