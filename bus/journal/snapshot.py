"""`take_snapshot`: copies the end of a recording while its writers go on.

Whole segments are copied, with the payload files that their records name. Of each
journal the side file is copied last: a writer adds a name to it before it writes the
first record that uses the number. Other journals may have registered the tasks of its
messages, and may be left out, so the copy of the side file gets the names of all.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from bus.errors import JournalError
from bus.journal.format import ACCEPTS, RECORD, RECORD_BYTES, Flag, Record
from bus.journal.header import HEADER_BYTES
from bus.journal.messages import task_names
from bus.journal.meta import META_FILE
from bus.journal.payload_file import OFFSET_BITS, payload_file_name
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.segment import OPEN_SUFFIX, SEALED_SUFFIX
from bus.journal.stored_segment import problem_of, read_segment
from bus.journal.wording import hex64
from bus.journal.writer import NO_ROOM

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bus.journal.stored_segment import StoredSegment

__all__ = ["Snapshot", "take_snapshot"]


@attrs.define
class Snapshot:
    """The result of a snapshot.

    journals, segments, records, payload_files: the numbers of those copied.
    problems: the parts that could not be copied, one line each.
    """

    journals: int = 0
    segments: int = 0
    records: int = 0
    payload_files: int = 0
    problems: list[str] = attrs.field(factory=list)


def take_snapshot(
    directory: str | os.PathLike[str], out: Path, last_ns: int
) -> Snapshot:
    """Copy the segments with records of the last nanoseconds to a new folder.

    last_ns: how many, counted back from the last record of all journals. A journal
      without a record in that time is left out.

    Raises:
        OSError: the folder cannot be made, or has no room; it may hold a part.
        JournalError: as `open_journals`; or ``out`` lies in ``directory``, where the
          copies would be second ones of the same journals.
    """
    top = Path(directory).resolve()
    if out.resolve().is_relative_to(top):
        raise JournalError(
            f"cannot copy to {out}: it lies in {directory}, where a second copy of a"
            " journal cannot be read; give a folder outside"
        )
    journals = open_journals(directory)
    names = task_names(journals)
    ends = {each.id: _segment_ends(each) for each in journals}
    end_ns = max((wall for each in ends.values() for wall in each.values()), default=0)
    result = Snapshot()
    for journal in journals:
        recent = [
            number
            for number, wall_ns in ends[journal.id].items()
            if wall_ns >= end_ns - last_ns
        ]
        if recent:
            # The folder of a journal and that of its machine, also if the recording is
            # the former itself.
            folder = out / journal.path.parent.name / journal.path.name
            _copy_journal(journal, folder, min(recent), names, result)
        result.problems += journal.problems
    return result


def _segment_ends(journal: StoredJournal) -> dict[int, int]:
    """Return the wall clock at the latest record of each segment, by its number."""
    return {
        segment.header.segment: journal.wall_ns(segment.last_mono)
        for segment in journal.segments()
        if segment.count
    }


def _copy_journal(
    journal: StoredJournal,
    folder: Path,
    first: int,
    names: Mapping[int, str],
    result: Snapshot,
) -> None:
    folder.mkdir(parents=True)
    result.journals += 1
    payload_files: set[int] = set()
    users: set[int] = set()
    for segment in journal.segments():
        if segment.header.segment < first or not segment.used:
            continue
        try:
            copied = _copy_segment(segment, folder)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise  # the other files would not fit either
            journal.add_problem(problem_of(error, segment.path))
            continue
        result.segments += 1
        result.records += copied.count
        for record in map(Record._make, RECORD.iter_unpack(copied.body)):
            if record.kind in ACCEPTS:
                users |= {record.origin, record.flow}
                if record.flags & Flag.PAYLOAD:
                    payload_files.add(record.seq >> OFFSET_BITS)
    for number in sorted(payload_files):
        path = journal.path / payload_file_name(number)
        try:
            shutil.copyfile(path, folder / path.name)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            journal.add_problem(problem_of(error, path))
        else:
            result.payload_files += 1
    _copy_side_file(journal.path, folder, names, users)


def _copy_segment(segment: StoredSegment, folder: Path) -> StoredSegment:
    """Copy a segment file, and return the copy as read.

    A slot that is being written may be copied without its beginning. So of a segment
    that may still grow, the slots in use are those that were read before, and those
    that are final by now: their writers have finished.
    """
    path = segment.path
    try:
        target = _copied(path, folder)
    except FileNotFoundError:
        if not path.name.endswith(OPEN_SUFFIX):
            raise
        # Sealed since it was read.
        name = path.name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX
        target = _copied(path.with_name(name), folder)
    copy = read_segment(target)
    if copy.header.seal is None and not copy.header.seal_flaw:
        slots = max(segment.used, copy.header.published)
        os.truncate(target, HEADER_BYTES + slots * RECORD_BYTES)
        copy = read_segment(target)
    return copy


def _copied(path: Path, folder: Path) -> Path:
    return Path(shutil.copyfile(path, folder / path.name))


def _copy_side_file(
    source: Path, folder: Path, names: Mapping[int, str], users: Collection[int]
) -> None:
    lines = [
        json.dumps({"is": "registration", "id": hex64(each), "name": names[each]})
        for each in sorted(users)
        if names.get(each)
    ]
    data = (source / META_FILE).read_bytes()
    # The writer may be in the middle of a line, or its disk was full there.
    whole = data if not data or data.endswith(b"\n") else data + b"\n"
    text = "".join(f"{line}\n" for line in lines)
    (folder / META_FILE).write_bytes(whole + text.encode("ascii"))
