"""The promises as DataFrame expressions: tables -> would-be violations.

`bus.journal.rules` defines each rule, predicate by predicate; this module defines only
how Spark decides it, and knows nothing of the other checker. A rule is one function of
the tables that finds candidates and defines, for each case of the rule, its condition
and its facts. It uses filters, hashes and one window: every rule is linear, and none
brings rows to the driver.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import SHARED_FLOWS, RecordKind
from bus.journal.rules import RULES, Basis, Verdict
from bus.pipeline.bus_rules import (
    b1,
    b2,
    b3,
    b4,
    b5,
    b6,
    by_absence,
    deliveries,
    sort_name,
)
from bus.pipeline.bus_silver import LINE, is_notification, suspects
from bus.pipeline.silver import any_died, is_kind, is_true, of_channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, WindowSpec

    from bus.pipeline.bus_rules import Candidates

__all__ = ["CHUNK_RECORDS", "Tables", "overtaken", "violations"]

# A window takes the receives of one flow in one task. Above this many, it is cut into
# pieces of the journal, which would double the cost for shorter flows.
FLOW_RECEIVES_MAX: Final = 5_000_000
CHUNK_RECORDS: Final = 262_144

_PLACE: Final = ("flow", "seq", "n", "journal", "mono", "other_n", "origin")
_NAMES: Final = ("sort", "sender", "receiver")
_Cases = dict[str, tuple["Column", dict[str, "Column"]]]


@attrs.frozen
class Tables:
    """The tables that the rules read: bronze and silver.

    transfers, lines: None if no traffic of a bus was recorded.
    """

    events: DataFrame
    journals: DataFrame
    messages: DataFrame
    sessions: DataFrame
    flows: DataFrame
    transfers: DataFrame | None = None
    lines: DataFrame | None = None


def violations(
    tables: Tables, *, flow_receives_max: int = FLOW_RECEIVES_MAX
) -> DataFrame:
    """Return every would-be violation of every rule, with its verdict, FAIL or UNKNOWN.

    flow_receives_max: receives of one flow, or deliveries of one line of a bus, above
      which Q2 and B5 work piece by piece.
    """
    rules: Mapping[str, Callable[[Tables], DataFrame]] = {
        "Q1": _q1,
        "Q2": lambda given: _q2(given, flow_receives_max),
        "Q3": _q3,
        "Q4": _q4,
        "Q5": _q5,
        "Q6": _q6,
        "Q7": _q7,
        "Q8": _q8,
    }
    found = _j1(tables)
    for rule in rules.values():
        found = found.unionByName(rule(tables))
    if tables.transfers is not None:
        for name, given in _of_bus(tables, flow_receives_max).items():
            place = given.place | {"sort": sort_name()}
            rows = _found(name, given.rows, given.cases, place, given.verdict)
            found = found.unionByName(rows)
    return _judged(found, tables.sessions)


def overtaken(
    receives: DataFrame,
    chunk_records: int | None = None,
    flow_columns: Sequence[str] = ("flow",),
) -> DataFrame:
    """Return the receives that came after a later message of their flow.

    That message is `other_seq`, `other_n`: the one with the greatest number.

    receives: journal, n, seq, ``flow_columns`` and any other columns.
    chunk_records: cut each flow into pieces of this many record numbers, and carry the
      greatest number of all earlier pieces into each; None to take flows whole.
    flow_columns: the columns that identify a flow.
    """
    flow = [*flow_columns, "journal"]
    if chunk_records is None:
        window = _before(Window.partitionBy(*flow).orderBy("n"))
        marked = receives.withColumns(
            {
                "other_seq": F.max("seq").over(window),
                "other_n": F.max_by("n", "seq").over(window),
            }
        )
        return marked.where("seq < other_seq")
    cut = receives.withColumn("piece", F.expr(f"n div {chunk_records}"))
    in_piece = _before(Window.partitionBy(*flow, "piece").orderBy("n"))
    earlier_pieces = _before(Window.partitionBy(*flow).orderBy("piece"))
    # A struct is compared by its first field first.
    top = F.max(F.struct("seq", "n"))
    carried = (
        cut.groupBy(*flow, "piece")
        .agg(top.alias("top"))
        .select(*flow, "piece", F.max("top").over(earlier_pieces).alias("carried"))
    )
    # greatest() ignores nulls: a piece may have nothing before it.
    other = F.greatest("carried", top.over(in_piece))
    return (
        cut.join(carried, [*flow, "piece"])
        .withColumn("other", other)
        .withColumns({"other_seq": F.col("other.seq"), "other_n": F.col("other.n")})
        .where("seq < other_seq")
        .drop("piece", "carried", "other")
    )


def _j1(tables: Tables) -> DataFrame:
    facts = {name: F.col(name) for name in ("damaged", "lost", "gaps")}
    facts |= {"first": F.col("first_n"), "last": F.col("last_n")}
    cases: _Cases = {
        "damaged": (F.col("damaged") > 0, facts),
        "unbegun": (~F.col("begun"), {}),
        "empty": (F.col("records") == 0, {}),
        "lost": (F.col("lost") > 0, facts),
        "gaps": (F.col("gaps") > 0, facts),
        "beginning": (F.col("first_n") > 0, facts),
        "open": (~F.col("ended"), {}),
    }
    broken = F.when(F.col("damaged") > 0, Verdict.FAIL.value)
    verdict = broken.otherwise(Verdict.UNKNOWN.value)
    place = {"n": F.col("last_n"), "mono": F.col("last_mono")}
    return _found("J1", tables.journals, cases, place, verdict)


def _q1(tables: Tables) -> DataFrame:
    one_journal = F.col("accept_journal") == F.col("connect_journal")
    accept_late = F.col("accept_begin_n") > F.col("connect_n")
    connect_late = F.col("connect_begin_n") > F.col("accept_n")
    cases: _Cases = {
        "count": (
            (F.col("accepts") != 1) | (F.col("connects") != 1),
            {name: F.col(name) for name in ("accepts", "connects")},
        ),
        "port": (
            F.col("accept_port") != F.col("connect_port"),
            {name: F.col(name) for name in ("accept_port", "connect_port")},
        ),
        "names": (
            _differ("accept_task", "connect_peer")
            | _differ("accept_peer", "connect_task"),
            {
                "a_task": F.col("accept_task"),
                "a_peer": F.col("accept_peer"),
                "c_task": F.col("connect_task"),
                "c_peer": F.col("connect_peer"),
            },
        ),
        "interval": (
            one_journal & (is_true(accept_late) | is_true(connect_late)),
            {"late": F.when(accept_late, "accept").otherwise("connect")},
        ),
    }
    place = {
        "flow": F.shiftleft("channel", 1),
        "n": F.coalesce("accept_n", "connect_n"),
        "journal": F.coalesce("accept_journal", "connect_journal"),
        "mono": F.coalesce("accept_mono", "connect_mono", "first_mono"),
    }
    # The process was killed between the two records.
    halves = F.col("died") & (F.col("accepts") + F.col("connects") == 1)
    return _found("Q1", tables.sessions.where(~halves), cases, place)


def _q2(tables: Tables, flow_receives_max: int) -> DataFrame:
    chunk_records = _chunk(tables.flows, "messages_received", flow_receives_max)
    cases: _Cases = {"overtaken": (F.lit(True), {"other_seq": F.col("other_seq")})}
    return _found("Q2", overtaken(_receives(tables), chunk_records), cases)


def _q3(tables: Tables) -> DataFrame:
    repeated = tables.messages.where("receives > 1").select("flow", "seq", "receives")
    times = F.sort_array(F.collect_list(F.struct("journal", "n", "mono")))
    each = _receives(tables).join(repeated, ["flow", "seq"])
    rows = each.groupBy("flow", "seq", "receives").agg(times.alias("times"))
    place = {name: F.col("times")[1][name] for name in ("journal", "n", "mono")}
    place["other_n"] = F.col("times")[0]["n"]
    cases: _Cases = {"twice": (F.lit(True), {"count": F.col("receives")})}
    return _found("Q3", rows, cases, place)


def _q4(tables: Tables) -> DataFrame:
    foreign = tables.messages.where("receives > 0 AND sends = 0")
    if not any_died(tables.journals):
        always: _Cases = {"foreign": (F.lit(True), {})}
        return _found("Q4", foreign, always, _first("received"))
    last_sent = F.coalesce("last_sent", F.lit(0))
    # A sender that died may have completed one send without recording it.
    under_way = _sender_died() & (F.col("seq") == last_sent + 1)
    rows = foreign.join(tables.flows.select("flow", "last_sent"), "flow", "left").join(
        _deaths(tables), "channel"
    )
    cases: _Cases = {"foreign": (~under_way, {})}
    return _found("Q4", rows, cases, _first("received"))


def _q5(tables: Tables) -> DataFrame:
    missing = tables.messages.where("sends > 0 AND receives = 0 AND drops = 0")
    rows = missing.join(
        tables.flows.select("flow", "last_received", "receiver_left"), "flow"
    ).join(_deaths(tables), "channel")
    last = F.col("last_received")
    cases: _Cases = {
        "overtaken": (last > F.col("seq"), {"other_seq": last}),
        "unaccounted": (F.col("receiver_left") & ~_sender_died(), {}),
        "unexplained": (~F.col("ended"), {}),
    }
    return _found("Q5", rows, cases, _first("sent"))


def _q6(tables: Tables) -> DataFrame:
    rows = tables.messages.where("sends = 1 AND receives = 1")
    for end in ("sent", "received"):
        boots = tables.journals.select("journal", "boot")
        rows = rows.join(
            F.broadcast(boots.toDF(f"{end}_journal", f"{end}_boot")), f"{end}_journal"
        )
    early = F.when(
        F.col("sent_journal") == F.col("received_journal"),
        F.col("received_n") < F.col("sent_n"),
    ).when(
        # Where a boot is unknown, the condition is null: neither holds.
        F.col("sent_boot") == F.col("received_boot"),
        F.col("received_mono") < F.col("sent_mono"),
    )
    place = _first("received") | {"other_n": F.col("sent_n")}
    return _found("Q6", rows, {"early": (is_true(early), {})}, place)


def _q7(tables: Tables) -> DataFrame:
    direction = F.col("flow").bitwiseAND(1)
    ends = (
        tables.events.where(is_kind(RecordKind.CLOSE_LOCAL) & of_channel())
        .groupBy("journal", "channel")
        .agg(
            F.min(F.when(direction == 0, F.col("n"))).alias("end_0"),
            F.min(F.when(direction == 1, F.col("n"))).alias("end_1"),
        )
    )
    carried = is_kind(RecordKind.SEND, RecordKind.RECEIVE) & of_channel()
    columns = ["journal", "channel", "flow", "seq", "n", "mono", "code"]
    rows = tables.events.where(carried).select(*columns).join(ends, columns[:2])
    # end(r.flow) and end(r.flow ^ 1) of the predicate.
    receiver = F.when(direction == 0, F.col("end_0")).otherwise(F.col("end_1"))
    sender = F.when(direction == 0, F.col("end_1")).otherwise(F.col("end_0"))
    after_receiver = is_true(F.col("n") > receiver)
    after_sender = is_true(F.col("n") > sender)
    cases: _Cases = {
        "received": (is_kind(RecordKind.RECEIVE) & after_receiver, {}),
        "sent": (is_kind(RecordKind.SEND) & after_sender, {}),
        "accepted": (
            is_kind(RecordKind.SEND) & after_receiver & (F.col("flow") < SHARED_FLOWS),
            {},
        ),
    }
    by_sender = is_kind(RecordKind.SEND) & after_sender
    place = {"other_n": F.when(by_sender, sender).otherwise(receiver)}
    return _found("Q7", rows, cases, place)


def _q8(tables: Tables) -> DataFrame:
    differ = F.expr("sends > 0 AND receives > 0 AND smallest <> largest")
    facts = {name: F.col(name) for name in ("smallest", "largest")}
    return _found("Q8", tables.messages, {"size": (differ, facts)}, _first("received"))


def _of_bus(tables: Tables, line_deliveries_max: int) -> dict[str, Candidates]:
    assert tables.transfers is not None
    assert tables.lines is not None
    chunk_records = _chunk(tables.lines, "deliveries", line_deliveries_max)
    late = overtaken(deliveries(tables.events), chunk_records, LINE)
    candidates = {
        "B5": b5(late, tables.lines),
        "B6": b6(tables.events, tables.journals, tables.lines),
    }
    if not tables.lines.where(is_notification() & (F.col("delivered") > 0)).isEmpty():
        candidates["B4"] = b4(tables.events, tables.transfers)
    # Usually there are none, and then Spark need not plan the rules.
    if not tables.transfers.where("suspect").isEmpty():
        chosen = suspects(tables.events, tables.transfers, tables.journals)
        candidates |= {
            "B1": b1(chosen),
            "B2": b2(chosen, tables.events, tables.journals),
            "B3": b3(chosen),
        }
    return candidates


def _chunk(rows: DataFrame, counted: str, most: int) -> int | None:
    """Return the length of a piece, None if no row counts more than ``most``."""
    busiest = rows.agg(F.max(counted)).collect()[0][0] or 0
    return CHUNK_RECORDS if busiest > most else None


def _before(ordered: WindowSpec) -> WindowSpec:
    """Return the window of all rows before the current one."""
    return ordered.rowsBetween(Window.unboundedPreceding, -1)


def _receives(tables: Tables) -> DataFrame:
    """Return the message records RECEIVE."""
    which = is_kind(RecordKind.RECEIVE) & of_channel() & (F.col("seq") != 0)
    return tables.events.where(which).select("journal", "flow", "n", "seq", "mono")


def _found(
    rule: str,
    candidates: DataFrame,
    cases: _Cases,
    place: Mapping[str, Column] | None = None,
    verdict: Column | None = None,
) -> DataFrame:
    """Return the candidates to which one of the rule's cases applies, as violations.

    place: the sources of a violation's columns, if not the columns of that name.
    verdict: None if the rule's basis and the journals of the channel decide.
    """
    definition = RULES[rule]
    case, explanation = F.lit(None).cast("string"), F.lit(None).cast("string")
    # Backwards, so that the first case that holds takes precedence.
    for name in reversed(list(definition.cases)):
        holds, facts = cases[name]
        case = F.when(holds, F.lit(name)).otherwise(case)
        text = _text(definition.cases[name], facts)
        explanation = F.when(holds, text).otherwise(explanation)
    if verdict is None and definition.basis is Basis.PRESENCE:
        verdict = F.lit(Verdict.FAIL.value)
    place = dict(place or {})
    for name in (*_PLACE, *_NAMES):
        present = F.col(name) if name in candidates.columns else F.lit(None)
        place.setdefault(name, present)
    return candidates.select(
        F.lit(rule).alias("rule"),
        (F.lit(None) if verdict is None else verdict).cast("string").alias("verdict"),
        case.alias("case"),
        explanation.alias("explanation"),
        *(place[name].cast("bigint").alias(name) for name in _PLACE),
        *(place[name].cast("string").alias(name) for name in _NAMES),
    ).where("case IS NOT NULL")


def _judged(found: DataFrame, sessions: DataFrame) -> DataFrame:
    """Decide violations by absence, from the journals of their channel; add names."""
    ends = sessions.select(
        "channel",
        "settled",
        "acceptor",
        "connector",
        F.coalesce("accept_port", "connect_port").alias("port"),
    )
    to_acceptor = F.col("flow").bitwiseAND(1) == 0
    one, other = F.col("acceptor"), F.col("connector")
    names = {
        "sender": F.coalesce("sender", F.when(to_acceptor, other).otherwise(one)),
        "receiver": F.coalesce("receiver", F.when(to_acceptor, one).otherwise(other)),
    }
    channel = F.shiftrightunsigned("flow", 1)
    return (
        found.withColumn("channel", F.when(F.isnull("origin"), channel))
        .join(ends, "channel", "left")
        .select(
            "rule",
            F.coalesce("verdict", by_absence()).alias("verdict"),
            "case",
            "explanation",
            *_PLACE,
            *(column.alias(name) for name, column in names.items()),
            "port",
            "sort",
        )
    )


def _deaths(tables: Tables) -> DataFrame:
    """Return how the journals of each channel ended."""
    return tables.sessions.select("channel", "ended", "sender_died_0", "sender_died_1")


def _sender_died() -> Column:
    """Return True if the sender of the row's flow died."""
    to_acceptor = F.col("flow").bitwiseAND(1) == 0
    return F.when(to_acceptor, F.col("sender_died_0")).otherwise(F.col("sender_died_1"))


def _first(prefix: str) -> dict[str, Column]:
    """Return the place of a message: its first send, or its first receive."""
    return {name: F.col(f"{prefix}_{name}") for name in ("journal", "n", "mono")}


def _differ(one: str, other: str) -> Column:
    """Return True if two names are both known and differ."""
    known = is_true(F.col(one) != "") & is_true(F.col(other) != "")
    return known & (F.col(one) != F.col(other))


def _text(template: str, facts: Mapping[str, Column]) -> Column:
    """Return `str.format` as an expression."""
    parts: list[Column] = []
    for literal, field, _, _ in string.Formatter().parse(template):
        parts.append(F.lit(literal))
        if field is not None:
            parts.append(F.coalesce(facts[field].cast("string"), F.lit("")))
    return F.concat(*parts)
