"""Figure T5: the memory of our objects, and the time of an import.

Each is measured in a fresh process: ``python -m benchmarks.memory pairs 10000`` prints
the KiB that tracemalloc counts for each idle connected pair, ``brokers 1000`` those for
each idle broker.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.contest import Contest, Effort, Measure, Row, Values
from benchmarks.figure import OURS
from benchmarks.rivals.our_queue import meet
from queuebroker import BrokerManager, QueueBroker

__all__ = ["contests"]

_LIMIT_S: Final = 300
_GREETING: Final = bytes(64)
_KIB_MAX: Final = {"pair": ("pairs", 10_000, 6.0), "broker": ("brokers", 1_000, 2.0)}
_IMPORT_MAX: Final = 2.0
_IMPORT: Final = """\
from time import perf_counter
start = perf_counter()
import {module}
print((perf_counter() - start) * 1e3)
"""


def contests(effort: Effort) -> list[Contest]:
    """Return T5. A limit is a rival with a constant value, to stay below."""
    made = []
    for case, (what, count, most) in _KIB_MAX.items():
        row = Row("T5", case, "KiB", {"limit": 1.0})
        arguments = ("-m", "benchmarks.memory", what, str(effort.amount(count)))
        limit: Measure = partial(dict, value=most)
        ours: Measure = partial(_asked, *arguments)
        made.append(Contest([row], {OURS: ours, "limit": limit}))
    row = Row("T5", "import", "ms", {"attrs": _IMPORT_MAX})
    modules = {OURS: "queuebroker", "attrs": "attrs"}
    # The warm-up leaves the bytecode, as `pip` does for each package that it installs.
    measures: dict[str, Measure] = {
        name: partial(_asked, "-c", _IMPORT.format(module=module))
        for name, module in modules.items()
    }
    return [*made, Contest([row], measures)]


def _weigh_pairs(count: int) -> float:
    """Return the bytes of one idle pair of default capacity, used once each way."""
    with BrokerManager() as manager:
        host = QueueBroker("host", manager=manager)
        guest = QueueBroker("guest", manager=manager)
        # The first pair pays for shared objects, and the list for its own storage.
        pairs = [_used_pair(host, guest)] * (count + 1)

        def fill() -> None:
            for number in range(1, count + 1):
                pairs[number] = _used_pair(host, guest)

        return _bytes_of(fill) / count


def _weigh_brokers(count: int) -> float:
    """Return the bytes of one idle broker, without its name."""
    with BrokerManager() as manager:
        names = [f"broker {number}" for number in range(count)]
        brokers = [QueueBroker("the first", manager=manager)] * count

        def fill() -> None:
            for number, name in enumerate(names):
                brokers[number] = QueueBroker(name, manager=manager)

        return _bytes_of(fill) / count


def _used_pair(host: QueueBroker, guest: QueueBroker) -> tuple[Any, Any]:
    near, far = meet(host, guest)
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


@functools.cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="bytecode-")


def _asked(*arguments: str) -> Values:
    """Run a fresh interpreter; return the number that it prints.

    Its bytecode is kept even if that is switched off, or the code lies in a checkout.
    """
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
    return {"value": float(answer.stdout)}


if __name__ == "__main__":
    weigh = {"pairs": _weigh_pairs, "brokers": _weigh_brokers}[sys.argv[1]]
    print(weigh(int(sys.argv[2])) / 1024)
