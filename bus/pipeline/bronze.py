"""Bronze: journals -> the tables `events` and `segments`, in Parquet.

Later stages read those tables, never the journals, so that all of them see the same
records although the programs may still be writing. `segments` is read after `events`: a
file that was missing for the first is also missing for the second, which reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.pipeline.schemas import EVENTS, SEGMENTS, ddl
from bus.pipeline.share import Share, check_reach, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
    from pyspark.sql import DataFrame, SparkSession

    from bus.pipeline.folder import OutFolder
    from bus.pipeline.schemas import Column

__all__ = ["ingest", "problems"]

PROBLEMS_MAX: Final = 100


def ingest(spark: SparkSession, journals: Path, out: OutFolder) -> None:
    """Read every journal below a folder and replace both tables by its content.

    Raises:
        JournalError: there is no journal, or a folder cannot be read.
        PipelineError: an executor does not find the journals, or the results.
    """
    # List them once: both tables must be made from the same files.
    shares = Share.list_all(journals)
    folders = dict.fromkeys(share.folder for share in shares)
    check_reach(spark, [str(out.path), *folders])
    tasks = list(packed(shares))
    out.write(_read(spark, tasks, _events, EVENTS), "events")
    out.write(_read(spark, tasks, _facts, SEGMENTS), "segments")


def _read(
    spark: SparkSession,
    tasks: Sequence[Sequence[Share]],
    read: Callable[[Share], Iterator[pa.RecordBatch]],
    columns: tuple[Column, ...],
) -> DataFrame:
    """Read rows from shares; each group of shares is one task of Spark."""

    def rows(places: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in places:
            for place in batch.column(0).to_pylist():
                for share in tasks[place]:
                    yield from read(share)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(rows, ddl(columns))


def _events(share: Share) -> Iterator[pa.RecordBatch]:
    yield from share.events()


def _facts(share: Share) -> Iterator[pa.RecordBatch]:
    yield share.facts()


def problems(segments: DataFrame) -> list[str]:
    """Return the read errors, one line each, at most `PROBLEMS_MAX` of them."""
    # A problem of a whole journal is repeated with each of its segments.
    lines = segments.select(F.explode(F.split("problems", "\n")).alias("line"))
    rows = lines.distinct().orderBy("line").limit(PROBLEMS_MAX + 1).collect()
    found = [row["line"] for row in rows]
    if len(found) > PROBLEMS_MAX:
        found[PROBLEMS_MAX:] = ["and more, in the table `segments`"]
    return found
