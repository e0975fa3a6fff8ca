"""Silver: events -> journals, messages, sessions, flows.

One aggregation makes a message a row, without joining its send to its receive. The key
is the message, so that a busy flow does not burden one task. The aggregates are numbers
only, so that Spark can hash instead of sort. Names and counts come from `tally`, the
only other pass over all events. Clocks are subtracted, never added, and only if they
tick together: one boot of one machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import RecordKind
from bus.journal.wording import INSPECTOR, reason_name
from bus.model.events import BusReason
from queuebroker.observer import SHARED_CHANNELS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["flows", "journals", "messages", "sessions", "tally"]

# The channel records of `bus.journal.rules`, by number.
CHANNEL_KINDS: Final = (int(RecordKind.BIND), int(RecordKind.DROP))

# The records of the bus, except those of its links; the records of its messages.
BUS_KINDS: Final = (int(RecordKind.REGISTER), int(RecordKind.IN_DOUBT))
MESSAGE_KINDS: Final = (int(RecordKind.COMMAND), int(RecordKind.IN_DOUBT))

NAMES_MAX: Final = 9

_DIED: Final = reason_name(BusReason.DIED)


def is_kind(*kinds: RecordKind) -> Column:
    """Return True if the record is of one of the kinds."""
    return F.col("code").isin([int(kind) for kind in kinds])


def is_true(condition: Column | str) -> Column:
    """Return a condition, or column, that is false where it would be null."""
    return F.coalesce(condition, F.lit(False))


def of_channel() -> Column:
    """Return True if the record is a channel record."""
    return F.col("code").between(*CHANNEL_KINDS) & (F.col("channel") != 0)


def tally(events: DataFrame) -> DataFrame:
    """Count events by journal, flow, kind, names and port: small, and made once."""
    # Records of the bus's messages have the message number in place of a port.
    of_bus = F.col("code").between(*MESSAGE_KINDS)
    port = F.when(~of_bus, F.col("port")).alias("port")
    return events.groupBy(
        "journal", "channel", "flow", "code", "task", "peer", port, "reason"
    ).agg(
        F.count("*").alias("records"),
        F.count(F.when(F.col("seq") != 0, 1)).alias("messages"),
        F.sum("size").alias("bytes"),
        F.min("n").alias("first_n"),
        F.max("n").alias("last_n"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
        F.max("depth").alias("depth"),
        F.max("wait_us").alias("wait_us"),
        F.min("mono").alias("first_mono"),
        F.max("mono").alias("last_mono"),
        F.min("wall_us").alias("first_wall_us"),
        F.max("wall_us").alias("last_wall_us"),
    )


def journals(tallies: DataFrame, segments: DataFrame) -> DataFrame:
    """Return one row for each journal: its content, its gaps, its reliability.

    `died`, `complete` and `conclusive` are those of `bus.journal.rules`. `name`: of its
    process on a bus, null for others; `tasks`: the first of its `tasks_total` tasks and
    brokers. A journal without a readable segment has a row too, without records.
    """
    records = tallies.groupBy("journal").agg(
        F.sum("records").alias("records"),
        F.min("first_n").alias("first_n"),
        F.max("last_n").alias("last_n"),
        F.max(is_kind(RecordKind.CLOSE)).alias("closed"),
        F.min("first_mono").alias("first_mono"),
        F.max("last_mono").alias("last_mono"),
        F.min("first_wall_us").alias("first_wall_us"),
        F.max("last_wall_us").alias("last_wall_us"),
        F.min(_process_name()).alias("name"),
        F.slice(F.sort_array(F.collect_set(_own_name())), 1, NAMES_MAX).alias("tasks"),
        F.count_distinct(_own_name()).alias("tasks_total"),
    )
    files = segments.groupBy("journal").agg(
        *(
            F.max(name).alias(name)
            for name in ("machine", "process", "program", "boot")
        ),
        F.count("*").alias("segments"),
        F.max("lost").alias("lost"),
        F.sum("damaged").alias("damaged"),
        F.max("late").alias("late"),
        F.max("begun").alias("begun"),
        F.max("pid").alias("pid"),
    )
    count = F.coalesce("records", F.lit(0)).alias("records")
    closed = F.coalesce("closed", F.lit(False)).alias("closed")
    gaps = F.coalesce(F.expr("last_n - first_n + 1 - records"), F.lit(0)).alias("gaps")
    lacks = F.expr("records = 0 OR first_n > 0 OR gaps > 0 OR lost > 0 OR damaged > 0")
    lossy = F.col("begun") & lacks
    joined = files.join(records, "journal", "left").select(
        *files.columns,
        count,
        closed,
        gaps,
        *records.drop("journal", "records", "closed").columns,
    )
    return (
        _with_deaths(joined, tallies)
        .withColumn("lossy", lossy)
        .withColumn("ended", F.expr("closed OR died"))
        .withColumn("complete", F.expr("ended AND NOT lossy"))
        .withColumn("conclusive", F.expr("complete AND NOT late"))
    )


def _process_name() -> Column:
    """Return the name of a process, taken from that of its inspector."""
    is_inspector = F.startswith(F.col("task"), F.lit(INSPECTOR))
    return F.when(
        is_kind(RecordKind.REGISTER) & is_inspector,
        F.substr("task", F.lit(len(INSPECTOR) + 1)),
    )


def _own_name() -> Column:
    """Return the name of a task or broker of the journal's own process."""
    own = is_kind(RecordKind.REGISTER) | of_channel()
    hidden = F.startswith(F.col("task"), F.lit("_"))
    return F.when(own & ~hidden, F.col("task"))


