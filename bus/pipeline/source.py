"""Journals as a Spark data source: ``spark.read.format("queuebroker").load(folder)``.

One row is one record, names resolved. A partition is one large segment or some small
ones, read where its task runs. Rows leave as Arrow batches, never as tuples, which cost
three times as much, and each batch is made by `_batch`, since Spark looks at the schema
of the first only. Everything here is pickled to the workers, so nothing is opened
before `read`. A stream reader can stand beside the batch reader: it needs only another
way to choose what to read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bus.errors import JournalError
from bus.journal.format import Kind, kind_name
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.stored_segment import read_segment
from bus.pipeline.schemas import EVENTS, SEGMENTS, arrow_schema, ddl, signed
from queuebroker.observer import Reason

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from bus.journal.stored_segment import StoredSegment

__all__ = ["FORMAT", "JournalSource", "Share", "register", "segment_facts"]

FORMAT: Final = "queuebroker"
BATCH_RECORDS: Final = 65_536
TASK_BYTES: Final = 32 << 20

_Array = np.ndarray[Any, Any]


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(JournalSource)


class JournalSource(DataSource):
    """The data source; see the module."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return FORMAT

    def schema(self) -> str:
        """The columns."""
        return ddl(EVENTS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - theirs
        """Read what is there now."""
        return _Reader(self.options["path"])


@attrs.frozen
class Share:
    """One segment of one journal; `path` is None for a journal without segments."""

    journal: int
    folder: str
    path: str | None

    @classmethod
    def list_all(cls, directory: str | os.PathLike[str]) -> list[Share]:
        """Every segment of every journal at or below a folder.

        Raises:
            JournalError: there is no journal, or a folder cannot be read.
        """
        shares = []
        for journal in open_journals(directory):
            paths = [str(path) for path in journal.segment_paths()]
            shares += [
                cls(journal.id, str(journal.path), path) for path in paths or (None,)
            ]
        return shares

    @property
    def file_bytes(self) -> int:
        """Size of the file, 0 if there is none."""
        if self.path is None:
            return 0
        with contextlib.suppress(OSError):
            return Path(self.path).stat().st_size
        return 0


class _Task(InputPartition):
    """What one task reads: a large segment, or some small ones."""

    def __init__(self, shares: list[Share]) -> None:
        self.shares = shares


class _Reader(DataSourceReader):
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(shares) for shares in _packed(Share.list_all(self._directory))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        for share in partition.shares:
            yield from _events(share)


def _packed(shares: Iterable[Share]) -> Iterator[list[Share]]:
    """Neighbours together while they are small: a task costs more than a small file."""
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


def segment_facts(share: Share) -> pa.RecordBatch:
    """What a segment holds, or why it cannot be read: one row of `SEGMENTS`."""
    row: dict[str, Any] = {
        "journal": signed(share.journal),
        "process": Path(share.folder).name,
        "path": share.path,
        "records": 0,
        "lost": 0,
        "damaged": 0,
        "late": False,
    }
    problems: list[str] = []
    try:
        journal = StoredJournal(Path(share.folder))
        problems += journal.problems
        row["machine"] = journal.machine
        row["program"] = journal.meta.program
        row["late"] = journal.meta.late
        if share.path is not None:
            segment = read_segment(Path(share.path))
            _check_owner(share, segment)
            row |= _contents(segment)
            problems += [f"{share.path} is damaged: {flaw}" for flaw in segment.flaws]
    except JournalError as error:
        row["damaged"] = 1
        problems.append(str(error))
    except FileNotFoundError:
        problems.append(f"cannot read {share.path}: it is gone")
    except OSError as error:
        problems.append(f"cannot read {share.path}: {error.strerror}")
    row["problems"] = "\n".join(problems) or None
    texts = {key: _storable(text) for key, text in row.items() if isinstance(text, str)}
    return pa.RecordBatch.from_pylist([row | texts], schema=arrow_schema(SEGMENTS))


def _events(share: Share) -> Iterator[pa.RecordBatch]:
    """The valid records of a segment; none if it cannot be read."""
    if share.path is None:
        return
    try:
        journal = StoredJournal(Path(share.folder))
        segment = read_segment(Path(share.path))
        _check_owner(share, segment)
    except (JournalError, OSError):
        return  # `segment_facts` says so
    records = segment.array()
    clock = _Clock.of(journal, segment, records)
    for start in range(0, len(records), BATCH_RECORDS):
        piece = records[start : start + BATCH_RECORDS]
        yield _batch(share.journal, piece, journal, clock)


def _check_owner(share: Share, segment: StoredSegment) -> None:
    if segment.header.journal != share.journal:
        whose = f"{segment.header.journal:016x}, not {share.journal:016x}"
        raise JournalError(f"cannot read {share.path}: it belongs to journal {whose}")


def _contents(segment: StoredSegment) -> dict[str, Any]:
    header, seal = segment.header, segment.header.seal
    return {
        "boot": header.boot_id.hex(),
        "segment": header.segment,
        "sealed": seal is not None,
        "records": segment.count,
        "lost": max(header.lost, seal.lost if seal else 0),
        "damaged": int(bool(segment.flaws)),
    }


@attrs.frozen
class _Clock:
    """Instants known on both clocks, in the order of `mono`, nanoseconds."""

    mono: _Array
    wall: _Array

    @classmethod
    def of(
        cls, journal: StoredJournal, segment: StoredSegment, records: _Array
    ) -> _Clock:
        """The anchors of the side file, of the segment's head and of its records."""
        pairs = {(segment.header.mono, segment.header.wall)}
        if journal.meta.wall:
            pairs.add((journal.meta.mono, journal.meta.wall))
        both = np.isin(records["kind"], [int(Kind.OPEN), int(Kind.CLOCK)])
        # 0 is no wall clock, and what does not fit is none either.
        told = records[both & (records["origin"] - np.uint64(1) < 2**63 - 1)]
        pairs |= set(zip(told["mono"].tolist(), told["origin"].tolist(), strict=True))
        mono, wall = zip(*sorted(pairs), strict=True)
        return cls(np.array(mono, np.int64), np.array(wall, np.int64))

    def wall_us(self, mono: _Array) -> _Array:
        """The wall clock by the anchor before each moment, else by the first one."""
        place = np.searchsorted(self.mono, mono, side="right") - 1
        place = np.maximum(place, 0)
        # The difference first: it is small whatever the clocks say.
        wall_ns: _Array = self.wall[place] + (mono - self.mono[place])
        return wall_ns // 1000


def _batch(
    number: int, records: _Array, journal: StoredJournal, clock: _Clock
) -> pa.RecordBatch:
    """Records as one Arrow batch of exactly the columns of `EVENTS`."""
    names, threads = journal.meta.names.get, journal.meta.threads.get
    flow = _signed(records["flow"])
    columns = {
        "journal": np.full(len(records), signed(number)),
        "n": _signed(records["n"]),
        "code": records["kind"],
        "kind": _texts(records["kind"], kind_name),
        "flags": records["flags"],
        "reason": _texts(records["reason"], _reason),
        "channel": (flow.view(np.uint64) >> np.uint64(1)).view(np.int64),
        "flow": flow,
        "seq": _signed(records["seq"]),
        "port": _signed(records["mid"]),
        "size": records["size"],
        "depth": records["depth"],
        "wait_us": records["wait_us"],
        "mono": records["mono"],
        "wall_us": clock.wall_us(records["mono"]),
        "task": _texts(records["task"], lambda one: names(one) or None),
        "peer": _texts(records["peer"], lambda one: names(one) or None),
        "thread": _texts(records["thread"], lambda one: threads(one) or None),
        "origin": _signed(records["origin"]),
        "hop": records["hop"],
    }
    schema = arrow_schema(EVENTS)
    arrays = [
        column
        if isinstance(column := columns[field.name], pa.Array)
        else pa.array(np.ascontiguousarray(column)).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _signed(numbers: _Array) -> _Array:
    """Unsigned 64-bit numbers as the signed ones of the same bits."""
    return np.ascontiguousarray(numbers).view(np.int64)


def _texts(numbers: _Array, name: Callable[[int], str | None]) -> pa.Array:
    """A name for each number; each number is asked for once."""
    coded = pa.array(np.ascontiguousarray(numbers)).dictionary_encode()
    names = [_storable(name(number)) for number in coded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(coded.indices)


def _storable(text: str | None) -> str | None:
    """A name without halves of characters, which JSON can hold and Arrow cannot."""
    return text and text.encode("utf-8", "backslashreplace").decode("utf-8")


def _reason(number: int) -> str | None:
    if number == Reason.NONE:
        return None
    try:
        return Reason(number).name.lower()
    except ValueError:
        return f"reason-{number}"
