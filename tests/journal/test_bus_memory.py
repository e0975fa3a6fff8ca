"""Memory that the small checker keeps per message until all is read."""

from __future__ import annotations

import tracemalloc

import pytest

from bus.journal.bus_traffic import BusTraffic
from bus.journal.flow import Counts, Flow
from bus.journal.format import Record, RecordKind

MESSAGES = 5000
KEPT_MAX = 300  # objects took 1,000 to 1,500


@pytest.mark.deep
def test_a_message_that_arrived_takes_no_more_than_its_packed_records() -> None:
    """A million messages on links are a fifth of a gigabyte."""
    traffic = BusTraffic()
    nothing = dict.fromkeys(Record._fields, 0)
    steps = {
        5: [(RecordKind.COMMAND, 0), (RecordKind.RELAY_OUT, 1)],
        6: [(RecordKind.RELAY_IN, 1), (RecordKind.EXTRACT, 1), (RecordKind.DELIVER, 1)],
    }

    tracemalloc.start()
    try:
        for journal, of_one in steps.items():
            for mid in range(1, MESSAGES + 1):
                for n, (kind, hop) in enumerate(of_one, start=mid * len(of_one)):
                    fields = {"kind": int(kind), "hop": hop, "n": n, "mid": mid}
                    fields |= {"mono": 10**15 + n, "origin": 2**40, "flow": 2**41}
                    traffic.take(journal, Record(**nothing | fields), "")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept / MESSAGES < KEPT_MAX
    counts = {"B1": MESSAGES, "B2": MESSAGES, "B3": MESSAGES, "B5": MESSAGES}
    assert traffic.checked() == counts | {"B4": 0, "B6": 0}


def test_a_message_of_a_channel_that_arrived_in_its_turn_takes_only_its_size() -> None:
    """Records kept as objects take several hundred bytes."""
    flow = Flow(2)

    tracemalloc.start()
    try:
        for seq in range(1, MESSAGES + 1):
            flow.send(seq, 8, 1, 2 * seq, 10**15)
            flow.receive(seq, 8, 1, 2 * seq + 1, 10**15)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept / MESSAGES < 16
    assert flow.counts() == Counts(MESSAGES, MESSAGES, MESSAGES)
