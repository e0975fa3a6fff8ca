"""The subscriber whose callback is reached last, for each task that notifies others.

The time from the last link to the callback is the subscriber's own: its process was
busy, or earlier messages were in its inbox.

Run: python examples/spark/slowest_subscriber.py RESULTS
"""

import sys

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import Flag
from bus.pipeline import open_run

run = open_run(sys.argv[1])
notification = int(Flag.NOTIFICATION)
own_ns = F.coalesce("from_link_ns", "latency_ns")
waits = (
    run.transfers.where(f"sort = {notification} AND deliveries > 0 AND NOT handed_on")
    .groupBy("sender", "receiver")
    .agg(F.median(own_ns).alias("median_ns"), F.count("*").alias("messages"))
)
by_sender = Window.partitionBy("sender").orderBy(F.desc("median_ns"))
slowest = waits.withColumn("place", F.row_number().over(by_sender)).where("place = 1")
for row in slowest.orderBy("sender").collect():
    delay = f"{row['median_ns'] / 1000:.0f} microseconds after its arrival"
    print(f"{row['sender']}: {row['receiver']} is slowest, {delay} (median)")
