"""`Share`: one segment of one journal, for a task to read, if an executor reaches it.

The driver lists the shares once, and pickles them to the executors. By then a file may
have been sealed under another name, deleted, or replaced. A task reads all it can. It
reports the rest in the facts, never by an exception: one file in a million must not end
the run.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.errors import JournalError, PipelineError
from bus.journal.meta import META_FILE
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.stored_segment import problem_of, read_segment
from bus.pipeline.batches import event_batches, storable
from bus.pipeline.schemas import SEGMENTS, arrow_schema, signed
from bus.pipeline.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    _Answer = tuple[str, str]  # host, path

__all__ = ["Share", "check_reach", "packed", "require", "stored_journal"]

TASK_BYTES: Final = 32 << 20
JOURNALS_KEPT: Final = 16  # shares of one journal are adjacent in a task


TASKS_PER_CORE: Final = 4
_REMEDY: Final = (
    "put the journals and the results on a file system that all executors share,"
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
        shares = []
        # Absolute: tasks run in other directories than the process that lists.
        for journal in open_journals(os.path.abspath(directory)):
            paths = [str(path) for path in journal.segment_paths()]
            shares += [
                cls(journal.id, str(journal.path), path) for path in paths or (None,)
            ]
        return shares

    @property
    def file_bytes(self) -> int:
        """The size of the file in bytes, 0 if there is none."""
        if self.path is None:
            return 0
        with contextlib.suppress(OSError):
            return Path(self.path).stat().st_size
        return 0

    def events(self) -> Iterator[pa.RecordBatch]:
        """Yield its valid records, as rows of `EVENTS`; none if it cannot be read."""
        if self.path is None:
            return
        try:
            segment = read_segment(Path(self.path), self.journal)
            # After the segment: names are written before the records that use them.
            journal = stored_journal(self.folder)
        except (JournalError, OSError):
            return  # `facts` reports it
        yield from event_batches(journal, segment)

    def facts(self) -> pa.RecordBatch:
        """Return its content, or its read error, as one row of `SEGMENTS`."""
        row: dict[str, Any] = {
            "journal": signed(self.journal),
            "process": Path(self.folder).name,
            "path": self.path,
            "records": 0,
            "lost": 0,
            "damaged": 0,
            "late": False,
            "begun": True,
        }
        contents: list[str] = []
        problems: list[str] = []
        found: dict[str, Any] = {}
        if self.path is not None:
            found = self._contents(Path(self.path), contents)
        try:
            # After the segment: the process may have closed it and continued.
            journal = stored_journal(self.folder)
        except JournalError as error:
            # Not damage: when the folder was listed, a file named its journal.
            problems.append(str(error))
        else:
            row |= found
            problems += [*journal.problems, *contents]
            row |= {"machine": journal.machine, "program": journal.meta.program}
            row["pid"] = journal.meta.pid
            row["late"] = journal.meta.late
            row["begun"] |= not journal.meta.silent
        row["problems"] = "\n".join(problems) or None
        texts = {name: storable(it) for name, it in row.items() if isinstance(it, str)}
        return pa.RecordBatch.from_pylist([row | texts], schema=arrow_schema(SEGMENTS))

    def _contents(self, path: Path, problems: list[str]) -> dict[str, Any]:
        """Return the columns that come from the file itself; add to ``problems``."""
        try:
            segment = read_segment(path, self.journal)
        except (JournalError, OSError) as error:
            problems.append(problem_of(error, path))
            return {"damaged": int(isinstance(error, JournalError))}
        problems += segment.problems
        return {
            "boot": segment.header.boot_id.hex(),
            "segment": segment.header.segment,
            "sealed": segment.header.seal is not None,
            "records": segment.count,
            "lost": segment.lost,
            "damaged": int(bool(segment.flaws)),
            "begun": not segment.blank,
        }


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
        JournalError: it has no such folder.
    """
    if not os.path.isdir(path):
        host = platform.node()
        raise JournalError(f"cannot read {path}: it is not on {host}; {_REMEDY}")


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
