"""Journals as they are found on the disk, of living, ended and killed processes.

`open_journals` finds them below a folder; `StoredJournal` gives records, names and
the facts that verdicts rest on. A file that is damaged or goes away while being read
is said in one line of `problems`, and reading goes on with the rest.

Nothing here needs numpy but `StoredSegment.array` (`bus.journal.stored_segment`).
"""

from __future__ import annotations

import bisect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import JournalError
from bus.journal.meta import META_FILE
from bus.journal.stored_meta import StoredMeta, read_meta
from bus.journal.stored_segment import (
    SEGMENT_NAME,
    problem_of,
    read_segment,
    read_segment_array,
)
from bus.journal.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus.journal.format import Record
    from bus.journal.stored_segment import StoredSegment

__all__ = [
    "FactsBuilder",
    "JournalFacts",
    "StoredJournal",
    "open_journals",
    "read_segment_array",
]

LINES_NAMED_MAX: Final = 10


@attrs.frozen
class JournalFacts:
    """What J1 and every UNKNOWN rest on; the terms are those of `bus.journal.rules`.

    journal: its number. holes: slots that were drawn and never written.
    segments, sealed: files that were found, and those among them with a seal.
    machine, pid, boot: whose it is, None and "" where nobody knows.
    last_mono: the latest time of a record, on that machine's clock.
    died: whether another journal tells of the death of its process; only who has read
      all of them can say.
    begun: whether its process may have recorded an operation.
    """

    journal: int
    records: int
    first: int | None
    last: int | None
    holes: int
    lost: int
    damaged: int
    closed: bool
    late: bool
    segments: int
    sealed: int
    machine: str = ""
    pid: int | None = None
    boot: str = ""
    last_mono: int | None = None
    died: bool = False
    begun: bool = True

    @property
    def gaps(self) -> int:
        """Record numbers that are missing between the first and the last."""
        if self.first is None or self.last is None:
            return 0
        return self.last - self.first + 1 - self.records

    @property
    def lossy(self) -> bool:
        """Whether records are missing that were, or may have been, there."""
        lacks = self.first != 0 or self.gaps > 0 or self.lost > 0 or self.damaged > 0
        return self.begun and lacks

    @property
    def ended(self) -> bool:
        """Whether nothing more comes: it was closed, or its process died."""
        return self.closed or self.died

    @property
    def complete(self) -> bool:
        """Whether it has a beginning and an end and everything between them."""
        return self.ended and not self.lossy

    @property
    def conclusive(self) -> bool:
        """Whether what is not in it did not happen."""
        return self.complete and not self.late


