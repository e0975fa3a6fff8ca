"""The features of a bus: the one module of the API that imports them.

Each function imports its feature when it is called, so that a process loads a feature
at its first use.
"""

# ruff: noqa: PLC0415 - as above

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.hooks import Hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.config import BusConfig
    from bus.snapshot import BusSnapshot
    from bus.threads.exchange import Exchange
    from bus.threads.router import Router
    from bus.threads.thread_manager import ThreadManager

__all__ = ["FEATURES", "inspect"]


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
