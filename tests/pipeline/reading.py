"""Reads journals as Spark's workers do, without Spark."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types

from bus.pipeline.bronze import Ingest, segments
from bus.pipeline.event_file import write_events
from bus.pipeline.folder import OutFolder
from bus.pipeline.schemas import EVENTS, arrow_schema
from bus.pipeline.source import JournalSource
from tests.journal.histories import History, clean

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

__all__ = ["facts", "long_history", "read", "reader", "update"]


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


def update(journals: Path, out: OutFolder) -> list[dict[str, Any]]:
    """Bring both tables up to date; return the rows of the segments read."""
    ingest = Ingest.prepare(journals, out)
    out.events.mkdir(parents=True, exist_ok=True)
    read = [row for task in ingest.tasks for row in write_events(task, str(out.events))]
    ingest.commit(read)
    return read


def facts(journals: Path) -> list[dict[str, Any]]:
    """Return the table `segments` of some journals."""
    with tempfile.TemporaryDirectory() as folder:
        out = OutFolder(Path(folder))
        update(journals, out)
        return segments(out)
