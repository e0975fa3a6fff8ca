"""The promises of the bus as DataFrame expressions: suspects -> candidates and cases.

`bus.pipeline.rules` calls this module for the rules of the bus, and makes violations of
the candidates. `bus.journal.rules` defines each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.clocks import contradict
from bus.journal.format import RecordKind
from bus.journal.rules import SORTS, Verdict
from bus.model.address import SYSTEM
from bus.pipeline.bus_silver import (
    ACCEPTS,
    LINE,
    MESSAGE,
    is_answer,
    is_notification,
    steps,
)
from bus.pipeline.clocks import WINDOW, between_boots, clocks, several_boots
from bus.pipeline.silver import is_kind, is_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = [
    "Candidates",
    "b1",
    "b2",
    "b3",
    "b4",
    "b5",
    "b6",
    "by_absence",
    "deliveries",
    "sort_name",
]

_FAIL: Final = Verdict.FAIL.value
_UNKNOWN: Final = Verdict.UNKNOWN.value


@attrs.frozen
class Candidates:
    """Rows, with the condition and the facts of each case, place and verdict."""

    rows: DataFrame
    cases: dict[str, tuple[Column, dict[str, Column]]]
    place: dict[str, Column]
    verdict: Column


def b1(suspects: DataFrame) -> Candidates:
    """Return the candidates of B1: messages delivered twice."""
    count = F.size("delivered")
    place = _at(F.col("delivered")[1]) | {"other_n": F.col("delivered")[0]["n"]}
    cases = {"twice": (count > 1, {"count": count})}
    return Candidates(suspects.where(count > 1), cases, place, F.lit(_FAIL))


def b2(suspects: DataFrame, events: DataFrame, journals: DataFrame) -> Candidates:
    """Return those of B2: on a link twice, backwards, or at one end of it only."""
    rows = suspects.where("outs > 0 OR intos > 0")
    early = F.size(F.filter(_crossings(), _is_early)) > 0
    if several_boots(journals):
        by_clocks = _early_by_clocks(between_boots(events, journals))
        rows = rows.join(
            by_clocks.withColumn("by_clocks", F.lit(True)), list(MESSAGE), "left"
        )
        early |= is_true(F.col("by_clocks"))
    again = _repeats("out") | _repeats("into")
    back = F.exists("into", lambda came: F.exists("out", _turns_back(came)))
    lonely = ~F.col("struck")
    foreign = F.size(F.array_except(_hops("into"), _hops("out"))) > 0
    is_unread = F.size(F.array_except(_hops("out"), _hops("into"))) > 0
    unread = is_unread & (F.col("explains") == 0)
    later = F.col("line_arrived")
    cases: dict[str, tuple[Column, dict[str, Column]]] = {
        "again": (again, {}),
        "back": (back, {}),
        "early": (early, {}),
        "foreign": (lonely & foreign, {}),
        "overtaken": (
            lonely & unread & ~is_answer() & (later > F.col("mid")),
            {"other_seq": later},
        ),
        "unexplained": (lonely & unread & ~F.col("ended"), {}),
    }
    verdict = F.when(again | back | early, _FAIL).otherwise(by_absence())
    # By journal and n: a crossing begins with these.
    crossed = F.array_min(F.concat("out", "into"))
    return Candidates(rows, cases, _at(crossed), verdict)


def b3(suspects: DataFrame) -> Candidates:
    """Return those of B3: messages accepted, and neither delivered nor explained."""
    rows = suspects.where(
        "accepts > 0 AND deliveries = 0 AND explains = 0 AND NOT struck"
    )
    later = F.col("line_delivered")
    cases: dict[str, tuple[Column, dict[str, Column]]] = {
        "overtaken": (~is_answer() & (later > F.col("mid")), {"other_seq": later}),
        "unaccounted": (F.col("left"), {}),
        "unexplained": (~F.col("ended"), {}),
    }
    return Candidates(rows, cases, _at(F.col("accepted")), by_absence())


def b4(events: DataFrame, transfers: DataFrame) -> Candidates:
    """Return those of B4: notifications delivered without a subscription."""
    names = (
        events.where(is_kind(RecordKind.REGISTER))
        .groupBy("flow")
        .agg(F.min("task").alias("name"))
        .where("name IS NOT NULL")
    )
    notified = steps(events).where(is_kind(RecordKind.DELIVER) & is_notification())
    to_tasks = notified.join(
        F.broadcast(names.select(F.col("flow").alias("destination"))),
        "destination",
        "left_semi",
    )
    notifiers = F.broadcast(names.withColumnRenamed("flow", "origin"))
    named = to_tasks.join(notifiers, "origin", "left")
    task = ["journal", "destination"]
    wanted = (
        named.select(*task, "origin", "name")
        .distinct()
        .join(F.broadcast(_subscriptions(events)), task)
        .where(_matches())
        .groupBy(*task, "origin")
        .agg(F.collect_list(F.struct("begin", "end")).alias("wanted"))
    )
    n = F.col("n")

    def lasts(one: Column) -> Column:
        return (one["begin"] < n) & (F.isnull(one["end"]) | (one["end"] > n))

    def has_just_ended(one: Column) -> Column:
        ended = (one["begin"] < n) & (one["end"] < n)
        return ended & (one["end"] > F.coalesce("before", F.lit(-1)))

    outside = named.join(F.broadcast(wanted), [*task, "origin"], "left").where(
        ~is_true(F.exists("wanted", lasts))
    )
    # The delivery before is looked up only for tasks with a candidate.
    in_turn = Window.partitionBy(*task).orderBy("n")
    before = (
        to_tasks.join(outside.select(*task).distinct(), task, "left_semi")
        .withColumn("before", F.lag("n").over(in_turn))
        .select(*task, "n", "before")
    )
    rows = (
        outside.join(before, [*task, "n"])
        .where(~is_true(F.exists("wanted", has_just_ended)))
        .join(transfers.select(*MESSAGE, "settled", "sender", "receiver"), [*MESSAGE])
    )
    place = {name: F.col(name) for name in ("journal", "n", "mono")} | _message()
    return Candidates(rows, {"unsubscribed": (F.lit(True), {})}, place, by_absence())


def _subscriptions(events: DataFrame) -> DataFrame:
    """Return each SUBSCRIBE, with the record of its end, null if it has none."""
    key = ["journal", "flow", "port"]
    ends = (
        events.where(is_kind(RecordKind.UNSUBSCRIBE))
        .groupBy(*key)
        .agg(F.min("n").alias("end"))
    )
    begins = events.where(is_kind(RecordKind.SUBSCRIBE)).join(ends, key, "left")
    return begins.select(
        "journal",
        F.col("flow").alias("destination"),
        F.col("n").alias("begin"),
        "end",
        F.col("task").alias("pattern"),
    )


def _matches() -> Column:
    """Return True unless pattern and name are known and exclude one another."""
    parts = F.split("pattern", "/")

    def expression(part: Column) -> Column:
        # A literal part may hold the end of a quotation.
        quoted = F.replace(part, F.lit("\\E"), F.lit("\\E\\\\E\\Q"))
        return (
            F.when(part == "**", "(?:/[^/]+)*")
            .when(part == "*", "/[^/]+")
            .otherwise(F.concat(F.lit("/\\Q"), quoted, F.lit("\\E")))
        )

    pattern = F.concat(
        F.lit("\\A"), F.array_join(F.transform(parts, expression), ""), F.lit("\\z")
    )
    is_reserved = F.startswith("name", F.lit(f"{SYSTEM}/"))
    fits = F.regexp(F.concat(F.lit("/"), "name"), pattern)
    fits &= ~is_reserved | (parts[0] == SYSTEM)
    return F.coalesce(fits, F.lit(True))  # null if one of the two is not known


def deliveries(events: DataFrame) -> DataFrame:
    """Return the records DELIVER of anything but answers, `mid` as `seq`."""
    rows = steps(events).where(is_kind(RecordKind.DELIVER) & ~is_answer())
    return rows.withColumn("seq", F.col("mid")).select(
        *MESSAGE, "journal", "n", "mono", "seq"
    )


def b5(overtaken: DataFrame, lines: DataFrame) -> Candidates:
    """Return those of B5, out of order; ``overtaken`` are those of `deliveries`."""
    names = lines.select(*LINE, "sender", "receiver")
    rows = overtaken.join(F.broadcast(names), list(LINE))
    cases = {"overtaken": (F.lit(True), {"other_seq": F.col("other_seq")})}
    place = {name: F.col(name) for name in ("journal", "n", "mono", "other_n")}
    return Candidates(rows, cases, place | _message(), F.lit(_FAIL))


def b6(events: DataFrame, journals: DataFrame, lines: DataFrame) -> Candidates:
    """Return those of B6: records of messages for tasks that were not registered."""
    boots = F.broadcast(journals.select("journal", "boot"))
    registers = events.where(is_kind(RecordKind.REGISTER)).join(boots, "journal")
    starts = (
        registers.where("boot <> ''")
        .groupBy(F.col("flow").alias("destination"), "boot")
        .agg(F.min("mono").alias("start"))
    )
    ends = (
        events.where(is_kind(RecordKind.DEREGISTER))
        .groupBy(F.col("flow").alias("destination"), "journal")
        .agg(F.min("n").alias("end"))
    )
    early = is_true(F.col("mono") < F.col("start"))
    late = is_true(F.col("n") > F.col("end")) & ~is_answer()
    rows = (
        steps(events)
        .where(is_kind(*ACCEPTS, RecordKind.DELIVER))
        .join(boots, "journal")
        .join(F.broadcast(starts), ["destination", "boot"], "left")
        .join(F.broadcast(ends), ["destination", "journal"], "left")
        .where(early | late)
        .join(F.broadcast(lines.select(*LINE, "sender", "receiver")), list(LINE))
    )
    place = {name: F.col(name) for name in ("journal", "n", "mono")} | _message()
    place["other_n"] = F.when(~early, F.col("end"))
    return Candidates(
        rows, {"early": (early, {}), "late": (late, {})}, place, F.lit(_FAIL)
    )


def sort_name() -> Column:
    """Return the sort of the row's message, for people."""
    names = [F.when(F.col("sort") == bits, name) for bits, name in SORTS.items()]
    return F.coalesce(*names)