def _with_deaths(joined: DataFrame, tallies: DataFrame) -> DataFrame:
    """Add `died` to journals: another journal records the death of their process."""
    told = tallies.where(is_kind(RecordKind.LINK_DOWN)).where(F.col("reason") == _DIED)
    if told.isEmpty():  # the usual case, and then nothing need be planned
        return joined.withColumn("died", F.lit(False))
    boots = joined.select(F.col("journal").alias("witness"), "boot")
    deaths = told.select(
        F.col("journal").alias("witness"),
        F.col("port").alias("pid"),
        F.coalesce("peer", F.lit("")).alias("machine"),
        F.col("last_mono").alias("death_mono"),
    ).join(F.broadcast(boots), "witness")
    open_ones = joined.where("NOT closed").select(
        "journal", "pid", "machine", "boot", "last_mono"
    )
    dead = (
        open_ones.join(F.broadcast(deaths), ["pid", "machine", "boot"])
        .where("witness <> journal AND last_mono <= death_mono")
        .select("journal", F.lit(True).alias("dead"))
        .distinct()
    )
    died = F.coalesce("dead", F.lit(False))
    return (
        joined.join(F.broadcast(dead), "journal", "left")
        .withColumn("died", died)
        .drop("dead")
    )


def messages(events: DataFrame, journals: DataFrame) -> DataFrame:
    """Return one row for each (flow, seq): its sends, receives, drops and their times.

    `latency_ns` is from the first send to the first receive, null where the two
    clocks cannot be compared; `wall_us` is the time of the message's first record.
    """
    sent, received = is_kind(RecordKind.SEND), is_kind(RecordKind.RECEIVE)
    dropped = is_kind(RecordKind.DROP)
    carried = sent | received
    facts = [F.count(F.when(sent, 1)).alias("sends")]
    facts += [F.count(F.when(received, 1)).alias("receives")]
    facts += [F.count(F.when(dropped, 1)).alias("drops")]
    facts += [
        F.min(F.when(which, F.col(name))).alias(f"{prefix}_{name}")
        for prefix, which in (("sent", sent), ("received", received))
        for name in ("journal", "n", "mono")
    ]
    facts += [F.min("wall_us").alias("wall_us")]
    facts += [F.min(F.when(carried, F.col("size"))).alias("smallest")]
    facts += [F.max(F.when(carried, F.col("size"))).alias("largest")]
    # Shuffled without a partial sum: a message has two records, so it reduces little,
    # and took twice as long.
    rows = (
        events.where(of_channel() & (F.col("seq") != 0) & (carried | dropped))
        .repartition("flow", "seq")
        .groupBy("channel", "flow", "seq")
        .agg(*facts)
    )
    return _with_latency(rows, journals).withColumn("outcome", _outcome())


def any_died(journals: DataFrame) -> bool:
    """Return True if any journal died; if not, much need not be planned."""
    return not journals.where("died").isEmpty()


