"""The messages of a bus that were in flight when a process died.

The last record of its journal is the last known moment of a dead process. Only messages
that were accepted on its machine are compared: other machines have other clocks. A
notification to a process without a journal here, such as ``bus record``, is left out:
its delivery is not on record.

Run: python examples/spark/in_flight_at_death.py RESULTS
"""

import sys

from pyspark.sql import functions as F  # noqa: N812 - the customary alias

from bus.journal.format import Flag
from bus.journal.rules import SORTS
from bus.pipeline import open_run

run = open_run(sys.argv[1])
dead = run.journals.where("died").select(
    F.col("name").alias("process"), "machine", "boot", F.col("last_mono").alias("at")
)
senders = run.journals.select(
    F.col("journal").alias("accepted_journal"), "machine", "boot"
)
notification = F.col("sort").bitwiseAND(int(Flag.NOTIFICATION)) != 0
on_record = ~F.col("handed_on") & (F.col("registered") | ~notification)
accepted = run.transfers.where(on_record).join(senders, "accepted_journal")
in_flight = accepted.join(dead, ["machine", "boot"]).where(
    "accepted_mono <= at AND (delivered_mono IS NULL OR delivered_mono > at)"
)
for row in in_flight.orderBy("process", "accepted_mono").collect():
    if row["deliveries"]:
        end = "delivered later"
    else:
        end = "dropped, for a recorded reason" if row["explains"] else "never delivered"
    message = (
        f"{SORTS[row['sort']]} {row['mid']} of {row['sender']} -> {row['receiver']}"
    )
    print(f"{row['process']} died: {message}: {end}")
