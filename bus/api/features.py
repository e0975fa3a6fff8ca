"""The features of a bus that its lower parts do not know, each loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.address import name_anywhere
from bus.core.local.remote import AnyMachine

if TYPE_CHECKING:
    from bus.address import Address
    from bus.api.awaited_binding import AwaitedBinding
    from bus.core.hooks import Hooks
    from bus.core.local.routing_table import Entry
    from bus.core.remote.remote_manager import RemoteManager
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = ["REMOTE_FEATURES", "await_binding", "use_any_machine"]


def use_any_machine(exchange: Exchange) -> None:
    """Let a process find names whose machine is ``*`` from now on (BUS-NAME-8).

    Call this without a lock: the first call imports modules.
    """
    if type(exchange.manager.any_machine) is AnyMachine:
        from bus.threads import binding  # noqa: PLC0415 - rarely needed

        binding.use_any_machine(exchange)


def await_binding(
    entry: Entry, host: ThreadManager, address: Address
) -> AwaitedBinding:
    """Return a wait for the task of an address whose machine is ``*``.

    entry, host: as for `AwaitedBinding`.
    """
    from bus.api.awaited_binding import AwaitedBinding  # noqa: PLC0415 - rarely needed

    return AwaitedBinding(entry, host, name_anywhere(address.module))


def _subscriptions(remote: RemoteManager) -> Hooks:
    """Keep, answer and forward the subscriptions of all processes (BUS-RELAY-8)."""
    from bus.core.remote.remote_subscriptions import (  # noqa: PLC0415 - as above
        RemoteSubscriptions,
    )

    return RemoteSubscriptions(remote).begin()


# Each gives the hooks of one feature to a process that joins a network.
REMOTE_FEATURES: Final = (_subscriptions,)
