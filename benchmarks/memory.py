"""The memory of our objects and the time of an import, each in a fresh process.

``python -m benchmarks.memory pairs 10000`` prints the bytes that tracemalloc counts
for each idle connected pair, ``brokers 1000`` those for each idle broker.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
from typing import TYPE_CHECKING

from benchmarks.ours import meet
from queuebroker import BrokerManager, MessageQueue, QueueBroker

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["import_ms", "kib_each", "weigh_brokers", "weigh_pairs"]

_LIMIT_S = 300
_GREETING = bytes(64)

_IMPORT = """\
from time import perf_counter
start = perf_counter()
import {module}
print((perf_counter() - start) * 1e3)
"""


def kib_each(what: str, count: int) -> float:
    """Measure ``count`` of ``what`` ("pairs" or "brokers"); return KiB for each."""
    return _ask("-m", "benchmarks.memory", what, str(count)) / 1_024


def import_ms(module: str) -> float:
    """Import ``module`` in a fresh interpreter; return milliseconds.

    The bytecode exists before the measured import, as `pip` leaves it for every package
    that it installs. An earlier import writes it, even if that is switched off or the
    module lies in a checkout. Otherwise one side would pay for the compiler.
    """
    _warm(module)
    return _ask("-c", _IMPORT.format(module=module))


@functools.cache
def _warm(module: str) -> None:
    _ask("-c", _IMPORT.format(module=module))


@functools.cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bytecode-")


def weigh_pairs(count: int) -> float:
    """Return the bytes of one idle pair of default capacity, used once each way."""
    with BrokerManager() as manager:
        host = QueueBroker("host", manager=manager)
        guest = QueueBroker("guest", manager=manager)
        # The first pair pays for shared objects, and the list for its own storage.
        first = _used_pair(host, guest)
        pairs: list[tuple[MessageQueue, MessageQueue] | None] = [None] * count

        def fill() -> None:
            for number in range(count):
                pairs[number] = _used_pair(host, guest)

        each = _bytes_of(fill) / count
        for pair in (first, *pairs):
            for end in pair or ():
                end.close()
    return each


def weigh_brokers(count: int) -> float:
    """Return the bytes of one idle broker, without its name."""
    with BrokerManager() as manager:
        names = [f"broker {number}" for number in range(count)]
        brokers: list[QueueBroker | None] = [None] * count
        first = QueueBroker("the first", manager=manager)

        def fill() -> None:
            for number, name in enumerate(names):
                brokers[number] = QueueBroker(name, manager=manager)

        each = _bytes_of(fill) / count
        first.close()
    return each


def _used_pair(
    host: QueueBroker, guest: QueueBroker
) -> tuple[MessageQueue, MessageQueue]:
    near, far = meet(host, guest, port=0)
    for sender, receiver in ((near, far), (far, near)):
        sender.send(_GREETING)
        receiver.receive()
    return near, far


def _bytes_of(fill: Callable[[], None]) -> int:
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    fill()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def _ask(*arguments: str) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": _bytecode().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    answer = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_LIMIT_S,
    )
    return float(answer.stdout)


if __name__ == "__main__":
    weigh = {"pairs": weigh_pairs, "brokers": weigh_brokers}[sys.argv[1]]
    print(weigh(int(sys.argv[2])))
