"""A stream from journals to a bus on Spark: each message once, also after a crash."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from bus.journal.writer import Journal
from bus.pipeline.gateway import Gateway
from bus.pipeline.source import register
from bus.pipeline.spool import Spool
from bus.testing import memory_bus
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from bus.api.bus import Bus

pytestmark = pytest.mark.spark

READINGS = 40


class Live:
    """A sensor, whose journal is read by queries, and a gateway of their results."""

    def __init__(self, spark: SparkSession, folder: Path, bus: Bus) -> None:
        register(spark)
        self.spark, self.folder, self.bus = spark, folder, bus
        self.got: list[dict[str, Any]] = []
        bus.subscribe("doubled/*", lambda message: self.got.append(message.payload))
        bus.subscribe("sensor", lambda _: None)  # a notification needs a subscriber
        self.sensor = bus.register("sensor")
        self.gateway = Gateway(Spool.at(folder / "spool"), bus, pytest.fail)

    def rows(self, **options: str | int) -> DataFrame:
        """Return twice each reading, as a stream."""
        stream = self.spark.readStream.format("queuebroker").options(
            view="messages", subscribe="sensor", **options
        )
        return stream.load(str(self.folder / "journals")).selectExpr(
            "named_struct('double', 2 * CAST(CAST(value AS STRING) AS INT)) AS value",
            "concat('doubled/', topic) AS topic",
        )

    def run(self, rows: DataFrame, **options: str) -> StreamingQuery:
        """Run a query over all that is there, and publish its results."""
        query = (
            rows.writeStream.format("queuebroker")
            .options(checkpointLocation=str(self.folder / "checkpoint"), **options)
            .trigger(availableNow=True)
            .start(str(self.folder / "spool"))
        )

        def ended() -> bool:
            self.gateway.publish()
            return not query.isActive

        until(ended, "the query ended")
        assert query.exception() is None
        return query

    def doubles(self, count: int) -> list[int]:
        until(lambda: len(self.got) >= count, "the results were delivered")
        return [row["value"]["double"] for row in self.got]


@pytest.fixture
def live(spark: SparkSession, tmp_path: Path) -> Iterator[Live]:
    with (
        Journal(tmp_path / "journals", payloads=True) as journal,
        memory_bus(journal=journal) as bus,
    ):
        yield Live(spark, tmp_path, bus)


def test_results_return_to_the_bus_once_though_a_batch_is_repeated(live: Live) -> None:
    for reading in range(READINGS):
        live.sensor.notify(reading)
    rows = live.rows(maxOffsetsPerTrigger=100)

    query = live.run(rows)
    # As after a kill between the commit of the batch and Spark's note of it.
    commits = live.folder / "checkpoint" / "commits"
    last = max(
        (path for path in commits.glob("[0-9]*")), key=lambda path: int(path.name)
    )
    for path in (last, commits / f".{last.name}.crc"):
        path.unlink()
    live.run(rows)
    live.sensor.notify(READINGS)
    live.run(rows)

    assert int(last.name) > 0
    assert live.doubles(READINGS + 1) == [2 * n for n in range(READINGS + 1)]
    keys = {(row["query"], row["batch"], row["row"]) for row in live.got}
    assert len(keys) == READINGS + 1
    progress = query.lastProgress
    assert progress is not None
    (source,) = progress["sources"]
    read, recorded = (
        sum(json.loads(source[which]).values())
        for which in ("endOffset", "latestOffset")
    )
    assert 0 < read <= recorded


def test_a_table_is_published_by_one_write(live: Live) -> None:
    table = live.spark.createDataFrame([(1, "a"), (2, "b")], "value INT, key STRING")
    writer = table.coalesce(1).write.format("queuebroker").mode("append")

    writer.option("topic", "doubled/table").save(str(live.folder / "spool"))

    assert live.gateway.publish() == 2
    until(lambda: len(live.got) == 2, "the rows were delivered")
    assert [(row["value"], row["key"]) for row in live.got] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("1 AS key", "have no column `value`"),
        ("1 AS value", "no topic: give the option topic"),
        ("1 AS value, 'a' AS topic, 2 AS x", "has no column 'x': put it into `value`"),
        ("current_date() AS value, 'a' AS topic", "cannot carry value of type date"),
        ("1 AS value, 'a b' AS topic", "a row cannot be published: "),
        ("1 AS value, CAST(NULL AS STRING) AS topic", "its column `topic` is null"),
    ],
)
def test_rows_that_cannot_be_messages_are_refused(
    live: Live, columns: str, error: str
) -> None:
    rows = live.spark.range(1).selectExpr(*columns.split(", "))
    writer = rows.write.format("queuebroker").mode("append")

    with pytest.raises(Exception, match=error):
        writer.save(str(live.folder / "spool"))

    assert live.gateway.publish() == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"view": "rows"}, "view must be events or messages"),
        ({"subscribe": "sensor"}, "add the option view=messages"),
        ({"maxOffsetsPerTrigger": "0"}, "must be a number of at least 1"),
        ({"failOnDataLoss": "no"}, "must be true or false"),
        ({"startingOffsets": "now"}, "startingOffsets must be earliest, latest"),
    ],
)
def test_a_wrong_option_is_refused_before_the_query_starts(
    live: Live, options: dict[str, str], error: str
) -> None:
    stream = live.spark.readStream.format("queuebroker").options(**options)

    with pytest.raises(Exception, match=error):
        stream.load(str(live.folder))