def sessions(tallies: DataFrame, events: DataFrame, journals: DataFrame) -> DataFrame:
    """Return one row for each channel: its ends, their meeting, its close, journals.

    `settled`: all its journals are conclusive, and a socket has records of both ends,
    so that a missing record proves that nothing happened. `ended`: all its journals
    have. `died`: one of them did; `sender_died_0` and `sender_died_1`: one did, other
    than the receiver's of the flow to that side. The facts of an end are valid only if
    exactly one accept and one connect ended on the channel.
    """
    ends = tallies.where(of_channel()).join(
        F.broadcast(journals.select("journal", "ended", "died", "conclusive")),
        "journal",
    )
    rows = ends.groupBy("channel").agg(
        *_end_facts("accept", RecordKind.ACCEPT_END),
        *_end_facts("connect", RecordKind.CONNECT_END),
        *_hang_ups(),
        *_names_by_side(),
        (F.min("conclusive") & _is_whole()).alias("settled"),
        F.min("ended").alias("ended"),
        F.max("died").alias("died"),
        *(_dead_senders() if any_died(journals) else _no_dead_senders()),
        F.min("first_mono").alias("first_mono"),
        F.max("last_mono").alias("last_mono"),
    )
    for prefix, kind in (
        ("accept", RecordKind.ACCEPT_BEGIN),
        ("connect", RecordKind.CONNECT_BEGIN),
    ):
        rows = rows.join(_begins(events, kind, prefix), _ticket(prefix), "left")
    met = {
        "acceptor": F.coalesce("accept_task", "connect_peer", "name_0"),
        "connector": F.coalesce("connect_task", "accept_peer", "name_1"),
    }
    return rows.withColumns(met).drop("name_0", "name_1")


def flows(tallies: DataFrame, journals: DataFrame) -> DataFrame:
    """Return one row for each direction of each channel: its ends, amounts and depth.

    `sender_machine`, `receiver_machine`: the machine of a journal with records of that
    side; null if there is none. Counts are of messages. Amounts include the bytes of a
    Channel, which has no messages.
    """
    sent, received = is_kind(RecordKind.SEND), is_kind(RecordKind.RECEIVE)
    written, read = is_kind(RecordKind.WRITE), is_kind(RecordKind.READ)
    dropped, left = is_kind(RecordKind.DROP), is_kind(RecordKind.CLOSE_LOCAL)
    out, into = sent | written, received | read
    sender = F.when(out, F.col("task")).when(into, F.col("peer"))
    receiver = F.when(out, F.col("peer")).when(into, F.col("task"))
    sums = (
        ("sends", sent, "records"),
        ("receives", received, "records"),
        ("messages_sent", sent, "messages"),
        ("messages_received", received, "messages"),
        ("dropped", dropped, "records"),
        ("bytes_sent", out, "bytes"),
        ("bytes_received", into, "bytes"),
    )
    carried = out | into
    rows = tallies.where((F.col("channel") != 0) & (carried | dropped | left)).join(
        F.broadcast(journals.select("journal", "machine")), "journal"
    )
    machine = F.col("machine")
    return rows.groupBy("channel", "flow").agg(
        F.min(sender).alias("sender"),
        F.min(receiver).alias("receiver"),
        F.min(F.when(out, machine)).alias("sender_machine"),
        F.min(F.when(into | left, machine)).alias("receiver_machine"),
        F.min("port").alias("port"),
        *(
            F.coalesce(F.sum(F.when(which, F.col(column))), F.lit(0)).alias(name)
            for name, which, column in sums
        ),
        F.max(F.when(sent, F.col("last_seq"))).alias("last_sent"),
        F.max(F.when(received, F.col("last_seq"))).alias("last_received"),
        F.max(left).alias("receiver_left"),
        F.max(F.when(carried, F.col("depth"))).alias("depth_max"),
        F.min(F.when(carried, F.col("first_mono"))).alias("first_mono"),
        F.max(F.when(carried, F.col("last_mono"))).alias("last_mono"),
    )


def _with_latency(rows: DataFrame, journals: DataFrame) -> DataFrame:
    boots = journals.select("journal", "boot")
    for prefix in ("sent", "received"):
        end_boots = boots.toDF(f"{prefix}_journal", f"{prefix}_boot")
        rows = rows.join(F.broadcast(end_boots), f"{prefix}_journal", "left")
    one_clock = (F.col("sent_journal") == F.col("received_journal")) | (
        F.col("sent_boot") == F.col("received_boot")
    )
    latency = F.when(one_clock, F.col("received_mono") - F.col("sent_mono"))
    return rows.withColumn("latency_ns", latency).drop("sent_boot", "received_boot")


