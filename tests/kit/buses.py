"""Processes of one bus in one test: with links in memory, or over sockets."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from bus import Bus, BusConfig, Role
from bus.features.machines.any_machine import AnyMachineNames
from bus.process.socket_network import SocketNetwork
from bus.testing import memory_bus
from tests.kit.constants import set_constants
from tests.kit.systems import require_unix_sockets
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bus import Durability
    from bus.features.machines.any_machine import Bind
    from bus.journal.writer import Journal

__all__ = [
    "ENDLESS",
    "ENDLESS_S",
    "PATIENT",
    "bindings",
    "join_both",
    "processes",
    "socket_bus",
]

# Long enough for the slowest machine; no test waits for these times to pass.
PATIENT: Final = BusConfig(resolve_timeout_s=LIMIT_S, command_timeout_s=LIMIT_S)

# Under the explorer a deadline that passes early counts as a preemption. With these
# times none passes, unless it is the chosen preemption.
# The keep-alive keeps its short period: if a frame is lost and a call waits for such a
# time, PINGs fill it, and the explorer reports a livelock instead of a late error.
ENDLESS_S: Final = 1e6
ENDLESS: Final = BusConfig(
    resolve_timeout_s=ENDLESS_S,
    connect_timeout_s=ENDLESS_S,
    command_timeout_s=ENDLESS_S,
)

# By the name of a bus: its processes in this test process.
_socket_buses: Final[Counter[str]] = Counter()


def join_both(one: Bus, two: Bus) -> None:
    """Let tasks of two buses address each other, as after `open_bus` for both."""
    one._others = two._others = {one.name: one, two.name: two}


@contextmanager
def processes(
    names: int | str,
    config: BusConfig | None = PATIENT,
    journals: Mapping[str, Journal] | None = None,
    **configs: BusConfig,
) -> Iterator[list[Bus]]:
    """Yield the processes of one bus; the first is the master.

    names: their names, separated by spaces; or their number, for "p0", "p1" and so on.
    configs: by name, the configuration of a process that does not have `config`.
    """
    if isinstance(names, int):
        names = " ".join(f"p{number}" for number in range(names))
    journals = journals or {}
    buses: list[Bus] = []
    if config is ENDLESS:
        set_constants(RELINK_TIMEOUT_S=ENDLESS_S, LINK_LINGER_S=ENDLESS_S)
    with ExitStack() as stack:
        for name in names.split():
            bus = memory_bus(
                process=name,
                beside=buses[0] if buses else None,
                config=configs.get(name, config),
                journal=journals.get(name),
            )
            buses.append(stack.enter_context(bus))
        yield buses


@contextmanager
def socket_bus(
    process: str = "process",
    *,
    role: Role = Role.AUTO,
    config: BusConfig | None = None,
    name: str = "bus1",
    journal: Journal | None = None,
    durability: Durability | None = None,
) -> Iterator[Bus]:
    """Yield a process of a socket bus; one test process can hold several.

    Without UNIX sockets it can hold one: a test that opens another is skipped.
    """
    if role is Role.SLAVE or _socket_buses[name]:
        require_unix_sockets()
    network = SocketNetwork(name, role, BusConfig() if config is None else config)
    with Bus(
        name,
        process=process,
        machine="machine",
        config=config,
        network=network,
        journal=journal,
        durability=durability,
    ) as bus:
        bus._node.join()
        _socket_buses[name] += 1
        try:
            yield bus
        finally:
            _socket_buses[name] -= 1


def bindings(bus: Bus) -> dict[str, Bind]:
    """Return the names of any machine that a process is binding, as it keeps them."""
    names = bus._exchange.manager.any_machine
    return names._binding if isinstance(names, AnyMachineNames) else {}
