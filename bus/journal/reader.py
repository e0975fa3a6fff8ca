"""Journals as found on disk, of living, ended and killed processes.

`open_journals` finds them below a folder; `StoredJournal` provides records, names and
the facts that verdicts rest on. A file that is damaged, or disappears during the read,
adds one line to `problems`, and the reader continues with the rest.

Only `StoredSegment.array` (`bus.journal.stored_segment`) needs numpy.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from bus.errors import JournalError
from bus.journal.format import ACCEPTS, Flag, Record
from bus.journal.meta import META_FILE
from bus.journal.payload_file import PAYLOAD_FILES, StoredPayloads
from bus.journal.stored_meta import StoredMeta, read_meta
from bus.journal.stored_segment import (
    SEGMENT_NAME,
    StoredSegment,
    is_spare_gone,
    problem_of,
    read_segment,
    read_segment_array,
)
from bus.journal.wording import counted

__all__ = [
    "FactsBuilder",
    "JournalFacts",
    "StoredJournal",
    "open_journals",
    "read_segment_array",
]

LINES_NAMED_MAX: Final = 10
_PAYLOAD: Final = int(Flag.PAYLOAD)  # to combine a number with a `Flag` is slow


@attrs.frozen
class JournalFacts:
    """The facts that J1 and UNKNOWN rest on, in the terms of `bus.journal.rules`.

    journal: its number. holes: slots that were drawn and never written.
    segments, sealed: the number of files found, and of those with a seal.
    machine, pid, boot: of its process, None and "" if unknown.
    last_mono: the latest time of a record, on that machine's clock.
    died: True if another journal records the death of its process; known only after
      all journals were read.
    payloads_lost: payloads that found no room; no verdict rests on it.
    begun: True if its process may have recorded an operation.
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
    payloads_lost: int = 0

    @property
    def gaps(self) -> int:
        """The number of records missing between the first and the last."""
        if self.first is None or self.last is None:
            return 0
        return self.last - self.first + 1 - self.records

    @property
    def lossy(self) -> bool:
        """True if records are missing, or may be."""
        lacks = self.first != 0 or self.gaps > 0 or self.lost > 0 or self.damaged > 0
        return self.begun and lacks

    @property
    def ended(self) -> bool:
        """True if no more records follow: it was closed, or its process died."""
        return self.closed or self.died

    @property
    def complete(self) -> bool:
        """True if it has a beginning, an end and every record between them."""
        return self.ended and not self.lossy

    @property
    def conclusive(self) -> bool:
        """True if an operation that is not in it did not happen."""
        return self.complete and not self.late


