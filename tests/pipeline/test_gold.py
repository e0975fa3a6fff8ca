"""The figures of the report: few numbers, all correct."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bus.journal.format import RecordKind
from bus.journal.rules import Verdict
from bus.journal.violation import Violation
from bus.pipeline import gold
from bus.pipeline.gold import BUCKETS_MAX, OTHERS, ROUTES_MAX, Scale
from bus.pipeline.results import read_rows
from bus.pipeline.rules import Tables
from tests.pipeline.by_hand import event, events
from tests.pipeline.recorded import CLIENT, SENT, SERVER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bus.pipeline.folder import OutFolder

pytestmark = pytest.mark.spark

# Half of the width of a bin, and a little for whole nanoseconds.
CLOSE = 2 ** (0.5 / gold.BINS_PER_OCTAVE) - 1 + 0.001


def route(row: dict[str, Any]) -> tuple[str, str]:
    return row["source"], row["target"]


def test_routes_are_the_pairs_that_spoke(finished: OutFolder) -> None:
    rows = {route(row): row for row in read_rows(finished, "routes")}

    assert len(rows) == len(SENT) + 1
    assert rows[CLIENT, SERVER]["messages_sent"] == SENT[CLIENT, SERVER]
    assert rows[SERVER, CLIENT]["messages_received"] == SENT[SERVER, CLIENT]
    assert rows["right", "left"]["messages_sent"] == 0
    assert sum(row["messages_sent"] for row in rows.values()) == sum(SENT.values())


def test_traffic_adds_up_to_the_messages_sent(finished: OutFolder) -> None:
    rows = list(read_rows(finished, "traffic"))

    for name in ("sent", "received"):
        assert sum(row[name] for row in rows) == sum(SENT.values())
    (width_us,) = {row["width_us"] for row in rows}
    starts = {row["at_us"] for row in rows}
    assert len({start % width_us for start in starts}) == 1
    assert len(starts) <= BUCKETS_MAX


def test_quantiles_match_the_latencies_of_the_messages(finished: OutFolder) -> None:
    exact = np.sort([row["latency_ns"] for row in read_rows(finished, "messages")])

    rows = list(read_rows(finished, "latency"))

    (whole,) = [r for r in rows if r["source"] is None and r["at_us"] is None]
    assert whole["messages"] == len(exact)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "most": 1.0}
    for name, share in shares.items():
        expected = exact[int(np.ceil(share * len(exact))) - 1]
        assert whole[name] == pytest.approx(expected, rel=CLOSE), name
    by_route = [row for row in rows if row["source"] is not None]
    by_bucket = [row for row in rows if row["at_us"] is not None]
    assert len(by_route) == len(SENT)
    for part in (by_route, by_bucket):
        assert sum(row["messages"] for row in part) == len(exact)


def test_depth_is_the_time_that_messages_were_on_their_way(
    spark: SparkSession,
) -> None:
    """A message of 1.5 buckets, sent in the middle of one, fills its half and the next.

    Time beyond the last record does not count.
    """
    scale = Scale(start_us=0, end_us=4000, width_us=1000)
    latencies_us = {"brief": 100, "long": 1500, "endless": 10**6}
    rows = [
        (2000, source, "far", "bus", math.floor(math.log2(us * 1000 + 1) * 32), 4)
        for source, us in latencies_us.items()
    ]
    columns = "at_us BIGINT, source STRING, target STRING, via STRING, bin INT"
    profiles = spark.createDataFrame(
        [*rows, (2000, "lost", "far", "bus", None, 4)], f"{columns}, messages INT"
    )

    found = gold.depth(profiles, scale).collect()

    depths: dict[str, dict[int, float]] = {}
    for row in found:
        depths.setdefault(row["source"], {})[row["at_us"]] = row["depth"]
    assert depths["brief"] == {2000: pytest.approx(0.4, rel=CLOSE)}
    assert depths["long"][2000] == 2
    assert depths["long"][3000] == pytest.approx(4, rel=CLOSE)
    assert sum(depths["long"].values()) == pytest.approx(6, rel=CLOSE)
    assert depths["endless"] == {2000: 2, 3000: 4, 4000: 4}
    assert "lost" not in depths


def test_a_distribution_rises_to_all(finished: OutFolder) -> None:
    rows = list(read_rows(finished, "distribution"))

    for pair in {route(row) for row in rows}:
        steps = sorted((r["latency_ns"], r["share"]) for r in rows if route(r) == pair)
        shares = [share for _, share in steps]
        assert shares == sorted(shares)
        assert shares[-1] == 1.0


def test_waits_count_only_calls_that_had_to_wait(spark: SparkSession) -> None:
    kinds = {
        "send": RecordKind.SEND,
        "receive": RecordKind.RECEIVE,
        "accept": RecordKind.ACCEPT_END,
        "connect": RecordKind.CONNECT_END,
    }
    rows = [event(kind, wait_us=us) for kind in kinds.values() for us in range(101)]
    rows += [event(RecordKind.RECV_END, wait_us=7), event(RecordKind.SEND, wait_us=0)]

    found = {row["what"]: row for row in gold.waits(events(spark, rows)).collect()}

    assert set(found) == set(kinds)
    for row in found.values():
        assert (row["calls"], row["p50"], row["p99"], row["most"]) == (100, 50, 99, 100)


def spoke(spark: SparkSession, senders: list[str]) -> Tables:
    """Return flows to one receiver; the amounts contain the number of each sender."""
    flows = spark.createDataFrame(
        [(n, name, "to", n + 1, n, 0, 10 * n, 10, n) for n, name in enumerate(senders)],
        "flow BIGINT, sender STRING, receiver STRING, messages_sent BIGINT,"
        " messages_received BIGINT, dropped BIGINT, bytes_sent BIGINT,"
        " bytes_received BIGINT, depth_max BIGINT",
    )
    return Tables(flows, flows, flows, flows, flows)


def test_beyond_the_busiest_routes_all_are_others(spark: SparkSession) -> None:
    pairs = 2 * ROUTES_MAX
    names = [f"from {chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(pairs)]

    rows = gold.routes(spoke(spark, names)).collect()

    found = {(r["source"], r["target"]): r for r in rows}
    assert len(found) == ROUTES_MAX + 1
    assert set(found) == {(OTHERS, OTHERS)} | {
        (name, "to") for name in names[pairs - ROUTES_MAX :]
    }
    others = found[OTHERS, OTHERS]
    assert others["flows"] == pairs - ROUTES_MAX
    assert others["messages_sent"] == sum(range(1, pairs - ROUTES_MAX + 1))
    assert others["depth_max"] == pairs - ROUTES_MAX - 1


def test_too_many_routes_are_grouped_by_the_prefixes_of_their_names(
    spark: SparkSession,
) -> None:
    """Was reported: the largest cell of the heat map was "(others)"."""
    names = [f"crew/{n}" for n in range(ROUTES_MAX)] + ["disk 1", "disk 2", "paper"]

    rows = gold.routes(spoke(spark, names)).collect()

    sent = {r["source"]: (r["flows"], r["messages_sent"]) for r in rows}
    last = len(names)
    assert sent == {
        "crew/*": (ROUTES_MAX, sum(range(1, ROUTES_MAX + 1))),
        "disk *": (2, 2 * last - 3),
        "paper": (1, last),
    }


@pytest.mark.parametrize(
    ("span_us", "width_us"),
    [(0, 1), (BUCKETS_MAX - 1, 1), (BUCKETS_MAX, 2), (10**6, 10**4), (10**12, 10**10)],
)
def test_time_is_cut_into_round_pieces_and_not_too_many(
    spark: SparkSession, span_us: int, width_us: int
) -> None:
    ends = spark.createDataFrame(
        [(50, 50), (50, 50 + span_us), (None, None)],
        "first_wall_us BIGINT, last_wall_us BIGINT",
    )

    assert Scale.of(ends) == Scale(50, 50 + span_us, width_us)
    assert span_us // width_us < BUCKETS_MAX


def test_no_records_have_a_scale(spark: SparkSession) -> None:
    none = spark.createDataFrame([], "first_wall_us BIGINT, last_wall_us BIGINT")

    assert Scale.of(none) == Scale(0, 0, 1)


def test_the_first_disconnect_of_each_of_a_few_channels_is_an_event(
    spark: SparkSession,
) -> None:
    rows = [
        event(RecordKind.CLOSE_LOCAL, n=8, task="worker/2", peer="collector"),
        event(RecordKind.CLOSE_LOCAL, n=9, side=1, task="collector", peer="worker/2"),
        event(
            RecordKind.CLOSE_LOCAL, n=4, channel=2, task="worker/3", peer="collector"
        ),
        event(
            RecordKind.SEND, n=1, channel=3, seq=1, task="worker/4", peer="collector"
        ),
    ]
    many = [
        event(RecordKind.CLOSE_LOCAL, n=n, channel=n, task="a", peer="b")
        for n in range(1, gold.CLOSES_MAX + 2)
    ]

    found = gold.closes(events(spark, rows)).collect()

    assert {(row["what"], row["name"], row["reason"], row["n"]) for row in found} == {
        ("disconnect", "worker/2", "from collector", 8),
        ("disconnect", "worker/3", "from collector", 4),
    }
    assert gold.closes(events(spark, many)).collect() == []
    assert gold.closes(events(spark, many[1:])).count() == gold.CLOSES_MAX


def test_a_scene_holds_the_events_around_a_violation(spark: SparkSession) -> None:
    rows = []
    for seq in range(1, 21):
        rows += [event(RecordKind.SEND, seq=seq), event(RecordKind.RECEIVE, seq=seq)]
        rows += [event(RecordKind.SEND, side=1, seq=seq)]
    rows.append(event(RecordKind.RECEIVE, seq=20))
    numbered = [row | {"n": n, "mono": n} for n, row in enumerate(rows)]
    duplicate = Violation("Q3", Verdict.FAIL, "", "", flow=2, seq=20, n=60, other_n=58)
    other = Violation("Q2", Verdict.FAIL, "", "", flow=3, seq=2, n=0, other_n=None)

    found = gold.scenes(events(spark, numbered), [duplicate, other]).collect()

    scenes = [
        {(r["n"], r["kind"], r["seq"]) for r in found if r["scene"] == i}
        for i in (0, 1)
    ]
    expected = {
        (row["n"], row["kind"], row["seq"])
        for row in numbered
        if row["flow"] == 2 and row["seq"] >= 17
    }
    assert scenes[0] == expected
    assert {seq for _, _, seq in scenes[1]} == {1, 2, 3, 4, 5}


def test_a_scene_is_not_longer_than_can_be_drawn(spark: SparkSession) -> None:
    rows = [event(RecordKind.RECEIVE, seq=1, n=n) for n in range(100)]
    violation = Violation("Q3", Verdict.FAIL, "", "", flow=2, seq=1, n=1, other_n=0)

    found = gold.scenes(events(spark, rows), [violation])

    assert {row["n"] for row in found.collect()} == set(range(gold.SCENE_RECORDS_MAX))
