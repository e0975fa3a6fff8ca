"""The promises of the bus as DataFrame expressions: suspects -> candidates and cases.

`bus.pipeline.rules` calls this module for B1, B2, B3 and B5, and makes violations of
the candidates. `bus.journal.rules` defines each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import RecordKind
from bus.journal.rules import SORTS, Verdict
from bus.pipeline.bus_silver import LINE, MESSAGE, is_answer, steps
from bus.pipeline.silver import is_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["Candidates", "b1", "b2", "b3", "b5", "deliveries", "sort_name"]

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


def b2(suspects: DataFrame) -> Candidates:
    """Return those of B2: on a link twice, backwards, or at one end of it only."""
    rows = suspects.where("outs > 0 OR intos > 0")
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
        "foreign": (lonely & foreign, {}),
        "overtaken": (
            lonely & unread & ~is_answer() & (later > F.col("mid")),
            {"other_seq": later},
        ),
        "unexplained": (lonely & unread & ~F.col("ended"), {}),
    }
    verdict = F.when(again | back, _FAIL).otherwise(_settled())
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
    return Candidates(rows, cases, _at(F.col("accepted")), _settled())


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


def sort_name() -> Column:
    """Return the sort of the row's message, for people."""
    names = [F.when(F.col("sort") == bits, name) for bits, name in SORTS.items()]
    return F.coalesce(*names)


def _settled() -> Column:
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


def _turns_back(came: Column) -> Callable[[Column], Column]:
    """Return a test: the message left where it arrived, under a hop not greater."""

    def turned(went: Column) -> Column:
        here = came["journal"] == went["journal"]
        return here & (came["n"] < went["n"]) & (went["hop"] <= came["hop"])

    return turned
