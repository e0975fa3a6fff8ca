"""Gold: the few numbers that the report draws.

The tables of this module are small for any recording: at most `BUCKETS_MAX` moments,
`ROUTES_MAX` pairs of names, `MARKS_MAX` marks, `BINS_PER_OCTAVE` steps of a
distribution, `SCENE_RECORDS_MAX` records around a violation. If there are more pairs of
names, those with a common prefix are merged.

Latencies are counted in bins of geometric width. So one pass of hashing gives the
traffic, every quantile, within 1.1 %, and the whole distribution.

A route is a pair of names and the medium, `QUEUE` or `BUS`. Messages of queues and of a
bus are summed up alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import RecordKind
from bus.journal.rules import SORTS
from bus.journal.wording import AT_PROCESS, reason_name
from bus.model.events import BusReason
from bus.pipeline.bus_silver import HOPS_TIMED, steps
from bus.pipeline.results import OTHERS, ROUTE
from bus.pipeline.schemas import signed
from bus.pipeline.silver import is_kind, of_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from bus.journal.violation import Violation
    from bus.pipeline.rules import Tables

__all__ = [
    "BUS",
    "OTHERS",
    "QUEUE",
    "Scale",
    "closes",
    "depth",
    "distribution",
    "drops",
    "hops",
    "latency",
    "marks",
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
MARKS_MAX: Final = 200
CLOSES_MAX: Final = 20
QUEUE: Final = "queue"
BUS: Final = "bus"

_QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "most": 1.0}
_SENT: Final = (RecordKind.COMMAND, RecordKind.RESPOND, RecordKind.NOTIFY)
_GONE: Final = (RecordKind.DISCARD, RecordKind.UNDELIVERED, RecordKind.IN_DOUBT)
_AMOUNTS: Final = ("sent", "received", "dropped", "bytes")
_MACHINE_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


@attrs.frozen
class Scale:
    """The axis of time: its start on the wall clock, and the width of a bucket."""

    start_us: int
    end_us: int
    width_us: int

    @classmethod
    def of(cls, journals: DataFrame) -> Scale:
        """Return the axis from the first record to the last, in round steps."""
        ends = journals.agg(F.min("first_wall_us"), F.max("last_wall_us")).collect()[0]
        first, last = ends[0] or 0, ends[1] or 0
        least = (last - first) // BUCKETS_MAX + 1
        steps = (step * 10**power for power in range(19) for step in (1, 2, 5))
        return cls(first, last, next(step for step in steps if step >= least))

    def bucket(self) -> Column:
        """Return the start of a message's bucket, by the time of its first record."""
        since = F.col("wall_us") - self.start_us
        return F.col("wall_us") - F.pmod(since, F.lit(self.width_us))


def routes(tables: Tables) -> DataFrame:
    """Return one row for each route shown; `OTHERS` stands for the rest."""
    amounts = ("messages_sent", "messages_received", "dropped", "bytes_sent")
    return (
        _flows(tables)
        .join(_labels(tables), ["via", "sender", "receiver"])
        .groupBy(*ROUTE)
        .agg(
            F.count("*").alias("flows"),
            *(F.sum(name).alias(name) for name in amounts),
            F.max("depth_max").alias("depth_max"),
        )
    )


def profile(tables: Tables, scale: Scale) -> DataFrame:
    """Return messages counted by bucket, shown route and latency bin; used three times.

    `bin` is null for messages without a latency.
    """
    # Clocks of one boot do not run backwards, but two readings may be equal.
    latency = F.greatest(F.col("latency_ns"), F.lit(0))
    bins = F.floor(F.log2(latency + 1) * BINS_PER_OCTAVE).cast("int")
    known = F.when(F.col("latency_ns").isNotNull(), bins)
    sent = F.col("sends") > 0
    return (
        all_messages(tables)
        .join(F.broadcast(_labels(tables)), ["via", "sender", "receiver"])
        .groupBy(scale.bucket().alias("at_us"), *ROUTE, known.alias("bin"))
        .agg(
            F.count(F.when(sent, 1)).alias("sent"),
            F.count(F.when(F.col("receives") > 0, 1)).alias("received"),
            F.count(F.when(F.col("drops") > 0, 1)).alias("dropped"),
            F.sum(F.when(sent, F.col("largest")).otherwise(0)).alias("bytes"),
            F.count("*").alias("messages"),
        )
    )


