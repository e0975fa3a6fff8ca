"""A task without traffic uses little memory, measured as in S1."""

from __future__ import annotations

import tracemalloc
from typing import Final

from bus.testing import memory_bus
from tests.kit.tasks import ignore

TASKS: Final = 500
BYTES_MAX: Final = 2048


def test_an_idle_task_takes_no_more_than_2_kib() -> None:
    # The least: a cache of other code may grow meanwhile.
    assert min(_bytes_of_a_task() for _ in range(3)) <= BYTES_MAX


def _bytes_of_a_task() -> float:
    with memory_bus() as bus:
        here = bus.here()
        bus.register("first", thread=here, on_command=ignore)  # shared by all tasks
        here.poll()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(TASKS):
                bus.register(f"task{number}", thread=here, on_command=ignore)
            here.poll()  # opens each of them
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    return (after - before) / TASKS
