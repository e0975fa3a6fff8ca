"""A whole bus inside one test: one process, several, or several machines.

::

    from bus.testing import memory_bus

    with memory_bus() as bus:
        bus.register("echo", on_command=lambda message: message.payload)
        assert bus.call("echo", "hello") == "hello"
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bus.api.bus import Bus
from bus.kernel.trace import Journal
from bus.model.config import BusConfig
from bus.process.memory_network import MemoryNetwork

__all__ = ["memory_bus"]


@contextmanager
def memory_bus(
    name: str | None = None,
    *,
    process: str = "process",
    machine: str | None = None,
    config: BusConfig | None = None,
    beside: Bus | None = None,
    journal: Journal | None = None,
) -> Iterator[Bus]:
    """Give a bus that no other code uses, and close it at the end.

    name: the name of the bus, "bus1" by default.
    process, machine: the names of this process of it, and of its machine.
    beside: a bus that this function returned before: join it as another process, by
      default on the same machine. The first process on a machine is its master.
    journal: as in `bus.open_bus`.

    Another bus of the same name may be open at the same time: neither is known to the
    other, so no address on another bus leads to this one. The names of process and
    machine are the same on every run. A program under `queuebroker.testing.explore`
    opens its own bus in each run.

    Raises:
        ValueError: a name is not legal (BUS-NAME-6), differs from the name of
            ``beside``, or belongs to another process there.
    """
    if beside is None:
        called = "bus1" if name is None else name
        network: MemoryNetwork | None = MemoryNetwork(called)
    else:
        called = beside.name
        around = beside._node.network
        network = around if isinstance(around, MemoryNetwork) else None
        if name not in {None, called}:
            msg = f"name must be {called!r} as beside it, got {name!r}"
            raise ValueError(msg)
        if network is None:
            msg = f"beside must be from memory_bus, got {beside!r}"
            raise ValueError(msg)
        machine = beside.machine if machine is None else machine
    with Bus(
        called,
        process=process,
        machine="machine" if machine is None else machine,
        config=config,
        network=network,
        journal=journal,
    ) as bus:
        if beside is not None:
            beside._node.start_comm()
            bus._node.start_comm()
        yield bus