def _outcome() -> Column:
    return (
        F.when(F.col("receives") > 0, "received")
        .when(F.col("drops") > 0, "dropped")
        .otherwise("not received")
    )


def _end_facts(prefix: str, kind: RecordKind) -> list[Column]:
    """Return the fields of one end: those of its ACCEPT_END or CONNECT_END."""
    is_end = is_kind(kind)
    count = F.coalesce(F.sum(F.when(is_end, F.col("records"))), F.lit(0))
    taken = {
        "journal": "journal",
        "n": "first_n",
        "ticket": "first_seq",
        "port": "port",
        "task": "task",
        "peer": "peer",
        "mono": "first_mono",
        "wait_us": "wait_us",
    }
    return [
        count.alias(f"{prefix}s"),
        *(
            F.min(F.when(is_end, F.col(column))).alias(f"{prefix}_{name}")
            for name, column in taken.items()
        ),
    ]


def _hang_ups() -> list[Column]:
    """Return when each side first closed, and when it first saw the other's close."""
    side = F.col("flow").bitwiseAND(1)
    return [
        F.min(F.when(is_kind(kind) & (side == number), F.col("first_mono"))).alias(
            f"{name}_{what}_mono"
        )
        for number, name in enumerate(("acceptor", "connector"))
        for kind, what in (
            (RecordKind.CLOSE_LOCAL, "left"),
            (RecordKind.CLOSE_SEEN, "saw"),
        )
    ]


def _names_by_side() -> list[Column]:
    """Return the names on each side, for channels whose meeting is in no journal."""
    direction = F.col("flow").bitwiseAND(1)
    # The side that does not receive the flow records a send; the other, all else.
    side = F.when(is_kind(RecordKind.SEND), 1 - direction).otherwise(direction)
    spoke = ~is_kind(RecordKind.DROP)  # either side may record a drop
    return [
        F.min(
            F.when(spoke & (side == number), F.col("task")).when(spoke, F.col("peer"))
        ).alias(f"name_{number}")
        for number in (0, 1)
    ]


def _is_whole() -> Column:
    """Return False for a socket of which one end may have no journal here."""
    side = F.col("flow").bitwiseAND(1)
    carried = is_kind(RecordKind.SEND, RecordKind.RECEIVE) & (F.col("messages") > 0)
    acts = carried | is_kind(RecordKind.CLOSE_LOCAL)
    # As in `_names_by_side`.
    actor = F.when(is_kind(RecordKind.SEND), 1 - side).otherwise(side)
    alone = F.min(F.when(acts, actor)) == F.max(F.when(acts, actor))
    local = F.max("channel") < SHARED_CHANNELS
    return local | F.coalesce(~alone, F.lit(False))


def _no_dead_senders() -> list[Column]:
    return [F.lit(False).alias(f"sender_died_{number}") for number in (0, 1)]


def _dead_senders() -> list[Column]:
    """Return, for each flow, if a journal died other than its receiver's."""
    took = is_kind(RecordKind.RECEIVE) & (F.col("messages") > 0)
    received = took | is_kind(RecordKind.CLOSE_LOCAL)
    side = F.col("flow").bitwiseAND(1)
    dead = F.collect_set(F.when(F.col("died"), F.col("journal")))
    return [
        (
            F.size(
                F.array_except(
                    dead,
                    F.collect_set(
                        F.when(received & (side == number), F.col("journal"))
                    ),
                )
            )
            > 0
        ).alias(f"sender_died_{number}")
        for number in (0, 1)
    ]


def _begins(events: DataFrame, kind: RecordKind, prefix: str) -> DataFrame:
    """Return when the call of each ticket began to wait: recorded only if it had to."""
    return (
        events.where(is_kind(kind) & (F.col("seq") != 0))
        .groupBy(
            F.col("journal").alias(f"{prefix}_journal"),
            F.col("seq").alias(f"{prefix}_ticket"),
        )
        .agg(F.min("n").alias(f"{prefix}_begin_n"))
    )


def _ticket(prefix: str) -> list[str]:
    return [f"{prefix}_journal", f"{prefix}_ticket"]
