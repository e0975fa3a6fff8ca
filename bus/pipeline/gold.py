"""Gold: the few numbers that the report draws.

What leaves this module is small whatever was recorded: at most `BUCKETS_MAX` moments,
`ROUTES_MAX` pairs of names (all further pairs are one), `BINS_PER_OCTAVE` steps of a
distribution, `SCENE_RECORDS_MAX` records around a violation. Latencies are counted in
bins that grow with them, so that one pass of hashing gives traffic, every quantile,
each within 1.1 %, and the whole distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from bus.journal.format import Kind
from bus.pipeline.schemas import signed
from bus.pipeline.silver import is_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from bus.journal.rules import Violation
    from bus.pipeline.rules import Tables

__all__ = [
    "OTHERS",
    "Scale",
    "distribution",
    "latency",
    "profile",
    "routes",
    "scenes",
    "traffic",
    "waits",
]

BUCKETS_MAX: Final = 120
ROUTES_MAX: Final = 24
BINS_PER_OCTAVE: Final = 32
SCENE_REACH: Final = 3  # messages before and after the one that broke a rule
SCENE_RECORDS_MAX: Final = 40
OTHERS: Final = "(others)"

_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "most": 1.0}
_AMOUNTS: Final = ("sent", "received", "dropped", "bytes")


@attrs.frozen
class Scale:
    """The axis of time: its start on the wall clock, and the width of a bucket."""

    start_us: int
    width_us: int

    @classmethod
    def of(cls, journals: DataFrame) -> Scale:
        """From the first record to the last, in steps that people count in."""
        ends = journals.agg(F.min("first_wall_us"), F.max("last_wall_us")).collect()[0]
        first, last = ends[0] or 0, ends[1] or 0
        least = (last - first) // BUCKETS_MAX + 1
        steps = (step * 10**power for power in range(19) for step in (1, 2, 5))
        return cls(first, next(step for step in steps if step >= least))

    def bucket(self) -> Column:
        """When the bucket of a message begins, by when it was first met."""
        since = F.col("wall_us") - self.start_us
        return F.col("wall_us") - F.pmod(since, F.lit(self.width_us))


def routes(flows: DataFrame) -> DataFrame:
    """One row for each pair of names that is shown; `OTHERS` stands for the rest."""
    amounts = ("messages_sent", "messages_received", "dropped", "bytes_sent")
    return (
        flows.join(_labels(flows), "flow")
        .groupBy("source", "target")
        .agg(
            F.count("*").alias("flows"),
            *(F.sum(name).alias(name) for name in amounts),
            F.max("depth_max").alias("depth_max"),
        )
    )


def profile(tables: Tables, scale: Scale) -> DataFrame:
    """Messages counted by bucket, shown pair and latency bin: made once, used thrice.

    `bin` is null for messages without a latency.
    """
    # Clocks of one boot do not run backwards, but two reads of them may be equal.
    latency = F.greatest(F.col("latency_ns"), F.lit(0))
    bins = F.floor(F.log2(latency + 1) * BINS_PER_OCTAVE).cast("int")
    known = F.when(F.col("latency_ns").isNotNull(), bins)
    sent = F.col("sends") > 0
    return (
        tables.messages.join(_labels(tables.flows), "flow")
        .groupBy(scale.bucket().alias("at_us"), "source", "target", known.alias("bin"))
        .agg(
            F.count(F.when(sent, 1)).alias("sent"),
            F.count(F.when(F.col("receives") > 0, 1)).alias("received"),
            F.count(F.when(F.col("drops") > 0, 1)).alias("dropped"),
            F.sum(F.when(sent, F.col("largest")).otherwise(0)).alias("bytes"),
            F.count("*").alias("messages"),
        )
    )


def traffic(profiles: DataFrame, scale: Scale) -> DataFrame:
    """Messages and bytes by bucket, `width_us` wide, and shown pair."""
    sums = [F.sum(name).alias(name) for name in _AMOUNTS]
    rows = profiles.groupBy("at_us", "source", "target").agg(*sums)
    return rows.withColumn("width_us", F.lit(scale.width_us).cast("bigint"))


def latency(profiles: DataFrame) -> DataFrame:
    """Quantiles from send to receive, in nanoseconds: of all, by shown pair, by bucket.

    A column of the grouping that is null stands for all.
    """
    quantiles = [
        F.min(F.when(F.col("share") >= share, F.col("latency_ns"))).alias(name)
        for name, share in _QUANTILES.items()
    ]
    total = F.sum("messages").alias("messages")
    return _shares(profiles).groupBy("at_us", "source", "target").agg(total, *quantiles)


def distribution(profiles: DataFrame) -> DataFrame:
    """How large a share of the messages took at most so long: of all, by shown pair."""
    rows = _shares(profiles).where("at_us IS NULL")
    return rows.select("source", "target", "latency_ns", "share")


def waits(events: DataFrame) -> DataFrame:
    """How long calls were blocked that had to wait, by what they waited in."""
    what = (
        F.when(is_kind(Kind.SEND), "send")
        .when(is_kind(Kind.RECEIVE), "receive")
        .when(is_kind(Kind.ACCEPT_END), "accept")
        .when(is_kind(Kind.CONNECT_END), "connect")
    )
    quantiles = F.percentile_approx("wait_us", list(_QUANTILES.values()), 10_000)
    named = {name: F.col("quantiles")[i] for i, name in enumerate(_QUANTILES)}
    return (
        events.where("wait_us > 0")
        .withColumn("what", what)
        .where("what IS NOT NULL")
        .groupBy("what")
        .agg(F.count("*").alias("calls"), quantiles.alias("quantiles"))
        .select("what", "calls", *(place.alias(name) for name, place in named.items()))
    )


def scenes(events: DataFrame, violations: Sequence[Violation]) -> DataFrame:
    """The records around some violations of messages, to draw them.

    violations: a few; `scene` is the place among them.
    """
    numbers = [
        F.when(_around(violation), F.lit(number))
        for number, violation in enumerate(violations)
    ]
    place = F.row_number().over(Window.partitionBy("scene").orderBy("n"))
    return (
        events.where(is_kind(Kind.SEND, Kind.RECEIVE, Kind.DROP))
        .withColumn("scene", F.explode(F.array_compact(F.array(*numbers))))
        .withColumn("place", place)
        .where(F.col("place") <= SCENE_RECORDS_MAX)
        .select("scene", "journal", "n", "kind", "seq", "mono", "size")
    )


def _around(violation: Violation) -> Column:
    assert violation.flow is not None
    near = F.abs(F.col("seq") - F.lit(violation.seq)) <= SCENE_REACH
    itself = [n for n in (violation.n, violation.other_n) if n is not None]
    mine = F.col("flow") == signed(violation.flow)
    return mine & (near | F.col("n").isin(itself))


def _shares(profiles: DataFrame) -> DataFrame:
    """For each grouping and bin: its latency, and the share of messages up to it."""
    names = ("at_us", "source", "target", "bin")
    at, source, target, of_bin = (F.col(name) for name in names)
    counted = (
        profiles.where("bin IS NOT NULL")
        .groupingSets(
            [[at, of_bin], [source, target, of_bin], [of_bin]],
            *(at, source, target, of_bin),
        )
        .agg(F.sum("messages").alias("messages"))
    )
    grouping = Window.partitionBy("at_us", "source", "target")
    so_far = grouping.orderBy("bin").rowsBetween(Window.unboundedPreceding, 0)
    messages = F.sum("messages")
    middle = F.pow(F.lit(2.0), (of_bin + 0.5) / BINS_PER_OCTAVE) - 1
    return counted.withColumns(
        {
            "share": messages.over(so_far) / messages.over(grouping),
            "latency_ns": F.round(middle).cast("bigint"),
        }
    )


def _labels(flows: DataFrame) -> DataFrame:
    """For each flow the pair of names it is shown under."""
    names = {name: F.coalesce(name, F.lit("?")) for name in ("sender", "receiver")}
    amount = "messages_sent + messages_received + bytes_sent + bytes_received"
    spoken = flows.where(f"{amount} > 0").withColumns(names)
    busiest = (
        spoken.groupBy("sender", "receiver")
        .agg(
            F.sum("messages_sent").alias("messages"), F.sum("bytes_sent").alias("bytes")
        )
        .orderBy(F.desc("messages"), F.desc("bytes"), "sender", "receiver")
        .limit(ROUTES_MAX)
        .select("sender", "receiver", F.lit(True).alias("shown"))
    )
    return spoken.join(F.broadcast(busiest), ["sender", "receiver"], "left").select(
        "flow",
        *(
            F.when(F.col("shown"), F.col(name)).otherwise(OTHERS).alias(label)
            for name, label in (("sender", "source"), ("receiver", "target"))
        ),
    )
