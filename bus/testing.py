"""A whole bus inside one test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bus.api.bus import Bus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.config import BusConfig

__all__ = ["memory_bus"]


@contextmanager
def memory_bus(
    name: str = "bus1",
    *,
    process: str = "process",
    machine: str = "machine",
    config: BusConfig | None = None,
) -> Iterator[Bus]:
    """Give a bus that nobody else is on, and close it at the end.

    Another one of the same name may be open at the same time: nothing of it is known
    outside, so no address on another bus leads to it either. The names of process and
    machine are the same on every run. A program under `queuebroker.testing.explore`
    makes its own in each run.

    Raises:
        ValueError: a name is not legal (BUS-NAME-6).
    """
    with Bus(name, process=process, machine=machine, config=config) as bus:
        yield bus
