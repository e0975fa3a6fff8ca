"""The verdict on each rule, and the counts on which it is based.

The head of `bus.journal.rules` defines the decision. Only counts reach the driver: a
few numbers for each rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.rules import RULES, RuleVerdict, Verdict
from bus.journal.wording import counted
from bus.pipeline.bus_silver import is_answer, is_notification

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from bus.pipeline.rules import Tables

__all__ = ["verdicts"]


def verdicts(tables: Tables, violations: DataFrame) -> tuple[RuleVerdict, ...]:
    """Return one verdict for each rule, in their order."""
    rows = violations.groupBy("rule", "verdict").agg(F.count("*").alias("found"))
    found = {(row["rule"], row["verdict"]): row["found"] for row in rows.collect()}
    checked = _checked(tables)
    lossy = tables.journals.where("lossy").count()
    return tuple(
        _verdict(
            rule,
            checked[rule],
            found.get((rule, Verdict.FAIL.value), 0),
            found.get((rule, Verdict.UNKNOWN.value), 0),
            lossy,
        )
        for rule in RULES
    )


def _checked(tables: Tables) -> dict[str, int]:
    """Return the number of units checked by each rule."""
    sent, received = F.col("sends") > 0, F.col("receives") > 0
    messages = _only(
        tables.messages.agg(
            F.count(F.when(sent, 1)).alias("sent"),
            F.count(F.when(received, 1)).alias("received"),
            F.count(F.when(sent & received, 1)).alias("both"),
        )
    )
    records = _only(
        tables.flows.agg(
            F.sum("messages_received").alias("receives"),
            F.sum(F.col("sends") + F.col("receives")).alias("both"),
        )
    )
    return {
        "J1": tables.journals.count(),
        "Q1": tables.sessions.count(),
        "Q2": records["receives"] or 0,
        "Q3": messages["received"],
        "Q4": messages["received"],
        "Q5": messages["sent"],
        "Q6": messages["both"],
        "Q7": records["both"] or 0,
        "Q8": messages["both"],
        **_checked_of_bus(tables),
    }


def _checked_of_bus(tables: Tables) -> dict[str, int]:
    if tables.lines is None:
        return dict.fromkeys(("B1", "B2", "B3", "B4", "B5", "B6"), 0)
    sums = ("delivered", "relayed", "accepted", "found")
    to_task = F.col("registered") & ~F.col("to_process")
    counts = _only(
        tables.lines.agg(
            *(F.sum(name).alias(name) for name in sums),
            F.sum(F.when(is_notification() & to_task, F.col("deliveries"))).alias(
                "notified"
            ),
            F.sum(
                F.when(~is_answer() & ~F.col("to_process"), F.col("deliveries"))
            ).alias("deliveries"),
        )
    )
    return {
        "B1": counts["delivered"] or 0,
        "B2": counts["relayed"] or 0,
        "B3": counts["accepted"] or 0,
        "B4": counts["notified"] or 0,
        "B5": counts["deliveries"] or 0,
        "B6": counts["found"] or 0,
    }


def _verdict(
    rule: str, checked: int, violated: int, unknown: int, lossy: int
) -> RuleVerdict:
    verdict, why = Verdict.PASS, ""
    if violated:
        verdict = Verdict.FAIL
    elif unknown:
        verdict = Verdict.UNKNOWN
        why = f"{unknown} cannot be judged: a journal is open or missing"
    elif lossy:
        verdict = Verdict.UNKNOWN
        lacking = counted(lossy, "journal")
        why = f"records of {lacking} are missing; a violation may be among them"
    elif not checked:
        verdict = Verdict.NOTHING
    return RuleVerdict(rule, verdict, checked, violated, unknown, why)


def _only(summary: DataFrame) -> Row:
    """Return the single row of an aggregate over everything."""
    return summary.collect()[0]