def traffic(profiles: DataFrame, scale: Scale) -> DataFrame:
    """Return messages and bytes by bucket, `width_us` wide, and shown pair."""
    sums = [F.sum(name).alias(name) for name in _AMOUNTS]
    rows = profiles.groupBy("at_us", *ROUTE).agg(*sums)
    return rows.withColumn("width_us", F.lit(scale.width_us).cast("bigint"))


def latency(profiles: DataFrame) -> DataFrame:
    """Return quantiles from send to receive, in nanoseconds.

    They are given for all messages, by shown pair and by bucket; a column of the
    grouping that is null stands for all.
    """
    quantiles = [
        F.min(F.when(F.col("share") >= share, F.col("latency_ns"))).alias(name)
        for name, share in _QUANTILES.items()
    ]
    total = F.sum("messages").alias("messages")
    return _shares(profiles).groupBy("at_us", *ROUTE).agg(total, *quantiles)


def distribution(profiles: DataFrame) -> DataFrame:
    """Return the share of messages within each latency: of all, by shown pair."""
    rows = _shares(profiles).where("at_us IS NULL")
    return rows.select(*ROUTE, "latency_ns", "share")


def depth(profiles: DataFrame, scale: Scale) -> DataFrame:
    """Return the mean number of messages sent and not yet received, by bucket.

    A message counts from its send to its receive, so one that is never received does
    not count. Its times are those of the profile: the send is in the middle of its
    bucket, and the latency that of its bin. So the figures differ from the exact ones
    by the messages of half a bucket at most.
    """
    width_us = F.lit(scale.width_us).cast("double")
    later = F.col("later") * width_us
    sent_us = width_us / 2
    received_us = sent_us + _latency_ns() / 1000
    shared = F.least(received_us, later + width_us) - F.greatest(sent_us, later)
    last = F.lit((scale.end_us - scale.start_us) // scale.width_us)
    at = F.col("at_us") + F.col("later") * scale.width_us
    return (
        profiles.where("bin IS NOT NULL")
        .withColumn(
            "later",
            F.explode(
                F.sequence(
                    F.lit(0),
                    F.least(F.floor(received_us / width_us), last).cast("int"),
                )
            ),
        )
        .where(at <= scale.end_us)
        .groupBy(at.alias("at_us"), *ROUTE)
        .agg(F.sum(F.col("messages") * shared / width_us).alias("depth"))
    )


def waits(events: DataFrame) -> DataFrame:
    """Return quantiles of the waits of blocked calls, by the operation."""
    what = (
        F.when(is_kind(RecordKind.SEND), "send")
        .when(is_kind(RecordKind.RECEIVE), "receive")
        .when(is_kind(RecordKind.ACCEPT_END), "accept")
        .when(is_kind(RecordKind.CONNECT_END), "connect")
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


def hops(transfers: DataFrame) -> DataFrame:
    """Return the times of bus messages on each part of their route, and counts.

    A notification is on a link once for all its subscribers in a process.
    """
    parts = {
        "to_link_ns": "before the link",
        **{f"hop_{hop}_ns": f"on link {hop}" for hop in range(1, HOPS_TIMED + 1)},
        "from_link_ns": "after the link",
        "latency_ns": "all of it",
    }
    of_parts = F.array(
        *(
            F.struct(
                F.lit(place).alias("place"),
                F.lit(part).alias("part"),
                F.count(column).alias("messages"),
                F.percentile_approx(column, list(_QUANTILES.values()), 1000).alias("q"),
            )
            for place, (column, part) in enumerate(parts.items())
        )
    )
    quantiles = [
        F.col("one.q")[number].alias(name) for number, name in enumerate(_QUANTILES)
    ]
    return (
        transfers.agg(of_parts.alias("parts"))
        .select(F.explode("parts").alias("one"))
        .where("one.messages > 0")
        .select("one.place", "one.part", "one.messages", *quantiles)
        .orderBy("place")
    )


def drops(events: DataFrame, scale: Scale) -> DataFrame:
    """Return messages that will not be received, counted by bucket and reason.

    If several records concern one message, it counts in the bucket of the first.
    """
    of_queue = is_kind(RecordKind.DROP)
    dropped = is_kind(RecordKind.DROP, *_GONE)
    # The columns that identify a message: on a bus `port` is its number at its origin.
    message = [
        F.when(~of_queue, F.col(name)).alias(name)
        for name in ("origin", "flags", "port")
    ]
    first = (
        events.where(dropped)
        .groupBy(
            F.when(of_queue, QUEUE).otherwise(BUS).alias("via"),
            "flow",
            "seq",
            *message,
            F.coalesce("reason", F.lit("?")).alias("reason"),
        )
        .agg(F.min("wall_us").alias("wall_us"))
    )
    return first.groupBy(scale.bucket().alias("at_us"), "via", "reason").agg(
        F.count("*").alias("messages")
    )


def marks(events: DataFrame, journals: DataFrame) -> DataFrame:
    """Return deaths and lost links, the first `MARKS_MAX`: time, name, journal.

    A link that ends because a side has left is not lost. Each process that had a link
    with a dead one records the death, by the name it knew, and the first record counts.
    A journal records a death once under a name: if it has two with one process number,
    the number was used again.
    """
    names = {name: reason_name(getattr(BusReason, name)) for name in ("DIED", "LEFT")}
    died, left = (F.col("reason") == each for each in names.values())
    process = ("died", "boot", "peer", "port")
    named = Window.partitionBy("journal", *process, "task")
    life = F.row_number().over(named.orderBy("n"))
    reports = Window.partitionBy(*process, "life").orderBy("wall_us", "journal", "n")
    return (
        events.where(is_kind(RecordKind.LINK_DOWN))
        .where(F.coalesce(~left, F.lit(True)))
        .join(F.broadcast(journals.select("journal", "boot")), "journal")
        .withColumn("died", F.coalesce(died, F.lit(False)))
        .withColumn("life", life)
        .withColumn("report", F.row_number().over(reports))
        .where("report = 1 OR NOT died")
        .select(
            F.col("wall_us").alias("at_us"),
            F.when(F.col("died"), "death").otherwise("link lost").alias("what"),
            F.coalesce("task", F.lit("?")).alias("name"),
            F.coalesce("reason", F.lit("?")).alias("reason"),
            "journal",
            "n",
        )
        .orderBy("at_us", "journal", "n")
        .limit(MARKS_MAX)
    )


def closes(events: DataFrame) -> DataFrame:
    """Return the first disconnect of each channel, as `marks` returns deaths.

    No rows if there are more than `CLOSES_MAX` channels: then none is an event.
    """
    first = events.where(is_kind(RecordKind.CLOSE_LOCAL) & of_channel())
    rows = first.groupBy("channel").agg(
        F.min(F.struct("wall_us", "task", "peer", "journal", "n")).alias("first")
    )
    peer = F.coalesce("first.peer", F.lit("?"))
    return (
        rows.limit(CLOSES_MAX + 1)
        .withColumn("channels", F.count("*").over(Window.partitionBy()))
        .where(F.col("channels") <= CLOSES_MAX)
        .select(
            F.col("first.wall_us").alias("at_us"),
            F.lit("disconnect").alias("what"),
            F.coalesce("first.task", F.lit("?")).alias("name"),
            F.concat(F.lit("from "), peer).alias("reason"),
            "first.journal",
            "first.n",
        )
    )


def scenes(events: DataFrame, violations: Sequence[Violation]) -> DataFrame:
    """Return the records around some violations of messages, for drawings.

    violations: a few; `scene` is the index into them.
    """
    number = F.explode(F.array_compact(F.array(*_numbered(violations, of_bus=False))))
    of_queues = events.where(
        is_kind(RecordKind.SEND, RecordKind.RECEIVE, RecordKind.DROP)
    ).select(number.alias("scene"), "journal", "n", "kind", "seq", "mono", "size")
    number = F.explode(F.array_compact(F.array(*_numbered(violations, of_bus=True))))
    names = F.col("code")
    kind = (
        F.when(names.isin([int(each) for each in _SENT]), "send")
        .when(names == int(RecordKind.DELIVER), "receive")
        .when(names.isin([int(each) for each in _GONE]), "drop")
    )
    of_bus = (
        steps(events)
        .withColumn("kind", kind)
        .where("kind IS NOT NULL")
        .withColumnsRenamed({"mid": "seq", "destination": "flow"})
        .select(number.alias("scene"), "journal", "n", "kind", "seq", "mono", "size")
    )
    place = F.row_number().over(Window.partitionBy("scene").orderBy("mono", "n"))
    return (
        of_queues.unionByName(of_bus)
        .withColumn("place", place)
        .where(F.col("place") <= SCENE_RECORDS_MAX)
        .drop("place")
    )


def _numbered(violations: Sequence[Violation], *, of_bus: bool) -> list[Column]:
    return [
        F.when(_around(violation), F.lit(number))
        if (violation.origin is not None) is of_bus
        else F.lit(None).cast("int")
        for number, violation in enumerate(violations)
    ] or [F.lit(None).cast("int")]


def _around(violation: Violation) -> Column:
    assert violation.flow is not None
    near = F.abs(F.col("seq") - F.lit(violation.seq)) <= SCENE_REACH
    mine = F.col("flow") == signed(violation.flow)
    itself = [n for n in (violation.n, violation.other_n) if n is not None]
    if violation.origin is None:
        return mine & (near | F.col("n").isin(itself))
    sorts = {name: bits for bits, name in SORTS.items()}
    of_line = (F.col("origin") == signed(violation.origin)) & (
        F.col("sort") == sorts[violation.sort]
    )
    return mine & of_line & (near | F.col("n").isin(itself))


def _shares(profiles: DataFrame) -> DataFrame:
    """Return the latency of each grouping and bin, and the share of messages to it."""
    at, *route, of_bin = (F.col(name) for name in ("at_us", *ROUTE, "bin"))
    counted = (
        profiles.where("bin IS NOT NULL")
        .groupingSets(
            [[at, of_bin], [*route, of_bin], [of_bin]],
            *(at, *route, of_bin),
        )
        .agg(F.sum("messages").alias("messages"))
    )
    grouping = Window.partitionBy("at_us", *ROUTE)
    so_far = grouping.orderBy("bin").rowsBetween(Window.unboundedPreceding, 0)
    messages = F.sum("messages")
    return counted.withColumns(
        {
            "share": messages.over(so_far) / messages.over(grouping),
            "latency_ns": F.round(_latency_ns()).cast("bigint"),
        }
    )


def _latency_ns() -> Column:
    """Return the latency in the middle of a bin."""
    return F.pow(F.lit(2.0), (F.col("bin") + 0.5) / BINS_PER_OCTAVE) - 1


def _flows(tables: Tables) -> DataFrame:
    """Return flows of queues and lines of a bus, alike; those that carried data."""
    amount = "messages_sent + messages_received + bytes_sent + bytes_received"
    columns = (
        *("via", "sender", "receiver", "messages_sent", "messages_received"),
        *("dropped", "bytes_sent", "depth_max"),
    )
    flows = tables.flows.where(f"{amount} > 0").withColumns(
        {name: known(name) for name in ("sender", "receiver")} | {"via": F.lit(QUEUE)}
    )
    flows = flows.select(*columns)
    if tables.lines is None:
        return flows
    of_bus = tables.lines.where("accepted + delivered > 0").select(
        F.lit(BUS).alias("via"),
        *(known(name).alias(name) for name in ("sender", "receiver")),
        F.col("accepted").alias("messages_sent"),
        F.col("delivered").alias("messages_received"),
        "dropped",
        F.col("bytes").alias("bytes_sent"),
        F.lit(None).cast("bigint").alias("depth_max"),
    )
    return flows.unionByName(of_bus)


def all_messages(tables: Tables) -> DataFrame:
    """Return messages of queues and transfers of a bus, alike."""
    columns = (
        *("sends", "receives", "drops", "largest"),
        *("latency_ns", "bound_ns", "wall_us"),
    )
    machines = ("sender_machine", "receiver_machine")
    ends = tables.flows.select(
        "flow",
        F.lit(QUEUE).alias("via"),
        *(known(name).alias(name) for name in ("sender", "receiver")),
        *machines,
    )
    joined = tables.messages.join(F.broadcast(ends), "flow").withColumn(
        "bound_ns", F.lit(None).cast("bigint")
    )
    of_queues = joined.select("via", "sender", "receiver", *machines, *columns)
    if tables.transfers is None:
        return of_queues
    is_gone = F.expr("deliveries = 0 AND explains > 0").cast("int")
    of_bus = tables.transfers.where("NOT handed_on").select(
        F.lit(BUS).alias("via"),
        *(known(name).alias(name) for name in ("sender", "receiver")),
        *machines,
        F.col("accepts").alias("sends"),
        F.col("deliveries").alias("receives"),
        is_gone.alias("drops"),
        F.col("size").alias("largest"),
        *("latency_ns", "bound_ns", "wall_us"),
    )
    return of_queues.unionByName(of_bus)


def known(name: str) -> Column:
    """Return a column of names, with "?" in place of null."""
    return F.coalesce(name, F.lit("?"))


def _prefix(name: str) -> Column:
    """Return the common pattern of similar names: ``worker/*`` for worker/1.

    For a name that several processes use, it is ``_script1 (*)``.
    """
    folder = F.regexp_extract(name, "^(.*/)", 1)
    stem = F.regexp_replace(name, "[0-9]+$", "")
    task = F.regexp_extract(name, r"^(.*) \(.*\)$", 1)
    cut = F.when(folder != "", folder).otherwise(stem)
    return (
        F.when(task != "", F.format_string(AT_PROCESS, task, F.lit("*")))
        .when(cut == F.col(name), cut)
        .otherwise(F.concat(cut, F.lit("*")))
    )


def _labels(tables: Tables) -> DataFrame:
    """Return, for each pair of names and medium, the route that the report shows.

    More than `ROUTES_MAX` are grouped by the prefixes of their names. If there are
    still more, those beyond the `ROUTES_MAX` busiest are `OTHERS`.
    """
    pairs = (
        _flows(tables)
        .groupBy("via", "sender", "receiver")
        .agg(
            F.sum("messages_sent").alias("messages"), F.sum("bytes_sent").alias("bytes")
        )
    )
    names = [F.col("sender"), F.col("receiver")]
    if pairs.limit(ROUTES_MAX + 1).count() > ROUTES_MAX:
        names = [_prefix("sender"), _prefix("receiver")]
    labelled = pairs.withColumns({"source": names[0], "target": names[1]})
    busiest = (
        labelled.groupBy(*ROUTE)
        .agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
        .orderBy(F.desc("messages"), F.desc("bytes"), *ROUTE)
        .limit(ROUTES_MAX)
        .select(*ROUTE, F.lit(True).alias("shown"))
    )
    return labelled.join(F.broadcast(busiest), list(ROUTE), "left").select(
        *("via", "sender", "receiver"),
        *(
            F.when(F.col("shown"), F.col(name)).otherwise(OTHERS).alias(name)
            for name in ("source", "target")
        ),
    )


def on_several_machines(tables: Tables) -> bool:
    """Return True if the journals are of processes on more than one machine."""
    return tables.journals.select("machine").distinct().limit(2).count() > 1


def machines(tables: Tables) -> DataFrame:
    """Return the messages from each machine to each, by medium, and their latencies.

    A message belongs to the machines of its two tasks or brokers, which the journals of
    their processes name.

    `source` and `target` are machines, "?" for one that no journal names. `bound_ns`:
    the greatest error of a latency between two clocks, null if they had one.
    """
    sent, latency = F.col("sends") > 0, F.col("latency_ns")
    quantiles = F.percentile_approx(latency, list(_MACHINE_QUANTILES.values()), 1000)
    return (
        all_messages(tables)
        .groupBy(
            known("sender_machine").alias("source"),
            known("receiver_machine").alias("target"),
            "via",
        )
        .agg(
            F.count(F.when(sent, 1)).alias("sent"),
            F.count(F.when(F.col("receives") > 0, 1)).alias("received"),
            F.count(F.when(F.col("drops") > 0, 1)).alias("dropped"),
            F.coalesce(F.sum(F.when(sent, F.col("largest"))), F.lit(0)).alias("bytes"),
            F.max("bound_ns").alias("bound_ns"),
            quantiles.alias("quantiles"),
        )
        .withColumns(
            {name: F.col("quantiles")[i] for i, name in enumerate(_MACHINE_QUANTILES)}
        )
        .drop("quantiles")
        .orderBy("source", "target", "via")
    )
