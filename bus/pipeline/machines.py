"""Gold, of machines: how many messages went from each machine to each.

A message belongs to the machines of its two tasks or brokers, which the journals of
their processes name. It has one row for queues and one for the bus, as in `gold`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.pipeline.gold import all_messages, known

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bus.pipeline.rules import Tables

__all__ = ["machines", "on_several_machines"]

_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}


def on_several_machines(tables: Tables) -> bool:
    """Return True if the journals are of processes on more than one machine."""
    return tables.journals.select("machine").distinct().limit(2).count() > 1


def machines(tables: Tables) -> DataFrame:
    """Return the messages from each machine to each, by medium, and their latencies.

    `source` and `target` are machines, "?" for one that no journal names.
    """
    sent, latency = F.col("sends") > 0, F.col("latency_ns")
    quantiles = F.percentile_approx(latency, list(_QUANTILES.values()), 1000)
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
            quantiles.alias("quantiles"),
        )
        .withColumns({name: F.col("quantiles")[i] for i, name in enumerate(_QUANTILES)})
        .drop("quantiles")
        .orderBy("source", "target", "via")
    )
