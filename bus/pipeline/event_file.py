"""`write_events`: records of some segments -> one Parquet file of the table `events`.

It runs in the workers of Spark. Rows that pass through Java to reach Parquet cost four
times the processor time. A worker returns only facts, one row for each segment, and the
driver commits the file by naming it in the table `segments`. The name of a file is new
in every attempt, so a repeated or killed attempt changes no file that a reader uses.
"""

from __future__ import annotations

import contextlib
import os
import platform
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
from pyarrow import parquet

from bus.errors import PipelineError
from bus.pipeline.schemas import EVENTS, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.pipeline.share import Share

__all__ = ["write_events"]

GROUP_RECORDS: Final = 1 << 19

# These rise by small steps from record to record; a dictionary of them would be large.
_RISING: Final = dict.fromkeys(("n", "seq", "mono", "wall_us"), "DELTA_BINARY_PACKED")


def write_events(shares: Sequence[Share], folder: str) -> list[dict[str, Any]]:
    """Write the records of some segments to one new file in a folder.

    Returns the facts of each segment, as `bus.pipeline.share.Share.read` does, with the
    name of the file if it has records.

    Raises:
        PipelineError: the file cannot be written.
    """
    file = _File(Path(folder, f"{_name(shares[0])}.parquet"))
    rows = []
    try:
        with contextlib.closing(file):
            for share in shares:
                row, batches = share.read(coded=True)
                row["file"] = None
                for batch in batches:
                    file.add(batch)
                    row["file"] = file.path.name
                rows.append(row)
            file.flush()
    except OSError as error:  # reads report theirs in the rows
        cause = os.strerror(error.errno) if error.errno else str(error)
        msg = f"cannot write {file.path} on {platform.node()}: {cause}"
        raise PipelineError(msg) from None
    return rows


def _name(share: Share) -> str:
    """Return a name that no file has: of the first segment, and of this attempt."""
    segment = Path(share.path).name.split(".")[0] if share.path else "none"
    return f"{share.journal:016x}-{segment}-{uuid.uuid4().hex}"


class _File:
    """A Parquet file that is made with its first row, in groups of many segments."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._schema = arrow_schema(EVENTS, coded=True)
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._writer: parquet.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= GROUP_RECORDS:
            self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            self._writer = parquet.ParquetWriter(
                self.path,
                self._schema,
                compression="zstd",
                use_dictionary=[
                    name for name in self._schema.names if name not in _RISING
                ],
                column_encoding=_RISING,
                # Else pyarrow's readers would return codes in place of texts.
                store_schema=False,
            )
        table = pa.Table.from_batches(self._batches, self._schema)
        # A group has one dictionary for each column, a batch has its own.
        self._writer.write_table(table.unify_dictionaries(), GROUP_RECORDS)
        self._batches, self._rows = [], 0

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
