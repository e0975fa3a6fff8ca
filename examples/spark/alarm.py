"""Sensors on a bus, moving averages in Spark, and alarms back on the bus."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bus import Incoming, open_bus
from bus.journal.writer import Journal
from bus.pipeline.session import build_session
from bus.pipeline.source import register

CELSIUS = {"north": [20, 22, 30, 36, 38, 24, 20, 20], "south": [19, 19, 20, 31, 20, 19]}


def alarms(messages: DataFrame) -> DataFrame:
    """Return an alarm for each four seconds with a mean above 30 degrees."""
    reading = F.from_json(F.col("value").cast("string"), "second INT, celsius DOUBLE")
    means = (
        messages.select("topic", reading.alias("reading"))
        .withColumn("at", F.timestamp_seconds("reading.second"))
        .withWatermark("at", "0 seconds")
        .groupBy("topic", F.window("at", "4 seconds", "2 seconds"))
        .agg(F.avg("reading.celsius").alias("mean"))
    )
    begin = F.unix_timestamp("window.start").alias("from")
    return means.where("mean > 30").select(
        F.regexp_replace("topic", "sensor", "alarm").alias("topic"),
        F.struct(begin, "mean").alias("value"),
    )


def main(folder: Path) -> None:
    got: SimpleQueue[Incoming] = SimpleQueue()
    spool = folder / "alarms"
    command = ["bus", "pipeline", "gateway", str(spool), "--bus", "plant"]
    spark = build_session(
        log=folder / "spark.log",
        master="local[2]",
        settings={
            "spark.sql.shuffle.partitions": "1",
            # Without it, each batch starts five times as many processes.
            "spark.sql.streaming.checkpointFileManagerClass": (
                "org.apache.spark.sql.execution.streaming.checkpointing"
                ".FileSystemBasedCheckpointFileManager"
            ),
        },
    )
    register(spark)
    with (
        Journal(folder / "recorded", payloads="sensor/*") as journal,
        open_bus("plant", journal=journal) as bus,
        subprocess.Popen([sys.executable, "-m", *command]) as gateway,  # noqa: S603
        ExitStack() as ending,
    ):
        ending.callback(gateway.terminate)
        bus.subscribe("alarm/*", got.put)
        bus.subscribe("sensor/*", lambda _: None)
        for name, series in CELSIUS.items():
            sensor = bus.register(f"sensor/{name}")
            for second, celsius in enumerate(series):
                sensor.notify({"second": second, "celsius": celsius})
        messages = (
            spark.readStream.format("queuebroker")
            .options(view="messages", subscribe="sensor/*")
            .load(str(folder / "recorded"))
        )
        query = (
            alarms(messages)
            .writeStream.format("queuebroker")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start(str(spool))
        )
        ending.callback(query.stop)
        while got.empty():
            query.awaitTermination(1)  # raises the error of a query that failed
        alarm = got.get()
        value = alarm.payload["value"]
        name, mean = alarm.sender.module, value["mean"]
        print(f"{name}: {mean:.1f} degrees from second {value['from']}", flush=True)
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BUS_RUN_DIR"] = folder
        main(Path(folder))
