"""A query that sends each notification back, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from bus.pipeline.session import build_session
from bus.pipeline.source import register


def main(folder: Path) -> None:
    spark = build_session(
        log=folder / "spark.log",
        master="local[2]",
        # The check needs the positions of all batches.
        settings={"spark.sql.streaming.minBatchesToRetain": "1000000"},
    )
    register(spark)
    stream = spark.readStream.format("queuebroker").options(
        view="messages", subscribe="sensor,tapped", maxOffsetsPerTrigger=2000
    )
    rows = stream.load(str(folder / "journals")).selectExpr(
        "CAST(value AS STRING) AS value", "'result' AS topic"
    )
    writer = rows.writeStream.format("queuebroker").option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    writer.start(str(folder / "spool")).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
