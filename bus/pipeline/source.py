"""Journals as a Spark data source: ``spark.read.format("queuebroker").load(folder)``.

One row is one record, with the columns of `bus.pipeline.schemas.EVENTS`. A partition is
one large segment or some small ones, read where its task runs. Rows leave as Arrow
batches: tuples take three times as long. The classes are pickled to the workers by
name, and no file is opened before `read`. A stream reader could be added beside the
batch reader: it needs only another way to choose shares.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bus.pipeline.schemas import EVENTS, ddl
from bus.pipeline.share import Share, packed, require

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        return ddl(EVENTS)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - theirs
        """Return a reader of the current journals."""
        return _Reader(self.options["path"])


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
