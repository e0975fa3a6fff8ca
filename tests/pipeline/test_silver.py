"""Silver tables: of a real run, and of traffic written by hand."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from bus.journal.format import RecordKind
from bus.pipeline import silver
from bus.pipeline.results import read_rows
from bus.pipeline.schemas import SEGMENTS, ddl
from tests.pipeline.by_hand import event, events
from tests.pipeline.recorded import BYTES, CLIENT, SENT, SERVER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bus.pipeline.folder import OutFolder

pytestmark = pytest.mark.spark


def by_hand(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return events numbered in the given order."""
    numbered = [
        row | {"n": n, "mono": 1000 * n, "wall_us": 10**15 + n}
        for n, row in enumerate(rows)
    ]
    return events(spark, numbered)


def segment(journal: int = 1, **columns: Any) -> tuple[Any, ...]:
    row: dict[str, Any] = dict.fromkeys(column.name for column in SEGMENTS)
    row |= {"journal": journal, "lost": 0, "damaged": 0, "late": False, "boot": "one"}
    row["begun"] = True
    return tuple((row | columns).values())


def journals(
    spark: SparkSession, rows: DataFrame, *segments: tuple[Any, ...]
) -> DataFrame:
    table = spark.createDataFrame(segments or (segment(),), ddl(SEGMENTS))
    return silver.journals(silver.tally(rows), table)


def one(table: DataFrame) -> dict[str, Any]:
    (row,) = table.collect()
    return row.asDict()


def test_every_message_of_a_run_is_one_row(finished: OutFolder) -> None:
    rows = list(read_rows(finished, "messages"))

    assert len(rows) == sum(SENT.values())
    assert {row["outcome"] for row in rows} == {"received"}
    assert {(row["sends"], row["receives"], row["drops"]) for row in rows} == {
        (1, 1, 0)
    }
    for row in rows:
        assert row["smallest"] == row["largest"]
        assert row["latency_ns"] == row["received_mono"] - row["sent_mono"] > 0
        assert row["sent_n"] < row["received_n"]


def test_every_channel_of_a_run_is_one_row(finished: OutFolder) -> None:
    rows = list(read_rows(finished, "sessions"))

    assert Counter(row["acceptor"] for row in rows) == {SERVER: 2, "left": 1}
    assert {CLIENT, "right"} < {row["connector"] for row in rows}
    for row in rows:
        assert (row["accepts"], row["connects"]) == (1, 1)
        assert row["accept_port"] == row["connect_port"] == 7
        assert row["settled"]
        assert row["ended"]
        assert row["acceptor_left_mono"] is not None
        assert row["connector_left_mono"] is not None


def test_every_direction_of_a_run_is_one_row(finished: OutFolder) -> None:
    rows = list(read_rows(finished, "flows"))

    reported = {
        (row["sender"], row["receiver"]): row["messages_sent"]
        for row in rows
        if row["messages_sent"]
    }
    assert sorted(reported.values()) == sorted(SENT.values())
    assert reported[CLIENT, SERVER] == SENT[CLIENT, SERVER]
    for row in rows:
        assert row["messages_sent"] == row["messages_received"]
        assert row["bytes_sent"] == row["bytes_received"]
    (written,) = [row for row in rows if row["sender"] == "right"]
    assert (written["receiver"], written["bytes_sent"]) == ("left", BYTES)
    (busiest,) = [row for row in rows if row["messages_sent"] == SENT[CLIENT, SERVER]]
    assert busiest["depth_max"] == 10
    assert busiest["last_received"] == SENT[CLIENT, SERVER]


def test_a_run_that_ended_in_order_is_conclusive(finished: OutFolder) -> None:
    (row,) = read_rows(finished, "journals")

    assert row["machine"] == "host"
    assert row["closed"]
    assert row["complete"]
    assert row["conclusive"]
    assert not row["lossy"]
    assert (
        row["records"]
        == row["last_n"] + 1
        == sum(1 for _ in read_rows(finished, "events"))
    )


@pytest.mark.parametrize(
    ("kinds", "outcome"),
    [
        ([RecordKind.SEND, RecordKind.RECEIVE], "received"),
        ([RecordKind.SEND, RecordKind.DROP], "dropped"),
        ([RecordKind.SEND], "not received"),
        ([RecordKind.RECEIVE], "received"),
    ],
)
def test_a_message_has_the_outcome_of_its_records(
    spark: SparkSession, kinds: list[RecordKind], outcome: str
) -> None:
    rows = by_hand(spark, *(event(kind, seq=1, size=4) for kind in kinds))

    row = one(silver.messages(rows, journals(spark, rows)))

    assert row["outcome"] == outcome
    assert row["sends"] == kinds.count(RecordKind.SEND)
    assert row["latency_ns"] == (
        1000 if kinds == [RecordKind.SEND, RecordKind.RECEIVE] else None
    )


@pytest.mark.parametrize(("boot", "latency_ns"), [("one", 1000), ("two", None)])
def test_only_clocks_that_tick_together_are_subtracted(
    spark: SparkSession, boot: str, latency_ns: int | None
) -> None:
    rows = by_hand(
        spark,
        event(RecordKind.SEND, seq=1),
        event(RecordKind.RECEIVE, seq=1, journal=2),
    )
    both = journals(spark, rows, segment(1), segment(2, boot=boot))

    row = one(silver.messages(rows, both))

    assert row["latency_ns"] == latency_ns
    assert (row["sent_journal"], row["received_journal"]) == (1, 2)


def test_a_record_of_no_message_makes_no_row(spark: SparkSession) -> None:
    """A drop that was never accepted has no number; nor have bytes, nor a stray."""
    rows = by_hand(
        spark,
        event(RecordKind.DROP, seq=0),
        event(RecordKind.WRITE, seq=4),
        event(RecordKind.SEND, channel=0, seq=1),
        event(RecordKind.CLOSE_LOCAL, seq=1),
    )

    assert silver.messages(rows, journals(spark, rows)).count() == 0


def test_names_are_found_though_the_records_of_the_meeting_are_missing(
    spark: SparkSession,
) -> None:
    rows = by_hand(spark, event(RecordKind.SEND, side=1, seq=1, task="a", peer="b"))

    row = one(silver.sessions(silver.tally(rows), rows, journals(spark, rows)))

    # The flow to side 1, the connector, is sent by side 0.
    assert (row["acceptor"], row["connector"]) == ("a", "b")
    assert (row["accepts"], row["connects"]) == (0, 0)


@pytest.mark.parametrize(
    ("gone", "reported", "lossy"),
    [
        ({}, {}, False),
        ({0}, {}, True),
        ({1}, {}, True),
        ({0, 1, 2}, {}, True),
        ({}, {"lost": 1}, True),
        ({}, {"damaged": 1}, True),
        ({}, {"late": True}, False),
    ],
    ids=["nothing", "first", "middle", "all", "lost", "damaged", "late"],
)
def test_a_journal_is_lossy_if_anything_of_it_is_missing(
    spark: SparkSession, gone: set[int], reported: dict[str, Any], lossy: bool
) -> None:
    kinds = [RecordKind.OPEN, RecordKind.SEND, RecordKind.CLOSE]
    rows = events(
        spark, [event(kind, n=n) for n, kind in enumerate(kinds) if n not in gone]
    )

    row = one(journals(spark, rows, segment(**reported)))

    assert row["lossy"] == lossy
    assert row["closed"] == (2 not in gone)
    assert row["complete"] == (not lossy)
    assert row["conclusive"] == (not lossy and "late" not in reported)
    assert row["gaps"] == (1 if gone == {1} else 0)
