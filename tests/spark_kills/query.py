"""A query that sends each notification back, until it is killed or has sent all."""

from __future__ import annotations

import sys
from pathlib import Path

from bus.pipeline.session import build_session
from bus.pipeline.source import register


def main(folder: Path, *, once: bool) -> None:
    spark = build_session(
        log=folder / "spark.log",
        master="local[2]",
        # The check needs the positions of all batches.
        settings={"spark.sql.streaming.minBatchesToRetain": "1000000"},
    )
    register(spark)
    stream = spark.readStream.format("queuebroker").options(
        view="messages", subscribe="sensor", maxOffsetsPerTrigger=2000
    )
    rows = stream.load(str(folder / "journals")).selectExpr(
        "CAST(value AS STRING) AS value", "'result' AS topic"
    )
    writer = rows.writeStream.format("queuebroker").option(
        "checkpointLocation", str(folder / "checkpoint")
    )
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    query = writer.trigger(**trigger).start(str(folder / "spool"))
    query.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), once=sys.argv[2] == "once")
