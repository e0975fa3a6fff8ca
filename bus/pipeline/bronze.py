"""`Ingest`: one update of the tables `events` and `segments` from journals.

Later stages read those tables, never the journals, so that all of them see the same
records although the programs may still be writing. The update has three steps:

* `Ingest.prepare` compares the journals with the table `segments`. A segment with the
  same fingerprint as then is not read again.
* `read_segments` lets the workers of Spark read the others and write files of events.
* `Ingest.commit` replaces the table `segments`, one file, by one rename. Readers use
  the files of events that it names, so they see either all of the update or none.

A killed update leaves files of events that no row names; the next commit removes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from functools import cache
from importlib import resources
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyarrow import Table, parquet  # type: ignore[import-untyped] # pyarrow ships no types

from bus.journal.format import RECORD_BYTES
from bus.journal.reader import StoredJournal, open_journals
from bus.pipeline.batches import storable
from bus.pipeline.event_file import write_events
from bus.pipeline.schemas import EVENTS, SEGMENTS, arrow_schema, ddl, signed
from bus.pipeline.share import Share, check_reach, packed
from bus.pipeline.wording import remaining
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

    from bus.pipeline.folder import OutFolder

    _Key = tuple[int, str | None]  # journal, path
    _Row = dict[str, Any]

__all__ = [
    "Ingest",
    "Plan",
    "code_version",
    "events",
    "problems",
    "read_segments",
    "segments",
]

PROBLEMS_MAX: Final = 100
PROGRESS_SECONDS: Final = 0.5


@attrs.frozen
class Plan:
    """The difference between the table `segments` and the segments now listed.

    A file of events may hold several segments: it stays only if each of them is listed
    and has the fingerprint from then. So the tables always hold the journals as listed.

    kept: rows whose segments need no read.
    to_read: segments that are new or changed, or share a file with one that is.
    states: the fingerprint of each listed segment.
    """

    kept: tuple[dict[str, Any], ...]
    to_read: tuple[Share, ...]
    states: Mapping[_Key, str]

    @classmethod
    def of(
        cls,
        rows: Iterable[Mapping[str, Any]],
        listed: Mapping[Share, str],
        files: Collection[str],
    ) -> Plan:
        """Compare.

        rows: of the table `segments`. listed: the fingerprint of each segment.
        files: the names in the folder of `events`.
        """
        rows = list(rows)
        states = {_key_of(share): state for share, state in listed.items()}
        stale = {
            row["file"] for row in rows if states.get(_key(row)) != row["state"]
        } - {None}
        kept = {
            _key(row): dict(row)
            for row in rows
            if states.get(_key(row)) == row["state"]
            and row["file"] not in stale
            and (row["file"] is None or row["file"] in files)
        }
        to_read = tuple(share for share in listed if _key_of(share) not in kept)
        return cls(tuple(kept.values()), to_read, states)

    def state(self, row: Mapping[str, Any]) -> str:
        """Return the fingerprint, before the read, of the segment of a row."""
        return self.states[_key(row)]

    @property
    def files(self) -> set[str]:
        """The files of events that stay."""
        return {row["file"] for row in self.kept} - {None}


@attrs.frozen
class Ingest:
    """One update of both tables; see the module.

    folder: of the results. journals: those listed. plan: the segments to read.
    before: the rows of the table `segments`.
    """

    folder: OutFolder
    journals: tuple[StoredJournal, ...]
    plan: Plan
    before: tuple[_Row, ...]

    @classmethod
    def prepare(cls, journals: str | os.PathLike[str], folder: OutFolder) -> Ingest:
        """List the journals below a folder, and compare them with the tables.

        Raises:
            JournalError: there is no journal, or a folder cannot be read.
        """
        # Absolute: tasks run in other directories than the process that lists.
        found = tuple(open_journals(os.path.abspath(journals)))
        shares = [share for journal in found for share in Share.list_of(journal)]
        version = code_version()
        listed = {share: f"{version}: {share.fingerprint()}" for share in shares}
        before = tuple(segments(folder))
        plan = Plan.of(before, listed, folder.event_files())
        return cls(folder, found, plan, before)

    @property
    def records(self) -> int:
        """An upper estimate of all records: open segments are allocated whole."""
        kept: int = sum(row["records"] for row in self.plan.kept)
        return kept + self.records_to_read

    @property
    def records_to_read(self) -> int:
        """An upper estimate of the records in the segments to read."""
        return sum(share.file_bytes for share in self.plan.to_read) // RECORD_BYTES

    @property
    def tasks(self) -> list[list[Share]]:
        """The segments to read, in groups that each become one file of events."""
        # Open segments change: a file that also had sealed ones would lose those too.
        shares = sorted(self.plan.to_read, key=attrgetter("is_open"))
        return [
            task
            for _, group in groupby(shares, attrgetter("is_open"))
            for task in packed(group)
        ]

    def commit(self, read: Iterable[Mapping[str, Any]]) -> tuple[_Row, ...]:
        """Replace the table `segments`, and remove the files that it does not name.

        read: the rows of the segments to read, from `write_events`.

        Returns all rows of the table.
        """
        journals = {}
        for journal in self.journals:
            # After the records: the process may have closed it and continued.
            journal.refresh()
            journals[signed(journal.id)] = _facts(journal)
        fresh = [dict(row) | {"state": self.plan.state(row)} for row in read]
        rows = sorted(
            (
                _whole(row, journals[row["journal"]])
                for row in [*self.plan.kept, *fresh]
            ),
            key=lambda row: (row["path"] or "", row["journal"]),
        )
        if rows != list(self.before):
            self.folder.replace_segments(
                lambda path: parquet.write_table(
                    Table.from_pylist(rows, arrow_schema(SEGMENTS)), path
                )
            )
        self.folder.keep_event_files({row["file"] for row in rows} - {None})
        return tuple(rows)


def read_segments(
    spark: SparkSession, ingest: Ingest, progress: Callable[[str], None]
) -> list[_Row]:
    """Read the segments of a plan in the workers, and write files of events.

    progress: called with the number of records read and the time left.

    Returns the rows for `Ingest.commit`.

    Raises:
        PipelineError: an executor does not find the journals, or the results.
    """
    folder, shares = ingest.folder, ingest.plan.to_read
    tasks = ingest.tasks
    if not tasks:
        return []
    journals = dict.fromkeys(share.folder for share in shares)
    check_reach(spark, [str(folder.path), *journals])
    folder.events.mkdir(parents=True, exist_ok=True)
    context, events = spark.sparkContext, str(folder.events)
    done: Accumulator[int] = context.accumulator(0)

    def work(task: list[Share]) -> list[_Row]:
        rows = write_events(task, events)
        done.add(sum(row["records"] for row in rows))
        return rows

    with _reported(lambda: done.value, ingest.records_to_read, progress):
        return context.parallelize(tasks, len(tasks)).flatMap(work).collect()


@contextlib.contextmanager
def _reported(
    done: Callable[[], int], total: int, progress: Callable[[str], None]
) -> Iterator[None]:
    """Report the records read twice a second, until the end of the block."""
    begun, end = _sync.monotonic(), _sync.Lock()
    end.acquire()

    def report() -> None:
        while not end.acquire(timeout=PROGRESS_SECONDS):
            left = remaining(done(), total, _sync.monotonic() - begun)
            progress(f"reading journals: {left}")

    # Spark blocks its caller for the whole read.
    thread = _sync.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.release()
        thread.join()


def events(spark: SparkSession, folder: OutFolder) -> DataFrame:
    """Return the table `events`: the files that the table `segments` names."""
    names = {row["file"] for row in segments(folder)} - {None}
    paths = [str(folder.events / name) for name in sorted(names)]
    if not paths:
        return spark.createDataFrame([], ddl(EVENTS))
    return spark.read.schema(ddl(EVENTS)).parquet(*paths)


def problems(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the read errors, one line each, at most `PROBLEMS_MAX` of them."""
    # A problem of a whole journal is repeated with each of its segments.
    texts = {row[name] or "" for row in rows for name in ("problems", "unnamed")}
    found = sorted({line for text in texts for line in text.split("\n")} - {""})
    if len(found) > PROBLEMS_MAX:
        found[PROBLEMS_MAX:] = ["and more, in the table `segments`"]
    return found


