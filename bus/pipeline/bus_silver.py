"""Silver, of the bus: events -> transfers, lines, suspects.

A transfer is one message for one destination: counts, minima and maxima only, so that
Spark can hash instead of sort. These suffice to show that a message took a regular
route. The few others are suspects, and only their records are listed. A line is the
traffic from one task to another, as a flow is that of a channel.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import Flag, RecordKind
from bus.journal.wording import AT_PROCESS, ON_MACHINE, PID, PROCESS
from bus.pipeline.silver import BUS_KINDS, any_died, is_kind, is_true

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "ACCEPTS",
    "HOPS_TIMED",
    "LINE",
    "MESSAGE",
    "any_of_bus",
    "is_answer",
    "is_notification",
    "lines",
    "steps",
    "suspects",
    "transfers",
]

LINE: Final = ("origin", "sort", "destination")
MESSAGE: Final = (*LINE, "mid")

# Two processes of one machine are one link apart, those of two machines three links.
HOPS_TIMED: Final = 3

ACCEPTS: Final = (RecordKind.COMMAND, RecordKind.RESPOND, RecordKind.NOTIFY)
_EXPLAINS: Final = (RecordKind.DISCARD, RecordKind.UNDELIVERED, RecordKind.IN_DOUBT)
_STEPS: Final = (
    *ACCEPTS,
    *_EXPLAINS,
    *(
        RecordKind.RELAY_OUT,
        RecordKind.RELAY_IN,
        RecordKind.EXTRACT,
        RecordKind.DELIVER,
    ),
)


def any_of_bus(tallies: DataFrame) -> bool:
    """Return True if a bus was recorded; if not, much need not be planned."""
    return not tallies.where(F.col("code").between(*BUS_KINDS)).isEmpty()


def steps(events: DataFrame) -> DataFrame:
    """Return the records of messages of the bus, columns renamed by their meaning."""
    return events.where(is_kind(*_STEPS)).select(
        "origin",
        F.col("flags").bitwiseAND(int(Flag.NOTIFICATION | Flag.ANSWER)).alias("sort"),
        F.col("flow").alias("destination"),
        F.col("port").alias("mid"),
        *("journal", "n", "mono", "code", "hop", "size", "wall_us"),
    )


def is_answer() -> Column:
    """Return True if the row is of an answer."""
    return F.col("sort").bitwiseAND(int(Flag.ANSWER)) != 0


def is_notification() -> Column:
    """Return True if the row is of a notification, and not of an answer to one."""
    return F.col("sort") == int(Flag.NOTIFICATION)


def transfers(events: DataFrame, tallies: DataFrame, journals: DataFrame) -> DataFrame:
    """Return one row for each (origin, sort, mid, destination): outcome and times.

    `struck` is that of `bus.journal.rules`; `settled`: no record of it is missing;
    `ended`: all journals of the bus have ended; `left`: its destination left;
    `registered`: a journal holds the registration of its destination.
    `suspect`: it may break B1, B2 or B3, see `suspects`. `sender_machine` and
    `receiver_machine`: the machines of their processes, null if no journal has them.
    `handed_on`: a notification that reached a process; the deliveries to its
    subscribers have rows of their own, so this one is no delivery.

    `latency_ns` is from the first accept to the first delivery, null if the two have
    different clocks: `bus.pipeline.clocks.aligned` completes it. `to_link_ns` and
    `from_link_ns` are its parts before the first and after the last link, and
    `hop_1_ns` and so on the time on each link; null where clocks cannot be compared.
    A notification to another process was accepted where its sender is: the row of the
    process has its times up to the last link, and those of the subscribers the others.
    """
    accepted, delivered = is_kind(*ACCEPTS), is_kind(RecordKind.DELIVER)
    out, into = is_kind(RecordKind.RELAY_OUT), is_kind(RecordKind.RELAY_IN)
    crossed = out | into
    mono = F.col("mono")
    facts = [
        F.count(F.when(which, 1)).alias(name)
        for name, which in (
            ("accepts", accepted),
            ("deliveries", delivered),
            ("outs", out),
            ("intos", into),
            ("explains", is_kind(*_EXPLAINS)),
        )
    ]
    facts += [
        F.min(F.when(accepted, mono)).alias("accepted_mono"),
        F.min(F.when(delivered, mono)).alias("delivered_mono"),
        F.min(F.when(out, mono)).alias("out_mono"),
        F.max(F.when(into, mono)).alias("into_mono"),
        F.min(F.when(out, F.col("hop"))).alias("out_hop"),
        F.min(F.when(into, F.col("hop"))).alias("into_hop"),
        F.min(F.when(out, F.col("journal"))).alias("out_journal"),
        F.min(F.when(into, F.col("journal"))).alias("into_journal"),
        F.min(F.when(accepted, F.col("journal"))).alias("accepted_journal"),
        F.min(F.when(delivered, F.col("journal"))).alias("delivered_journal"),
        F.min(F.when(accepted, F.col("hop"))).alias("accepted_hop"),
        F.max(F.when(accepted | crossed, F.col("size"))).alias("size"),
        F.min("wall_us").alias("wall_us"),
        F.min("clock").alias("first_clock"),
        F.max("clock").alias("last_clock"),
    ]
    for hop in range(1, HOPS_TIMED + 1):
        at = F.col("hop") == hop
        facts += [
            F.min(F.when(out & at, mono)).alias(f"out_{hop}"),
            F.min(F.when(into & at, mono)).alias(f"into_{hop}"),
        ]
    if died := any_died(journals):
        facts.append(F.max("is_dead").alias("passed_dead"))
    # Shuffled without a partial sum: the records of a message are in many journals.
    # Without the destination, so that all of a notification is in one partition.
    rows = (
        steps(events)
        .join(F.broadcast(_clocks(journals)), "journal")
        .repartition("origin", "sort", "mid")
        .groupBy(*MESSAGE)
        .agg(*facts)
    )
    tasks = F.broadcast(_tasks(tallies, journals))
    joined = (
        rows.join(
            tasks.toDF(
                *("origin", "known", "home_dead", "sender", "_", "sender_machine"),
                "__",
            ),
            "origin",
            "left",
        )
        .join(
            tasks.toDF(
                *("destination", "to_known", "to_dead", "receiver", "left"),
                *("receiver_machine", "to_process"),
            ),
            "destination",
            "left",
        )
        .crossJoin(F.broadcast(_whole(tallies, journals)))
    )
    struck = ["passed_dead", "home_dead", "to_dead"] if died else []
    settled = [F.col("conclusive"), is_true("known"), is_true("to_known")]
    facts_of_rules = {
        "struck": reduce(or_, map(is_true, struck), F.lit(False)),
        "settled": settled[0] & settled[1] & settled[2],
        "left": is_true("left"),
        "registered": is_true("to_known"),
    }
    handed_on = is_true("to_process") & (F.col("deliveries") > 0)
    joined = joined.withColumn("handed_on", handed_on)
    if not tallies.where(is_kind(RecordKind.NOTIFY)).isEmpty():
        joined = _timed_from_their_sender(joined)
    return (
        joined.withColumns(facts_of_rules)
        .withColumn("suspect", _suspect())
        .withColumns(_latencies())
        .select(
            *MESSAGE,
            *("sender", "receiver", "sender_machine", "receiver_machine"),
            *("accepts", "deliveries", "outs", "intos"),
            *("explains", "size", "wall_us", "suspect", *facts_of_rules, "ended"),
            *("to_process", "handed_on", "accepted_journal", "delivered_journal"),
            *("accepted_mono", "delivered_mono", *_latencies()),
            F.lit(None).cast("bigint").alias("bound_ns"),
        )
    )


def lines(transfers: DataFrame) -> DataFrame:
    """Return one row for each line: its messages, their outcomes, their bytes.

    A message that was `handed_on` counts only in the lines to its subscribers, except
    in `relayed`, `found` and `deliveries`. `line_delivered`, `line_arrived`: the
    greatest `mid` that was delivered, or was read from a link.
    """
    delivered, arrived = F.col("deliveries") > 0, F.col("intos") > 0
    accepted = (F.col("accepts") > 0) & ~F.col("handed_on")
    found = (F.col("accepts") > 0) | delivered
    return transfers.groupBy(*LINE).agg(
        F.min("sender").alias("sender"),
        F.min("receiver").alias("receiver"),
        F.max(is_true("to_process")).alias("to_process"),
        F.max("registered").alias("registered"),
        F.count(F.when(F.col("registered") & found, 1)).alias("found"),
        F.count(F.when(accepted, 1)).alias("accepted"),
        F.count(F.when(delivered & ~F.col("handed_on"), 1)).alias("delivered"),
        F.count(F.when((F.col("outs") > 0) | arrived, 1)).alias("relayed"),
        F.count(F.when(~delivered & (F.col("explains") > 0), 1)).alias("dropped"),
        F.sum("deliveries").alias("deliveries"),
        F.coalesce(F.sum(F.when(accepted, F.col("size"))), F.lit(0)).alias("bytes"),
        _greatest(delivered).alias("line_delivered"),
        _greatest(arrived).alias("line_arrived"),
    )


def suspects(events: DataFrame, transfers: DataFrame, journals: DataFrame) -> DataFrame:
    """Return the suspects among the transfers, with their records and their lines.

    `accepted`: the place of the first accept; `delivered`: all deliveries; `out`,
    `into`: all writes to links and reads from them, with the boot of each journal.
    """
    chosen = transfers.where("suspect")
    place = F.struct("journal", "n", "mono")
    crossing = F.struct("journal", "n", "hop", "mono", "boot")
    lists = (
        steps(events)
        .join(chosen.select(*MESSAGE), list(MESSAGE), "left_semi")
        .join(F.broadcast(journals.select("journal", "boot")), "journal")
        .groupBy(*MESSAGE)
        .agg(
            F.min(F.when(is_kind(*ACCEPTS), place)).alias("accepted"),
            F.sort_array(
                F.collect_list(F.when(is_kind(RecordKind.DELIVER), place))
            ).alias("delivered"),
            F.collect_list(F.when(is_kind(RecordKind.RELAY_OUT), crossing)).alias(
                "out"
            ),
            F.collect_list(F.when(is_kind(RecordKind.RELAY_IN), crossing)).alias(
                "into"
            ),
        )
    )
    reach = lines(transfers).select(*LINE, "line_delivered", "line_arrived")
    return chosen.join(lists, list(MESSAGE)).join(reach, list(LINE))


def _suspect() -> Column:
    """Return True if B1, B2 or B3 may be broken; all other transfers keep all three.

    For B2, a message is regular if it was on no link, or on one: written to it in one
    place, read from it later in another, under one hop and by one clock.
    """
    repeated = F.col("deliveries") > 1
    lost = F.expr("accepts > 0 AND deliveries = 0 AND explains = 0") & ~F.col("struck")
    on_no_link = F.expr("outs = 0 AND intos = 0")
    on_one_link = F.expr(
        "outs = 1 AND intos = 1 AND out_hop = into_hop AND out_journal <> into_journal"
        " AND first_clock = last_clock AND out_mono <= into_mono"
    )
    return repeated | lost | ~(on_no_link | on_one_link)


def _latencies() -> dict[str, Column]:
    one_clock = F.col("first_clock") == F.col("last_clock")

    def between(start: str, end: str) -> Column:
        return F.when(one_clock, F.col(end) - F.col(start))

    def to_task(start: str) -> Column:
        return F.when(~F.col("handed_on"), between(start, "delivered_mono"))

    return {
        "latency_ns": to_task("accepted_mono"),
        "to_link_ns": between("accepted_mono", "out_mono"),
        "from_link_ns": to_task("into_mono"),
        **{
            f"hop_{hop}_ns": between(f"out_{hop}", f"into_{hop}")
            for hop in range(1, HOPS_TIMED + 1)
        },
    }


def _timed_from_their_sender(rows: DataFrame) -> DataFrame:
    """Add to notifications that another process handed on the times of their route.

    The journal in which a process accepts them for its subscribers is the one in which
    it got them. A way that is in no journal leaves no latency.
    """
    handed_on = F.col("handed_on")
    is_copy = (F.col("sort") == int(Flag.NOTIFICATION)) & (F.col("accepted_hop") > 0)
    place = F.when(handed_on, F.col("delivered_journal")).when(
        is_copy, F.col("accepted_journal")
    )
    way = Window.partitionBy("origin", "sort", "mid", place)

    def of_way(name: str) -> Column:
        return F.min(F.when(handed_on, F.col(name))).over(way)

    times = (
        *("accepted_mono", "accepted_journal", "into_mono"),
        *("first_clock", "last_clock"),
    )
    timed = {name: of_way(name) for name in times}
    timed["wall_us"] = F.coalesce(of_way("wall_us"), "wall_us")
    return rows.withColumns(
        {
            name: F.when(is_copy, time).otherwise(F.col(name))
            for name, time in timed.items()
        }
    )


def _clocks(journals: DataFrame) -> DataFrame:
    """Return, for each journal, the number of its clock (one per boot) and `died`."""
    return journals.select(
        "journal",
        F.xxhash64(F.coalesce("boot", "process")).alias("clock"),
        F.col("died").alias("is_dead"),
    )


def _whole(tallies: DataFrame, journals: DataFrame) -> DataFrame:
    """Return the state of all journals of the bus together, in one row."""
    of_bus = (
        tallies.where(F.col("code").between(*BUS_KINDS)).select("journal").distinct()
    )
    return journals.join(of_bus, "journal").agg(
        F.min("conclusive").alias("conclusive"), F.min("ended").alias("ended")
    )


def _tasks(tallies: DataFrame, journals: DataFrame) -> DataFrame:
    """Return each registration with its home, death, name, end and machine.

    The last column is true for a registration without a name: that of a process, for
    notifications on their way. A name that several processes use is shown with the
    process, and a process name that several machines use with the machine.
    """
    registers = is_kind(RecordKind.REGISTER)
    of_pid = F.format_string(PID, F.coalesce(F.col("pid").cast("string"), F.lit("?")))
    both = tallies.where(registers | is_kind(RecordKind.DEREGISTER)).join(
        F.broadcast(
            journals.select(
                *("journal", "died", "machine"),
                F.coalesce("name", of_pid).alias("process"),
            )
        ),
        "journal",
    )
    on_machine = F.format_string(ON_MACHINE, "machine", "process")
    process = F.when(_differs("machine", "process"), on_machine)
    at_process = F.format_string(AT_PROCESS, "task", "process")
    name = (
        F.when(F.isnull("task"), F.format_string(PROCESS, "process"))
        .when(_differs("process", "task"), at_process)
        .otherwise(F.col("task"))
    )
    return (
        both.withColumn("process", process.otherwise(F.col("process")))
        .withColumn("shown", name)
        .groupBy("flow")
        .agg(
            F.max(registers),
            F.max(registers & F.col("died")),
            F.min(F.when(registers, F.col("shown"))),
            F.max(is_kind(RecordKind.DEREGISTER)),
            F.min(F.when(registers, F.col("machine"))),
            F.max(registers) & F.isnull(F.min(F.when(registers, F.col("task")))),
        )
    )


def _differs(value: str, within: str) -> Column:
    """Return True if a column has several values in rows equal in another one."""
    rows = Window.partitionBy(within)
    return F.min(value).over(rows) != F.max(value).over(rows)


def _greatest(which: Column) -> Column:
    """Return the greatest `mid` of those rows, 0 if there are none."""
    return F.coalesce(F.max(F.when(which, F.col("mid"))), F.lit(0))
