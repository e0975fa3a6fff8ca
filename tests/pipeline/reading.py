"""Reads journals as Spark's workers do, without Spark."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.pipeline.schemas import EVENTS, SEGMENTS, arrow_schema
from bus.pipeline.share import Share
from bus.pipeline.source import JournalSource
from tests.journal.histories import History, clean

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.datasource import DataSourceReader

__all__ = ["facts", "long_history", "read", "reader"]


def long_history(journals: int = 1) -> History:
    """Return a history with several segments of 64 records in each journal."""
    return clean(1, channels=40, steps=600, journals=journals)


def reader(folder: Path | str) -> DataSourceReader:
    """Return the reader that Spark asks for partitions and rows."""
    source = JournalSource({"path": str(folder)})
    return source.reader(schema=None)  # type: ignore[arg-type] # not used


def read(folder: Path) -> list[dict[str, Any]]:
    """Read all rows as Spark does: partitions, pickled, read one by one."""
    found = []
    for partition in reader(folder).partitions():
        task = pickle.loads(pickle.dumps(partition))
        for batch in pickle.loads(pickle.dumps(reader(folder))).read(task):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema.equals(arrow_schema(EVENTS))
            found += batch.to_pylist()
    return found


def facts(folder: Path) -> list[dict[str, Any]]:
    """Return the facts of every share."""
    found = []
    for share in Share.list_all(folder):
        batch = share.facts()
        assert batch.schema.equals(arrow_schema(SEGMENTS))
        found += batch.to_pylist()
    return found
