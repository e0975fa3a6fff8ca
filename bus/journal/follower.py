"""`Follower`: the journals below a folder as a stream, read range by range.

The live check and Spark follow journals with it. A position in the stream is a dict,
which Spark keeps in its checkpoint: for each journal the number of the next record to
read. A record below the end that the follower reports
never changes (`bus.journal.stored_segment.final_end`), so a range that is read again
gives the same rows. The first position is `EARLIEST`, `LATEST` or given by the user.
It is a constant: Spark asks for it again when it repeats the first batch after a crash.
So the batch that starts at `LATEST` reads nothing, and only its end counts.

A journal stays in the position as long as its folder exists. It cannot leave earlier:
a journal that the position lacks is a new one, and is read from its beginning.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import JournalError
from bus.journal.header import boot_id
from bus.journal.meta import META_FILE
from bus.journal.reader import StoredJournal
from bus.journal.segment import OPEN_SUFFIX
from bus.journal.stored_meta import has_writer
from bus.journal.stored_segment import (
    SEGMENT_NAME,
    StoredSegment,
    final_end,
    read_range,
)
from queuebroker import _files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bus.journal.header import SegmentHeader

__all__ = ["EARLIEST", "LATEST", "Follower", "Range", "lose", "starting_position"]

_log = logging.getLogger("bus.journal")

Position = dict[str, int]

EARLIEST: Final[Position] = {"earliest": 0}
LATEST: Final[Position] = {"latest": 0}

# A task costs milliseconds, about as much as the reading of these records.
TASK_RECORDS: Final = 131_072

_LOSS: Final = (
    "restore them, or continue without them by the option failOnDataLoss=false"
)


def starting_position(text: str) -> Position:
    """Return the first position for the option ``startingOffsets``.

    Raises:
        ValueError: it is not "earliest", "latest" or a JSON object of numbers.
    """
    if text in ("earliest", "latest"):
        return dict(EARLIEST if text == "earliest" else LATEST)
    try:
        found = json.loads(text)
        return {f"{int(name, 16):016x}": _number(n) for name, n in found.items()}
    except (ValueError, AttributeError, TypeError):
        raise ValueError(
            f"startingOffsets must be earliest, latest, or a JSON object such as"
            f' {{"<journal>": <record number>}}; got {text!r:.80}'
        ) from None


def _number(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError
    return value


@attrs.frozen
class Range:
    """Consecutive records of one segment, for a task to read.

    folder: of the journal. journal: its number. segment: the number of the file.
    slots: how many records a file of the journal holds.
    first, end: the numbers of the first record, and of the one after the last.
    may_lack: True if a missing or damaged file is skipped, and logged.
    """

    folder: str
    journal: int
    segment: int
    slots: int
    first: int
    end: int
    may_lack: bool

    def read(self) -> StoredSegment | None:
        """Read the records; None if they are lost, and that is permitted.

        Raises:
            JournalError: they are lost.
        """
        # Under its open name, which leads to the sealed file, too.
        path = Path(self.folder, f"seg-{self.segment:05d}{OPEN_SUFFIX}")
        try:
            return read_range(path, self.journal, self.first, self.end)
        except FileNotFoundError:
            why = f"the segment was deleted from {self.folder}"
        except OSError as error:
            # Not lost: the disk may be readable again at the next attempt.
            raise JournalError(f"cannot read {path}: {error.strerror}") from None
        except JournalError as error:
            why = str(error)
        lose(
            self.journal, f"{self.first} to {self.end - 1}", why, may_lack=self.may_lack
        )
        return None


def lose(journal: int, numbers: str, why: str, *, may_lack: bool) -> None:
    """Report that records are lost, by an error or in the log.

    numbers: those of the records. may_lack: True to log it.

    Raises:
        JournalError: that is not permitted.
    """
    what = f"records {numbers} of journal {journal:016x} are lost: {why}"
    if not may_lack:
        raise JournalError(f"{what}; {_LOSS}")
    _log.warning("%s", what)


@attrs.define
class _Followed:
    """One journal, as far as it is known.

    machine: on which it was written.
    first: the number of the first record that is still there.
    end: all records below it are final.
    """

    folder: str
    id: int
    machine: str
    first: int = 0
    end: int = 0
    slots: int = 1
    over: bool = False

    @property
    def key(self) -> str:
        return f"{self.id:016x}"

    def refresh(self, files: Iterable[str]) -> None:
        """Find the end again; a journal that is over has none to find."""
        numbers = sorted({int(m[1]) for m in map(SEGMENT_NAME.fullmatch, files) if m})
        if not numbers:
            return
        # Before the records: those that a process has written remain when it ends.
        lives = self.over or has_writer(Path(self.folder))
        for number in numbers:
            # Of the earlier segments all records are known.
            if self.over or (number + 1) * self.slots <= self.end:
                continue
            path = Path(self.folder, f"seg-{number:05d}{OPEN_SUFFIX}")
            try:
                header, end = final_end(path, self.end)
                killed = not lives and header.seal is None and self._is_ours(header)
                if killed:
                    header, end = final_end(path, self.end, has_writer=False)
            except (JournalError, OSError):
                break  # deleted meanwhile, or damaged: the records wait
            self.slots = header.slots
            if killed and end == header.first_n:
                self.over = True  # segments are used in order
                break
            self.end = max(self.end, end)
            if end < header.first_n + header.slots and not killed:
                # A seal before the last slot ends the journal.
                self.over = header.seal is not None
                break
        self.first = numbers[0] * self.slots

    def _is_ours(self, header: SegmentHeader) -> bool:
        """Return True if this machine wrote a segment, in this boot or an earlier one.

        The lock of another machine's process may not reach this one.
        """
        return header.boot_id == boot_id() or self.machine == _files.host_name()

    def ranges(self, first: int, end: int, may_lack: bool) -> Iterator[Range]:
        while first < end:
            segment = first // self.slots
            until = min(end, (segment + 1) * self.slots, first + TASK_RECORDS)
            place = self.folder, self.id, segment, self.slots
            yield Range(*place, first, until, may_lack)
            first = until


class Follower:
    """Finds the journals below a folder, their ends, and the ranges between positions.

    directory: a folder that exists; journals may appear in it later.
    may_lack: True to log and skip records that are lost, instead of an error.
    """

    def __init__(self, directory: str, *, may_lack: bool = False) -> None:
        self._directory = os.path.abspath(directory)
        self._may_lack = may_lack
        self._journals: dict[str, _Followed] = {}  # by folder
        self._ends: Position = {}  # also of journals that were deleted

    def ends(self) -> Position:
        """Return the end of each journal: the position after all final records.

        Raises:
            JournalError: the folder cannot be listed, or two journals are copies.
        """
        self._refresh()
        ends = {one.key: one.end for one in self._journals.values()}
        self._ends |= ends
        return ends

    def latest(
        self, start: Position, most: int | None, target: Position | None = None
    ) -> Position:
        """Return a position at most ``most`` records after ``start``.

        The journals share the records: each gets the same number, but no more than it
        has, so that a busy journal does not delay the others.

        most: None for all.
        target: the position to stop at, None for the present end.
        """
        ends = self.ends() if target is None else target
        if start == LATEST:
            return ends
        start = self._begun(start, ends)
        ends = {key: max(end, start.get(key, 0)) for key, end in ends.items()}
        backlog = {key: end - start.get(key, 0) for key, end in ends.items()}
        result, room = dict(start), most
        for place, key in enumerate(sorted(backlog, key=lambda key: backlog[key])):
            count = backlog[key]
            if room is not None:
                count = min(count, -(-room // (len(backlog) - place)))
                room -= count
            if count:
                result[key] = start.get(key, 0) + count
        for key in start.keys() - ends.keys():
            self._leave(key, result.pop(key))
        return result

    def plan(self, start: Position, end: Position) -> list[list[Range]]:
        """Return the ranges between two positions, in groups for one task each.

        Raises:
            JournalError: a journal between them was deleted.
        """
        if start == LATEST:
            return []
        self._refresh()
        start = self._begun(start, end)
        followed = {one.key: one for one in self._journals.values()}
        tasks: list[list[Range]] = []
        room = 0
        for key, until in sorted(end.items()):
            first = start.get(key, 0)
            if first >= until:
                continue
            journal = followed.get(key)
            if journal is None:
                why = f"its folder was deleted from {self._directory}"
                lose(
                    int(key, 16),
                    f"{first} to {until - 1}",
                    why,
                    may_lack=self._may_lack,
                )
                continue
            for each in journal.ranges(first, until, self._may_lack):
                size = each.end - each.first
                if size > room:
                    tasks.append([])
                    room = TASK_RECORDS
                tasks[-1].append(each)
                room -= size
        return tasks

    def _leave(self, key: str, read: int) -> None:
        """Check that a journal was read whole, whose folder is deleted.

        After a restart its end is not known: that is logged.
        """
        end = self._ends.get(key)
        if end == read:
            return
        numbers = f"from {read} on" if end is None else f"{read} to {end - 1}"
        why = f"its folder was deleted from {self._directory}"
        lose(int(key, 16), numbers, why, may_lack=self._may_lack or end is None)

    def _begun(self, start: Position, ends: Position) -> Position:
        """Replace `EARLIEST` by the first records that are still there."""
        if start != EARLIEST:
            return start
        firsts = {one.key: one.first for one in self._journals.values()}
        return {key: min(firsts.get(key, 0), end) for key, end in ends.items()}

    def _refresh(self) -> None:
        def refuse(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError) or top == error.filename:
                msg = f"cannot follow {error.filename}: {error.strerror}; make the"
                raise JournalError(f"{msg} folder first") from None

        top = self._directory
        found: dict[str, _Followed] = {}
        ids: dict[int, str] = {}
        for folder, below, files in os.walk(top, onerror=refuse):
            below.sort()
            if META_FILE not in files and not any(map(SEGMENT_NAME.fullmatch, files)):
                continue
            journal = self._journals.get(folder)
            if journal is None:
                try:
                    stored = StoredJournal(Path(folder))
                    journal = _Followed(folder, stored.id, stored.machine)
                except JournalError:
                    continue  # its writer is about to make the first file
            journal.refresh(files)
            if ids.setdefault(journal.id, folder) != folder:
                twins = f"{ids[journal.id]} and {folder}"
                raise JournalError(f"two copies of one journal: {twins}")
            found[folder] = journal
        self._journals = found
