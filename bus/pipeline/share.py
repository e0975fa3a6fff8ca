"""`Share`: one segment of one journal, for a task to read, if an executor reaches it.

The driver lists the shares once, and pickles them to the executors. By then a file may
have been sealed under another name, deleted, or replaced. A task reads all it can. It
reports the rest in a row, never by an exception: one file in a million must not end the
run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.errors import JournalError, PipelineError
from bus.journal.header import HEADER_BYTES, SegmentHeader
from bus.journal.meta import META_FILE
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.segment import OPEN_SUFFIX
from bus.journal.stored_segment import is_spare_gone, problem_of, read_segment
from bus.pipeline.batches import event_batches, storable
from bus.pipeline.schemas import signed
from bus.pipeline.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    _Answer = tuple[str, str]  # host, path

__all__ = ["Share", "check_reach", "packed", "require", "stored_journal"]

TASK_BYTES: Final = 32 << 20
JOURNALS_KEPT: Final = 16  # shares of one journal are adjacent in a task
_BLOCK_BYTES: Final = 1 << 20

TASKS_PER_CORE: Final = 4
_REMEDY: Final = (
    "put journals, results and spool on a file system that all executors share,"
    " at the same path"
)


@attrs.frozen
class Share:
    """One segment of one journal.

    journal: the number of the journal. folder: its path.
    path: the file; None for a journal without segments.
    """

    journal: int
    folder: str
    path: str | None

    @classmethod
    def list_all(cls, directory: str | os.PathLike[str]) -> list[Share]:
        """Return every segment of every journal at or below a folder.

        Raises:
            JournalError: there is no journal, or a folder cannot be read.
        """
        # Absolute: tasks run in other directories than the process that lists.
        journals = open_journals(os.path.abspath(directory))
        return [share for journal in journals for share in cls.list_of(journal)]

    @classmethod
    def list_of(cls, journal: StoredJournal) -> list[Share]:
        """Return every segment of one journal; one without a file if it has none."""
        paths: list[str | None] = [str(path) for path in journal.segment_paths()]
        return [cls(journal.id, str(journal.path), path) for path in paths or [None]]

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes, 0 if there is none."""
        if self.path is None:
            return 0
        with contextlib.suppress(OSError):
            return Path(self.path).stat().st_size
        return 0

    @property
    def is_open(self) -> bool:
        """True if the file had the name of a segment that is not sealed."""
        return self.path is not None and self.path.endswith(OPEN_SUFFIX)

    def fingerprint(self) -> str:
        """Return a text that changes with the records of the file.

        The header of a sealed segment is enough: it has the checksum of the records.
        Any other file is read whole. Its time of change proves nothing, because a write
        to mapped memory changes it late.
        """
        if self.path is None:
            return ""
        try:
            with open(self.path, "rb") as file:
                data = file.read(HEADER_BYTES)
                file_bytes = os.fstat(file.fileno()).st_size
                checksum = zlib.crc32(data)
                if not _is_sealed(data):
                    while data := file.read(_BLOCK_BYTES):
                        checksum = zlib.crc32(data, checksum)
        except OSError as error:
            return str(error.strerror)
        return f"{file_bytes} bytes, {checksum:08x}"

    def events(self) -> Iterator[pa.RecordBatch]:
        """Yield its valid records, as rows of `EVENTS`; none if it cannot be read."""
        yield from self.read(coded=False)[1]

    def read(self, *, coded: bool) -> tuple[dict[str, Any], Iterator[pa.RecordBatch]]:
        """Read the file once.

        The first value has the columns of `SEGMENTS` that come from the file, with the
        read error if it cannot be read. The second one yields its valid records, as
        rows of `EVENTS`.

        coded: as for `bus.pipeline.batches.event_batches`.
        """
        row: dict[str, Any] = {
            "journal": signed(self.journal),
            "path": self.path and storable(self.path),
            "records": 0,
            "lost": 0,
            "damaged": 0,
            "blank": False,
        }
        if self.path is None:
            return row, iter(())
        path = Path(self.path)
        try:
            segment = read_segment(path, self.journal)
        except (JournalError, OSError) as error:
            if not is_spare_gone(error, path):
                row["damaged"] = int(isinstance(error, JournalError))
                row["problems"] = storable(problem_of(error, path))
            return row, iter(())
        try:
            # After the segment: names are written before the records that use them.
            journal = stored_journal(self.folder)
        except JournalError as error:
            # Not damage: when the folder was listed, a file named its journal.
            row["problems"] = storable(str(error))
            return row, iter(())
        row |= {
            "boot": segment.header.boot_id.hex(),
            "segment": segment.header.segment,
            "sealed": segment.header.seal is not None,
            "records": segment.count,
            "lost": segment.lost,
            "damaged": int(bool(segment.flaws)),
            "blank": segment.blank,
            "problems": storable("\n".join(segment.problems)) or None,
        }
        return row, event_batches(journal, segment, coded=coded)


def _is_sealed(header: bytes) -> bool:
    try:
        return SegmentHeader.unpack(header).seal is not None
    except ValueError:
        return False


def stored_journal(folder: str) -> StoredJournal:
    """Return the journal in a folder; its side file is read again only if changed.

    Raises:
        JournalError: no file names the journal.
    """
    path = Path(folder)
    try:
        state = (path / META_FILE).stat()
    except OSError:
        return StoredJournal(path)  # raises the error
    return _stored_as(folder, state.st_ino, state.st_size, state.st_mtime_ns)


@functools.lru_cache(maxsize=JOURNALS_KEPT)
def _stored_as(folder: str, *_state: int) -> StoredJournal:
    return StoredJournal(Path(folder))


def packed(shares: Iterable[Share]) -> Iterator[list[Share]]:
    """Group small neighbours into one task: a task costs more than a small file."""
    task: list[Share] = []
    room = TASK_BYTES
    for share in shares:
        size = share.file_bytes
        if task and size > room:
            yield task
            task, room = [], TASK_BYTES
        task.append(share)
        room -= size
    if task:
        yield task


def check_reach(spark: SparkSession, paths: Sequence[str]) -> None:
    """Check that the executors of a cluster find some paths: journals and results.

    On a cluster a path may lead to a different folder on each machine. An executor that
    does not find a file would read nothing, and the missing records would make every
    verdict UNKNOWN. So the driver checks the executors before the read, and each task
    checks again. The code that it sends to them needs only Python's own packages.

    paths: absolute; the driver finds them all.

    Raises:
        PipelineError: an executor does not find one of them.
    """
    context = spark.sparkContext
    if is_local(context.master or ""):
        return
    tasks = TASKS_PER_CORE * max(1, context.defaultParallelism)
    asked = context.parallelize(range(tasks), tasks)
    answers = asked.mapPartitions(_asker(tuple(paths))).distinct().collect()
    for host, path in sorted(answers):
        msg = f"an executor on {host} does not find {path}: {_REMEDY}"
        raise PipelineError(msg)


def require(path: str) -> None:
    """Raise unless this machine has a folder; called on the executor of a task.

    Raises:
        PipelineError: it has no such folder.
    """
    if not os.path.isdir(path):
        host = platform.node()
        raise PipelineError(f"cannot use {path}: it is not on {host}; {_REMEDY}")


def _asker(paths: Sequence[str]) -> Callable[[Iterable[int]], Iterator[_Answer]]:
    # A nested function, so that it is pickled by value, not by its module's name.
    def ask(_: Iterable[int]) -> Iterator[_Answer]:
        for path in paths:
            try:
                found = bool(os.listdir(path))
            except OSError:
                found = False
            if not found:
                yield platform.node(), path
                return

    return ask