class StoredJournal:
    """One incarnation: a folder with segments and a side file.

    path: the folder. id: the journal's number.
    meta: its side file as it was read last, see `refresh`.
    problems: what could not be read so far, one line each.
    """

    def __init__(self, path: Path) -> None:
        """Read the side file. JournalError if nothing tells whose journal it is."""
        self.path = path
        self.problems: list[str] = []
        self.meta = StoredMeta()
        self._anchors: list[tuple[int, int]] = []
        self._unread_lines = ""
        self.refresh()
        self.id = (
            self.meta.journal if self.meta.journal is not None else self._header_id()
        )

    @property
    def machine(self) -> str:
        """Name of the machine it was written on."""
        return self.meta.machine or self.path.parent.name

    def refresh(self) -> None:
        """Read the side file again if it has grown.

        What is written to it, be it a name or that operations came after the close, is
        written before the records that rest on it: so read the records first.
        """
        try:
            size = (self.path / META_FILE).stat().st_size
            if size and size == self.meta.file_bytes:
                return
            self.meta = read_meta(self.path)
        except OSError as error:
            self.tell(f"cannot read {self.path / META_FILE}: {error.strerror}")
            return
        if self.meta.wall:
            self._anchor(self.meta.mono, self.meta.wall)
        if self._unread_lines in self.problems:  # from an earlier read
            self.problems.remove(self._unread_lines)
        if self.meta.unreadable:
            self._unread_lines = self._about_lines(self.meta.unreadable)
            self.tell(self._unread_lines)

    def name(self, number: int) -> str:
        """What a record's `task` or `peer` stands for; "" for nobody, or unknown."""
        return self.meta.names.get(number, "")

    def thread(self, number: int) -> str:
        """The name of the thread a record was written by; "" if nobody knows."""
        return self.meta.threads.get(number, "")

    def wall_ns(self, mono: int) -> int:
        """The wall clock at a record's `mono`, by the anchor before it, else the first.

        Exact as far as the anchors of the segments read so far tell of steps.
        """
        if not self._anchors:
            return 0
        place = bisect.bisect_right(self._anchors, (mono, 2**64))
        anchor_mono, anchor_wall = self._anchors[max(0, place - 1)]
        return anchor_wall + mono - anchor_mono

    def segment_paths(self) -> list[Path]:
        """Its segment files, in order; those of a living process come and go."""
        try:
            paths = list(self.path.iterdir())
        except OSError as error:
            self.tell(f"cannot list {self.path}: {error.strerror}")
            return []
        # A file that was being sealed may be listed under both names.
        found: dict[int, Path] = {}
        for path in sorted(paths, reverse=True):
            match = SEGMENT_NAME.fullmatch(path.name)
            if match:
                found.setdefault(int(match[1]), path)
        return [found[number] for number in sorted(found)]

    def segments(
        self, on_damaged: Callable[[], None] = lambda: None
    ) -> Iterator[StoredSegment]:
        """Its segments as far as they can be read, in order; the rest are problems.

        on_damaged: called for each file that is there and is no segment of it.
        """
        for path in self.segment_paths():
            try:
                segment = self._read(path)
            except OSError as error:
                self.tell(problem_of(error, path))
            except JournalError as error:
                self.tell(problem_of(error, path))
                on_damaged()
            else:
                yield segment

    def records(self) -> Iterator[Record]:
        """Its valid records, in the order of their numbers."""
        for segment in self.segments():
            yield from segment.records()

    def facts(self) -> JournalFacts:
        """Read everything, and sum it up."""
        facts = FactsBuilder(self)
        for segment in self.segments(facts.add_damaged):
            facts.add(segment)
        return facts.result()

    def tell(self, problem: str) -> None:
        """Note a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _read(self, path: Path) -> StoredSegment:
        segment = read_segment(path, self.id)
        for problem in segment.problems:
            self.tell(problem)
        self._anchor(segment.header.mono, segment.header.wall)
        self.refresh()
        return segment

    def _about_lines(self, numbers: list[int]) -> str:
        """Describe how many lines of the side file are unreadable, and which."""
        which = ", ".join(map(str, numbers[:LINES_NAMED_MAX]))
        if len(numbers) > LINES_NAMED_MAX:
            which += ", ..."
        return (
            f"cannot read {counted(len(numbers), 'line')} of {self.path / META_FILE}:"
            f" number {which}"
        )

    def _header_id(self) -> int:
        """The number of a journal whose side file does not tell it."""
        for path in self.segment_paths():
            try:
                return read_segment(path).header.journal
            except (OSError, JournalError) as error:
                self.tell(problem_of(error, path))
        raise JournalError("; ".join(self.problems) or f"no journal in {self.path}")

    def _anchor(self, mono: int, wall: int) -> None:
        if (mono, wall) not in self._anchors:
            bisect.insort(self._anchors, (mono, wall))


class FactsBuilder:
    """The sum over a journal's segments, given one after another."""

    def __init__(self, journal: StoredJournal) -> None:
        self._journal = journal
        self._records = self._holes = self._lost = self._damaged = 0
        self._segments = self._sealed = self._blank = 0
        self._first: int | None = None
        self._last: int | None = None
        self._closed = False
        self._boot = ""
        self._last_mono: int | None = None

    def add(self, segment: StoredSegment) -> None:
        """One more segment, the next in order."""
        self._segments += 1
        self._sealed += segment.header.seal is not None
        self._blank += segment.blank
        self._damaged += bool(segment.flaws)
        self._records += segment.count
        self._holes += len(segment.invalid)
        self._lost = max(self._lost, segment.lost)
        self._closed = self._closed or segment.closes
        self._boot = max(self._boot, segment.header.boot_id.hex())
        if segment.count:
            latest = segment.last_mono
            self._last_mono = max(latest, self._last_mono or latest)
            self._first = segment.first if self._first is None else self._first
            self._last = segment.last

    def add_damaged(self) -> None:
        """One file more that could not be read as a segment."""
        self._damaged += 1

    def result(self) -> JournalFacts:
        """What they come to; call it when the records of all journals have been read.

        The side file is read last of all. A process that lived when its journal was
        opened may have closed it since and gone on working: an operation that its
        records lack is then told of before any record, here or in another journal,
        of what came of it.
        """
        self._journal.refresh()
        blank = self._blank == self._segments == 1 and not self._damaged
        return JournalFacts(
            journal=self._journal.id,
            records=self._records,
            first=self._first,
            last=self._last,
            holes=self._holes,
            lost=self._lost,
            damaged=self._damaged,
            closed=self._closed,
            late=self._journal.meta.late,
            segments=self._segments,
            sealed=self._sealed,
            machine=self._journal.machine,
            pid=self._journal.meta.pid,
            boot=self._boot,
            last_mono=self._last_mono,
            begun=not (blank and self._journal.meta.silent),
        )


def open_journals(directory: str | os.PathLike[str]) -> list[StoredJournal]:
    """Every journal at or below a folder, in the order of their paths.

    Raises:
        JournalError: there is none, a folder cannot be listed, or two are copies of
          one, whose records would count twice.
    """

    def refuse(error: OSError) -> None:
        # A folder that went away since its parent was listed is no journal any more.
        if not isinstance(error, FileNotFoundError) or error.filename == top:
            raise JournalError(f"cannot list {error.filename}: {error.strerror}")

    top = os.fspath(directory)
    journals: dict[int, StoredJournal] = {}
    for folder, below, files in os.walk(top, onerror=refuse):
        below.sort()
        if META_FILE not in files and not any(map(SEGMENT_NAME.fullmatch, files)):
            continue
        journal = StoredJournal(Path(folder))
        twin = journals.setdefault(journal.id, journal)
        if twin is not journal:
            raise JournalError(f"two copies of one journal: {twin.path} and {folder}")
    if not journals:
        raise JournalError(f"no journal in {top}")
    return list(journals.values())
