"""The features of a bus: the one module of the API that imports them.

Each function imports its feature when it is called, so that a process loads a feature
at its first use.
"""

# ruff: noqa: PLC0415 - as above

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.address import name_anywhere
from bus.core.hooks import Hooks
from bus.core.local.remote import AnyMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.address import Address
    from bus.api.awaited_binding import AwaitedBinding
    from bus.config import BusConfig
    from bus.core.local.routing_table import Entry
    from bus.snapshot import BusSnapshot
    from bus.threads.exchange import Exchange
    from bus.threads.router import Router
    from bus.threads.thread_manager import ThreadManager

__all__ = ["FEATURES", "await_binding", "inspect", "use_any_machine"]


def _watching(
    router: Router,
    config: BusConfig,
    bus: str,
    managers: Callable[[], Sequence[ThreadManager]],
) -> Hooks:
    """Let other processes inspect this one, once it has joined its network."""
    from bus.api.inspector import Inspector

    inspector = Inspector(router, config, bus, managers)
    return Hooks(begin=inspector.begin, end=inspector.close)


# Each gives the hooks of one feature for one bus; they begin in this order, and end in
# the reverse one.
FEATURES: Final = (_watching,)


def inspect(
    exchange: Exchange, bus: str, managers: Sequence[ThreadManager]
) -> BusSnapshot:
    """Return a snapshot of a bus in this process; see `bus.api.inspection`."""
    from bus.api import inspection

    return inspection.inspect(exchange, bus, managers)


def use_any_machine(exchange: Exchange) -> None:
    """Let a process find names whose machine is ``*`` from now on (BUS-NAME-8).

    Call this without a lock: the first call imports modules.
    """
    if type(exchange.manager.any_machine) is AnyMachine:
        from bus.threads import binding

        binding.use_any_machine(exchange)


def await_binding(
    entry: Entry, host: ThreadManager, address: Address
) -> AwaitedBinding:
    """Return a wait for the task of an address whose machine is ``*``.

    entry, host: as for `AwaitedBinding`.
    """
    from bus.api.awaited_binding import AwaitedBinding

    return AwaitedBinding(entry, host, name_anywhere(address.module))
