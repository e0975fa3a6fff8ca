"""The clocks of machines: messages on links between boots -> offsets and their bounds.

`bus.journal.clocks` gives the formulas. The table has one row for two boots and a
window of a minute, so it is small for any recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.clocks import WINDOW_NS
from bus.journal.format import RecordKind
from bus.pipeline.bus_silver import MESSAGE, steps
from bus.pipeline.silver import is_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["WINDOW", "aligned", "between_boots", "clocks", "several_boots"]

WINDOW = ("one", "other", "window")


def several_boots(journals: DataFrame) -> bool:
    """Return True if the journals are of several boots, each with its own clock."""
    return journals.where("boot <> ''").select("boot").distinct().limit(2).count() > 1


def between_boots(events: DataFrame, journals: DataFrame) -> DataFrame:
    """Return the crossings between two boots, as `bus.journal.rules` defines them.

    `one`, `other`: the boots, in order; `is_back`: the message went from `other` to
    `one`; `difference`: of its two times, in nanoseconds.
    """
    out, into = is_kind(RecordKind.RELAY_OUT), is_kind(RecordKind.RELAY_IN)
    ends = (("out", out), ("into", into))
    rows = (
        steps(events)
        .where(out | into)
        .groupBy(*MESSAGE, "hop")
        .agg(
            *(F.count(F.when(which, 1)).alias(f"{name}s") for name, which in ends),
            *(
                F.min(F.when(which, F.col(column))).alias(f"{name}_{column}")
                for name, which in ends
                for column in ("journal", "mono")
            ),
        )
        .where("outs = 1 AND intos = 1")
    )
    for name, _ in ends:
        rows = _with_boot(rows, journals, name)
    way = _way("out", "into")
    return rows.where("out_boot <> into_boot").select(
        *MESSAGE,
        *(column.alias(name) for name, column in way.items()),
        (F.col("into_mono") - F.col("out_mono")).alias("difference"),
    )


def clocks(between: DataFrame) -> DataFrame:
    """Return the offset of `other` against `one` in each window, and its bound.

    `forward`, `back`: the least differences of each direction; null, as offset and
    bound, if no message went that way.
    """
    is_back, difference = F.col("is_back"), F.col("difference")
    forward, back = F.col("forward"), F.col("back")
    return (
        between.groupBy(*WINDOW)
        .agg(
            F.min(F.when(~is_back, difference)).alias("forward"),
            F.min(F.when(is_back, difference)).alias("back"),
            F.count("*").alias("messages"),
        )
        .withColumn("offset_ns", F.floor((forward - back) / 2).cast("bigint"))
        .withColumn("bound_ns", F.ceil((forward + back) / 2).cast("bigint"))
    )


def aligned(transfers: DataFrame, clocks: DataFrame, journals: DataFrame) -> DataFrame:
    """Complete the latencies of messages between boots; `bound_ns` is their error.

    transfers: with `accepted_` and `delivered_`, `journal` and `mono`.
    """
    rows = transfers
    for name in ("accepted", "delivered"):
        rows = _with_boot(rows, journals, name)
    rows = rows.withColumns(_way("accepted", "delivered"))
    offset = F.when(F.col("is_back"), -F.col("offset_ns")).otherwise(F.col("offset_ns"))
    apart = F.col("delivered_mono") - F.col("accepted_mono") - offset
    fits = F.col("clock_bound_ns") >= 0
    known = clocks.select(
        *WINDOW, "offset_ns", F.col("bound_ns").alias("clock_bound_ns")
    )
    differ = F.isnull("latency_ns") & ~F.col("handed_on") & fits
    latency = F.when(differ, apart).otherwise(F.col("latency_ns"))
    return (
        rows.join(F.broadcast(known), list(WINDOW), "left")
        .withColumn("bound_ns", F.when(differ, F.col("clock_bound_ns")))
        .withColumn("latency_ns", latency)
        .select(*transfers.columns)
    )


def _with_boot(rows: DataFrame, journals: DataFrame, name: str) -> DataFrame:
    boots = journals.where("boot <> ''").select("journal", "boot")
    named = boots.toDF(f"{name}_journal", f"{name}_boot")
    return rows.join(F.broadcast(named), f"{name}_journal", "left")


def _way(start: str, end: str) -> dict[str, Column]:
    """Return the columns `WINDOW` and `is_back` for messages between two boots."""
    boots = F.col(f"{start}_boot"), F.col(f"{end}_boot")
    is_back = boots[1] < boots[0]
    times = F.col(f"{start}_mono"), F.col(f"{end}_mono")
    first = F.when(is_back, times[1]).otherwise(times[0])
    return {
        "one": F.least(*boots),
        "other": F.greatest(*boots),
        "window": first - F.pmod(first, F.lit(WINDOW_NS)),
        "is_back": is_back,
    }
