"""Journals as a Spark data source: ``spark.read.format("queuebroker").load(folder)``.

One row is one record, with the columns of `bus.pipeline.schemas.EVENTS`. With
``readStream`` the table grows with the journals, see `bus.journal.follower`. A
partition is one large segment or some small ones, or ranges of their records, read
where its task runs. Rows leave as Arrow batches: tuples take three times as long. The
classes are pickled to the workers by name, and no file is opened before `read`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from bus.journal.follower import (
    EARLIEST,
    Follower,
    Position,
    Range,
    starting_position,
)
from bus.model.specification import Specification
from bus.pipeline.batches import event_batches
from bus.pipeline.schemas import EVENTS, MESSAGES, ddl
from bus.pipeline.share import Share, packed, require, stored_journal
from bus.pipeline.sink import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["FORMAT", "JournalSource", "register"]

FORMAT: Final = "queuebroker"


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(JournalSource)


class JournalSource(DataSource):
    """The data source; see the module."""

    @classmethod
    def name(cls) -> str:
        """Return the name to give to `format`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        # Spark calls this first. An error in the constructor of a reader would be
        # hidden by one of Spark's own.
        options = _Options.parse(self.options)
        return ddl(MESSAGES if options.messages else EVENTS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - theirs
        """Return a reader of the current journals."""
        options = _Options.parse(self.options)
        return _MessageReader(options) if options.messages else _Reader(options.path)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - theirs
        """Return a reader of the journals as they grow."""
        return _StreamReader(_Options.parse(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer of rows as notifications."""
        if overwrite:
            raise ValueError("a message cannot be overwritten: use mode('append')")
        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: ARG002, N802 - theirs
        """Return a writer of each batch as notifications."""
        return StreamWriter(self.options, schema)


@attrs.frozen
class _Options:
    """The options of a stream, checked; their names are those of Spark's Kafka source.

    path: the folder with the journals, absolute.
    messages: True for rows of `MESSAGES`, of senders whose names match ``patterns``.
    """

    path: str
    messages: bool
    patterns: tuple[Specification, ...]
    starting: Position
    most: int | None
    may_lack: bool

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> _Options:
        """Parse the options of a user.

        Raises:
            ValueError: one is missing, or has an impossible value.
        """
        path = options.get("path")
        if not path:
            raise ValueError("name the folder with the journals: load(folder)")
        most = options.get("maxOffsetsPerTrigger")
        if most is not None and (not most.isdecimal() or int(most) < 1):
            msg = f"maxOffsetsPerTrigger must be a number of at least 1, got {most!r}"
            raise ValueError(msg)
        fails = options.get("failOnDataLoss", "true").lower()
        if fails not in ("true", "false"):
            raise ValueError(f"failOnDataLoss must be true or false, got {fails!r}")
        view, names = options.get("view", "events"), options.get("subscribe", "")
        if view not in ("events", "messages"):
            raise ValueError(f"view must be events or messages, got {view!r}")
        if names and view == "events":
            raise ValueError("subscribe selects messages: add the option view=messages")
        words = [name.strip() for name in names.split(",")] if names else []
        return cls(
            path=os.path.abspath(path),
            messages=view == "messages",
            patterns=tuple(map(Specification.parse, words)),
            starting=starting_position(options.get("startingOffsets", "earliest")),
            most=None if most is None else int(most),
            may_lack=fails == "false",
        )


class _Task(InputPartition):
    def __init__(self, shares: list[Share]) -> None:
        self.shares = shares


class _Reader(DataSourceReader):
    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(directory)

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(shares) for shares in packed(Share.list_all(self._directory))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)
        require(self._directory)
        for share in partition.shares:
            yield from share.events()


class _RangeTask(InputPartition):
    def __init__(self, ranges: list[Range]) -> None:
        self.ranges = ranges


def _read(partition: InputPartition, options: _Options) -> Iterator[pa.RecordBatch]:
    """Read the ranges of a task."""
    assert isinstance(partition, _RangeTask)
    require(options.path)
    if options.messages:
        # Not for events: their executors need no msgspec.
        from bus.pipeline.messages import message_batches  # noqa: PLC0415 - see above

        for each in partition.ranges:
            yield from message_batches(each, options.patterns)
        return
    for each in partition.ranges:
        if (segment := each.read()) is not None:
            # After the records: names are written before the records that use them.
            yield from event_batches(stored_journal(each.folder), segment)


class _MessageReader(DataSourceReader):
    """A reader of the messages that are recorded now."""

    def __init__(self, options: _Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        follower = Follower(self._options.path, may_lack=self._options.may_lack)
        tasks = follower.plan(EARLIEST, follower.ends())
        return [_RangeTask(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query; its state is a cache, and may be lost at any time."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._follower = Follower(options.path, may_lack=options.may_lack)
        self._target: Position | None = None

    def initialOffset(self) -> Position:  # noqa: N802 - theirs
        return self._options.starting

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - theirs
        most = self._options.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - theirs
        self._target = self._follower.ends()

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:  # noqa: N802 - theirs
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._follower.latest(start, most, self._target)

    def reportLatestOffset(self) -> Position:  # noqa: N802 - theirs
        return self._follower.ends()

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        return [_RangeTask(ranges) for ranges in self._follower.plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)