@cache
def code_version() -> str:
    """Return a checksum of the code that makes the tables.

    Tables of other code are made again. A number that a programmer must raise with each
    change of a table would be forgotten.
    """
    total = hashlib.sha256()
    for package in ("bus.journal", "bus.pipeline"):
        files = resources.files(package).iterdir()
        for file in sorted(files, key=lambda each: each.name):
            if file.name.endswith(".py"):
                total.update(file.read_bytes())
    return total.hexdigest()[:16]


def segments(folder: OutFolder) -> list[_Row]:
    """Return the rows of the table `segments`; none if it is missing or unreadable."""
    path = folder.segments
    # An unreadable table is made again, with all of events; pyarrow's errors are both.
    with contextlib.suppress(OSError, ValueError):
        if path.exists():
            rows: list[_Row] = parquet.read_table(path).to_pylist()
            names = {column.name for column in SEGMENTS}
            return rows if all(row.keys() == names for row in rows) else []
    return []


def _facts(journal: StoredJournal) -> _Row:
    """Return the columns of `SEGMENTS` that come from the side file."""
    return {
        "machine": storable(journal.machine),
        "process": storable(journal.path.name),
        "pid": journal.meta.pid,
        "program": storable(journal.meta.program),
        "late": journal.meta.late,
        "begun": not journal.meta.silent,
        "unnamed": storable("\n".join(journal.problems)) or None,
    }


def _whole(segment: _Row, journal: _Row) -> _Row:
    """Return the row of a segment, with the columns of its journal."""
    row = segment | journal
    row["begun"] |= not row["blank"]
    return {column.name: row.get(column.name) for column in SEGMENTS}


def _key(row: Mapping[str, Any]) -> _Key:
    return row["journal"], row["path"]


def _key_of(share: Share) -> _Key:
    return signed(share.journal), share.path and storable(share.path)