class StoredJournal:
    """One incarnation: a folder with segments and a side file.

    path: the folder. id: the journal's number.
    meta: its side file as last read, see `refresh`.
    problems: the read errors so far, one line each.
    damaged_payloads: how often `payload` has met a damaged one.
    """

    def __init__(self, path: Path) -> None:
        """Read the side file. JournalError if no file names the journal."""
        self.path = path
        self.problems: list[str] = []
        self.damaged_payloads = 0
        self.meta = StoredMeta()
        self._anchors: list[tuple[int, int]] = []
        self._unread_lines = ""
        self.refresh()
        self.id = (
            self.meta.journal if self.meta.journal is not None else self._header_id()
        )
        self._payloads = StoredPayloads(path, self.id)

    @property
    def machine(self) -> str:
        """The name of the machine on which it was written."""
        return self.meta.machine or self.path.parent.name

    def refresh(self) -> None:
        """Read the side file again if it has grown.

        The writer adds a name, or the note of operations after the close, before the
        records that depend on it. So read the records first.
        """
        try:
            size = (self.path / META_FILE).stat().st_size
            if size and size == self.meta.file_bytes:
                return
            self.meta = read_meta(self.path)
        except OSError as error:
            self.add_problem(f"cannot read {self.path / META_FILE}: {error.strerror}")
            return
        if self.meta.wall:
            self._anchor(self.meta.mono, self.meta.wall)
        if self._unread_lines in self.problems:  # from an earlier read
            self.problems.remove(self._unread_lines)
        if self.meta.unreadable:
            self._unread_lines = self._about_lines(self.meta.unreadable)
            self.add_problem(self._unread_lines)

    def name(self, number: int) -> str:
        """Return the name for a record's `task` or `peer`; "" for none, or unknown."""
        return self.meta.names.get(number, "")

    def thread(self, number: int) -> str:
        """Return the name of the thread that wrote a record; "" if unknown."""
        return self.meta.threads.get(number, "")

    def wall_ns(self, mono: int) -> int:
        """Return the wall clock at a record's `mono`, by the anchor before it.

        Before the first anchor, that one is used. The result accounts only for clock
        steps shown by the anchors of the segments read so far.
        """
        if not self._anchors:
            return 0
        place = bisect.bisect_right(self._anchors, (mono, 2**64))
        anchor_mono, anchor_wall = self._anchors[max(0, place - 1)]
        return anchor_wall + mono - anchor_mono

    def wall_times(self, monos: Sequence[int]) -> list[int]:
        """Return `wall_ns` of each of some times, which must not fall."""
        if monos:
            first, last = monos[0], monos[-1]
            places = (bisect.bisect(self._anchors, (at, 2**64)) for at in (first, last))
            if self._anchors and len({*places}) == 1:
                shift = self.wall_ns(first) - first
                return [mono + shift for mono in monos]
        return [self.wall_ns(mono) for mono in monos]

    def segment_paths(self) -> list[Path]:
        """Return its segment files, in order; a living process changes them."""
        try:
            paths = list(self.path.iterdir())
        except OSError as error:
            self.add_problem(f"cannot list {self.path}: {error.strerror}")
            return []
        # A file that is being sealed may be listed under both names.
        found: dict[int, Path] = {}
        for path in sorted(paths, reverse=True):
            match = SEGMENT_NAME.fullmatch(path.name)
            if match:
                found.setdefault(int(match[1]), path)
        return [found[number] for number in sorted(found)]

    def segments(
        self, on_damaged: Callable[[], None] = lambda: None
    ) -> Iterator[StoredSegment]:
        """Yield its readable segments, in order; the others become problems.

        on_damaged: called for each existing file that is not a segment of it.
        """
        for path in self.segment_paths():
            found: list[StoredSegment] = []
            try:
                found.append(self._read(path))
            except OSError as error:
                if not is_spare_gone(error, path):
                    self.add_problem(problem_of(error, path))
            except JournalError as error:
                self.add_problem(problem_of(error, path))
                on_damaged()
            # No variable keeps a segment that the caller has dropped: each takes as
            # much memory as its file.
            while found:
                yield found.pop()

    def records(self) -> Iterator[Record]:
        """Yield its valid records, in the order of their numbers."""
        for segment in self.segments():
            yield from segment.records()

    def payload(self, record: Record) -> bytes | None:
        """Return the payload of a record's message, as encoded by `bus.model.payload`.

        With TRUNCATED in its flags it is only the beginning of the encoding; with
        ERROR, the text of the error that was sent in its place. None if it was not
        kept, was deleted since, or cannot be read; the last is a problem.

        Only COMMAND, RESPOND and NOTIFY name payloads, and only in the process of the
        sender.
        """
        if not record.flags & _PAYLOAD or record.kind not in ACCEPTS:
            return None
        return self.payload_at(record.seq)

    def payload_at(self, location: int) -> bytes | None:
        """Return the payload at a location, None as `payload`."""
        try:
            return self._payloads.read(location)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.add_problem(
                f"cannot read a payload: {error.strerror} ({error.filename})"
            )
        except JournalError as error:
            self.damaged_payloads += 1
            self.add_problem(str(error))
        return None

    def has_payload_at(self, location: int) -> bool:
        """Return True if the file of a location exists."""
        return self._payloads.has_file_of(location)

    def close(self) -> None:
        """Close the payload file that `payload` leaves open between its calls."""
        self._payloads.close()

    def read_payloads(self) -> None:
        """Read each payload once; a damaged one adds to `damaged_payloads`."""
        places = set()
        if next(self.path.glob(PAYLOAD_FILES), None) is not None:
            for record in self.records():
                if record.seq not in places and self.payload(record) is not None:
                    places.add(record.seq)

    def facts(self) -> JournalFacts:
        """Read all segments, and return the facts."""
        facts = FactsBuilder(self)
        for segment in self.segments(facts.add_damaged):
            facts.add(segment)
        return facts.result()

    def add_problem(self, problem: str) -> None:
        """Add a problem to `problems`, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _read(self, path: Path) -> StoredSegment:
        segment = read_segment(path, self.id)
        for problem in segment.problems:
            self.add_problem(problem)
        self._anchor(segment.header.mono, segment.header.wall)
        for mono, wall in segment.anchors:
            self._anchor(mono, wall)
        self.refresh()
        return segment

    def _about_lines(self, numbers: list[int]) -> str:
        """Return a line with the number of unreadable lines of the side file."""
        which = ", ".join(map(str, numbers[:LINES_NAMED_MAX]))
        if len(numbers) > LINES_NAMED_MAX:
            which += ", ..."
        return (
            f"cannot read {counted(len(numbers), 'line')} of {self.path / META_FILE}:"
            f" number {which}"
        )

    def _header_id(self) -> int:
        """Return the number of a journal whose side file does not hold it."""
        for path in self.segment_paths():
            try:
                return read_segment(path).header.journal
            except (OSError, JournalError) as error:
                self.add_problem(problem_of(error, path))
        raise JournalError("; ".join(self.problems) or f"no journal in {self.path}")

    def _anchor(self, mono: int, wall: int) -> None:
        if (mono, wall) not in self._anchors:
            bisect.insort(self._anchors, (mono, wall))


class FactsBuilder:
    """The sum over a journal's segments, added one after another."""

    def __init__(self, journal: StoredJournal) -> None:
        self._journal = journal
        self._records = self._holes = self._lost = self._damaged = 0
        self._payloads_lost = 0
        self._segments = self._sealed = self._blank = 0
        self._first: int | None = None
        self._last: int | None = None
        self._closed = False
        self._boot = ""
        self._last_mono: int | None = None

    def add(self, segment: StoredSegment) -> None:
        """Add a segment, the next in order."""
        self._segments += 1
        self._sealed += segment.header.seal is not None
        self._blank += segment.blank
        self._damaged += bool(segment.flaws)
        self._records += segment.count
        self._holes += len(segment.invalid)
        self._lost = max(self._lost, segment.lost)
        self._payloads_lost = max(self._payloads_lost, segment.header.payloads_lost)
        self._closed = self._closed or segment.closes
        self._boot = max(self._boot, segment.header.boot_id.hex())
        if segment.count:
            latest = segment.last_mono
            self._last_mono = max(latest, self._last_mono or latest)
            self._first = segment.first if self._first is None else self._first
            self._last = segment.last

    def add_damaged(self) -> None:
        """Add a file that could not be read as a segment."""
        self._damaged += 1

    def result(self) -> JournalFacts:
        """Return the facts; call it after the records of all journals were read.

        The side file must be read last of all. A process may close its journal after it
        was opened here, and keep working. It then notes an operation missing from its
        records before any record, in any journal, that follows from that operation.
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
            payloads_lost=self._payloads_lost,
        )


def open_journals(directory: str | os.PathLike[str]) -> list[StoredJournal]:
    """Return every journal at or below a folder, in the order of their paths.

    Raises:
        JournalError: there is none, a folder cannot be listed, or two are copies of
          one, whose records would count twice.
    """

    def refuse(error: OSError) -> None:
        # A folder that disappeared after its parent was listed holds no journal.
        if not isinstance(error, FileNotFoundError) or error.filename == top:
            remedy = "give a folder with journals"
            if top.endswith(".mcap"):
                remedy = "make a journal of it with bus journal import"
            raise JournalError(
                f"cannot list {error.filename}: {error.strerror}; {remedy}"
            )

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
        raise JournalError(f"no journal in {top}: give a folder with journals")
    return list(journals.values())
