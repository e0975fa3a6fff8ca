"""Silver, of the bus: events -> transfers.

A transfer is one message for one destination, with everything that the rules ask of it:
its own records, how far others of its line came, and whether what is missing can have
been lost. One aggregation over the message, as for messages of channels; what is joined
to it is small, but for its lines.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from bus.journal.format import Flag, Kind
from bus.pipeline.silver import BUS_KINDS, is_kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["LINE", "MESSAGE", "any_of_bus", "is_answer", "steps", "transfers"]

LINE: Final = ("origin", "sort", "destination")
MESSAGE: Final = (*LINE, "mid")

_ACCEPTS: Final = (Kind.COMMAND, Kind.RESPOND, Kind.NOTIFY)
_EXPLAINS: Final = (Kind.DISCARD, Kind.UNDELIVERED, Kind.IN_DOUBT)
_STEPS: Final = (
    *_ACCEPTS,
    *_EXPLAINS,
    *(Kind.RELAY_OUT, Kind.RELAY_IN, Kind.EXTRACT, Kind.DELIVER),
)


def any_of_bus(tallies: DataFrame) -> bool:
    """Whether anything of a bus was recorded: if not, much need not be planned."""
    return not tallies.where(F.col("code").between(*BUS_KINDS)).isEmpty()


def steps(events: DataFrame) -> DataFrame:
    """The records of messages of the bus, under the names of what they mean there."""
    return events.where(is_kind(*_STEPS)).select(
        "origin",
        F.col("flags").bitwiseAND(int(Flag.MULTICAST | Flag.ANSWER)).alias("sort"),
        F.col("flow").alias("destination"),
        F.col("port").alias("mid"),
        *("journal", "n", "mono", "code", "hop"),
    )


def is_answer() -> Column:
    """Whether the row is of an answer."""
    return F.col("sort").bitwiseAND(int(Flag.ANSWER)) != 0


def transfers(events: DataFrame, tallies: DataFrame, journals: DataFrame) -> DataFrame:
    """One row for each (origin, sort, mid, destination): how it went, and how sure.

    `struck` and `explained` are those of `bus.journal.rules`; `settled`: what is not
    there did not happen; `ended`: all journals of the bus have. `line_delivered`,
    `line_arrived`: the greatest `mid` of its line that was delivered, was read from a
    link.
    """
    place, crossing = F.struct("journal", "n", "mono"), F.struct("journal", "n", "hop")
    out, into = is_kind(Kind.RELAY_OUT), is_kind(Kind.RELAY_IN)
    delivered = F.collect_list(F.when(is_kind(Kind.DELIVER), place))
    rows = (
        steps(events)
        .groupBy(*MESSAGE)
        .agg(
            F.min(F.when(is_kind(*_ACCEPTS), place)).alias("accepted"),
            F.sort_array(delivered).alias("delivered"),
            F.min(F.when(out | into, place)).alias("crossed"),
            F.collect_list(F.when(out, crossing)).alias("out"),
            F.collect_list(F.when(into, crossing)).alias("into"),
            F.max(is_kind(*_EXPLAINS)).alias("explained"),
            F.collect_set("journal").alias("journals"),
        )
    )
    lines = rows.groupBy(*LINE).agg(
        _greatest(F.size("delivered") > 0).alias("line_delivered"),
        _greatest(F.size("into") > 0).alias("line_arrived"),
    )
    tasks = _tasks(tallies)
    of_bus = (
        tallies.where(F.col("code").between(*BUS_KINDS)).select("journal").distinct()
    )
    whole = journals.join(of_bus, "journal").agg(
        F.collect_list(F.when(F.col("died"), F.col("journal"))).alias("dead"),
        F.min("conclusive").alias("conclusive"),
        F.min("ended").alias("ended"),
    )
    joined = (
        rows.join(lines, list(LINE))
        .join(
            F.broadcast(tasks.toDF("origin", "homes", "sender", "_")), "origin", "left"
        )
        .join(
            F.broadcast(tasks.toDF("destination", "to_homes", "receiver", "left")),
            "destination",
            "left",
        )
        .crossJoin(F.broadcast(whole))
    )
    homes = [F.col(name) for name in ("homes", "to_homes")]
    overlaps = [
        F.coalesce(F.arrays_overlap("dead", places), F.lit(False))
        for places in (F.col("journals"), *homes)
    ]
    known = [F.coalesce(F.size(each) > 0, F.lit(False)) for each in homes]
    return joined.withColumns(
        {
            "struck": reduce(or_, overlaps),
            "settled": F.col("conclusive") & known[0] & known[1],
            "left": F.coalesce("left", F.lit(False)),
        }
    ).drop("journals", "homes", "to_homes", "dead", "conclusive", "_")


def _tasks(tallies: DataFrame) -> DataFrame:
    """Each registration: where it is at home, its name, whether it left."""
    registers = is_kind(Kind.REGISTER)
    both = tallies.where(registers | is_kind(Kind.DEREGISTER))
    return both.groupBy("flow").agg(
        F.collect_set(F.when(registers, F.col("journal"))),
        F.min(F.when(registers, F.col("task"))),
        F.max(is_kind(Kind.DEREGISTER)),
    )


def _greatest(which: Column) -> Column:
    """The greatest `mid` of those, 0 if there are none."""
    return F.coalesce(F.max(F.when(which, F.col("mid"))), F.lit(0))