def by_absence() -> Column:
    """Return the verdict on a missing record: certain if no journal may lack it."""
    return F.when(F.col("settled"), _FAIL).otherwise(_UNKNOWN)


def _at(place: Column) -> dict[str, Column]:
    """Return the columns of a violation that locate it and identify its message."""
    return {name: place[name] for name in ("journal", "n", "mono")} | _message()


def _message() -> dict[str, Column]:
    return {"flow": F.col("destination"), "seq": F.col("mid")}


def _hops(crossings: str) -> Column:
    return F.transform(crossings, lambda one: one["hop"])


def _repeats(crossings: str) -> Column:
    """Return True if two have one hop, or one journal."""
    journals = F.transform(crossings, lambda one: one["journal"])
    distinct = [F.size(F.array_distinct(each)) for each in (_hops(crossings), journals)]
    return F.least(*distinct) < F.size(crossings)


def _crossings() -> Column:
    """Return the write and the read of each hop that has one of each."""

    def alone(crossings: str, one: Column) -> Column:
        same = F.filter(crossings, lambda other: other["hop"] == one["hop"])
        return F.size(same) == 1

    def reads(went: Column) -> Column:
        came = F.filter(
            "into",
            lambda one: (
                (one["hop"] == went["hop"]) & alone("out", went) & alone("into", one)
            ),
        )
        return F.transform(came, lambda one: F.struct(went.alias("o"), one.alias("i")))

    return F.flatten(F.transform("out", reads))


