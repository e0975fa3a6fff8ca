"""A program for `spark-submit`: sends each recorded notification back, and ends."""

from __future__ import annotations

from pyspark.sql import SparkSession

from bus.pipeline.source import register


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    register(spark)
    source = spark.readStream.format("queuebroker").option("view", "messages")
    rows = source.load("journals").selectExpr(
        "CAST(value AS STRING) AS value", "'result' AS topic"
    )
    sink = rows.writeStream.format("queuebroker").trigger(availableNow=True)
    sink.option("checkpointLocation", "checkpoint").start("spool").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
