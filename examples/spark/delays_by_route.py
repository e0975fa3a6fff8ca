"""The delays of messages on a bus, for each pair of tasks, in microseconds.

Run: python examples/spark/delays_by_route.py RESULTS
"""

import sys

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.pipeline import open_run

run = open_run(sys.argv[1])
# Without the rows of processes, which hand a notification on to their subscribers.
delivered = run.transfers.where("deliveries > 0 AND NOT handed_on")
delays = delivered.groupBy("sender", "receiver").agg(
    F.count("*").alias("messages"),
    *(
        F.percentile_approx(F.col("latency_ns") / 1000, share).alias(name)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    ),
)
for row in delays.orderBy("sender", "receiver").collect():
    sender, receiver, messages, *quantiles = row
    print(sender, "->", receiver, messages, *(f"{each:.0f}" for each in quantiles))