def _is_early(crossing: Column) -> Column:
    """Return True if a crossing within one boot was read before it was written."""
    boot = crossing["o"]["boot"]
    one_clock = (boot != "") & (boot == crossing["i"]["boot"])
    return is_true(one_clock & (crossing["i"]["mono"] < crossing["o"]["mono"]))


def _early_by_clocks(between: DataFrame) -> DataFrame:
    """Return the messages with an early crossing between two boots."""
    is_back, difference = F.col("is_back"), F.col("difference")
    refuted = clocks(between).where(contradict(F.col("forward"), F.col("back")))
    of_other_way = F.when(is_back, F.col("forward")).otherwise(F.col("back"))
    wrong = between.join(F.broadcast(refuted), list(WINDOW)).where(
        contradict(difference, of_other_way)
    )
    counts = wrong.groupBy(*WINDOW).agg(
        F.count(F.when(~is_back, 1)).alias("forwards"),
        F.count(F.when(is_back, 1)).alias("backs"),
    )
    fewer = F.when(is_back, F.col("backs") <= F.col("forwards")).otherwise(
        F.col("forwards") <= F.col("backs")
    )
    named = wrong.join(F.broadcast(counts), list(WINDOW)).where(fewer)
    return named.select(*MESSAGE).distinct()


def _turns_back(came: Column) -> Callable[[Column], Column]:
    """Return a test: the message left where it arrived, under a hop not greater."""

    def turned(went: Column) -> Column:
        here = came["journal"] == went["journal"]
        return here & (came["n"] < went["n"]) & (went["hop"] <= came["hop"])

    return turned
