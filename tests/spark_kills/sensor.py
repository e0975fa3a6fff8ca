"""A process that records numbered notifications until it is killed or terminated."""

from __future__ import annotations

import itertools
import signal
import sys
import time

from bus.journal.writer import Journal
from bus.testing import memory_bus


def main(folder: str) -> None:
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    with Journal(folder, payloads=True) as journal, memory_bus(journal=journal) as bus:
        assert journal.folder is not None
        for _ in range(2):
            bus.subscribe("sensor", lambda _: None)
        sensor = bus.register("sensor")
        print("started", flush=True)
        for number in itertools.count():
            if ended:
                break
            sensor.notify(f"{journal.folder.name}/{number}")
            time.sleep(0.02)  # the rate of the sensor


if __name__ == "__main__":
    main(sys.argv[1])
