"""Bronze: journals -> the tables `events` and `segments`, in Parquet.

Everything later reads those tables, never the journals, so that all of it speaks of
the same records though the programs may still be writing. `segments` is read after
`events`: a file that was gone for the first is also gone for the second, and is then
told of.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from bus.pipeline.schemas import SEGMENTS, ddl
from bus.pipeline.share import Share
from bus.pipeline.source import FORMAT, register

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa  # type: ignore[import-untyped] # pyarrow ships no types
    from pyspark.sql import DataFrame, SparkSession

    from bus.pipeline.folder import OutFolder

__all__ = ["ingest", "problems"]

PROBLEMS_MAX: Final = 100
TASKS_PER_CORE: Final = 2


def ingest(spark: SparkSession, journals: Path, out: OutFolder) -> None:
    """Read every journal below a folder and replace both tables by what it holds."""
    register(spark)
    out.write(spark.read.format(FORMAT).load(str(journals)), "events")
    shares = Share.list_all(journals)
    tasks = min(len(shares), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    places = spark.range(0, len(shares), 1, tasks)
    facts = places.mapInArrow(functools.partial(_facts, shares), ddl(SEGMENTS))
    out.write(facts, "segments")


def _facts(
    shares: Sequence[Share], places: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in places:
        for place in batch.column(0).to_pylist():
            yield shares[place].facts()


def problems(segments: DataFrame) -> list[str]:
    """What could not be read, one line each, and no more than people would read."""
    # A problem of a whole journal stands with each of its segments.
    lines = segments.select(F.explode(F.split("problems", "\n")).alias("line"))
    rows = lines.distinct().orderBy("line").limit(PROBLEMS_MAX + 1).collect()
    found = [row["line"] for row in rows]
    if len(found) > PROBLEMS_MAX:
        found[PROBLEMS_MAX:] = ["and more, in the table `segments`"]
    return found
