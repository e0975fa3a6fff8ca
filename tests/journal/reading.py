"""Shared by the tests of the reader: a journal on the disk, to damage and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.journal.format import RecordKind
from tests.journal.histories import Condition, Entry, History, store
from tests.journal.telling import only

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.reader import JournalFacts

__all__ = ["entries", "facts", "patch", "stored"]


def entries(count: int, journal: int = 0) -> list[Entry]:
    return [
        Entry(RecordKind.SEND, 1, 1, seq=seq, task="a", peer="b", journal=journal)
        for seq in range(1, count + 1)
    ]


def stored(folder: Path, count: int = 98, **condition: object) -> Path:
    """Store a journal of ``count`` + 2 records in segments of 40; return its folder."""
    given = Condition(**condition)  # type: ignore[arg-type] # as the class says
    (path,) = store(History(entries(count)), folder, slots=40, conditions={0: given})
    return path


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def facts(folder: Path) -> JournalFacts:
    return only(folder).facts()
