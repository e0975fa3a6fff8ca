"""The features of a bus: the one module of the API that imports them.

Each function imports its feature when it is called, so that a process loads a feature
at its first use.
"""

# ruff: noqa: PLC0415 - as above

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bus.core.hooks import Hooks
    from bus.core.remote.remote_manager import RemoteManager

__all__ = ["REMOTE_FEATURES"]


def _subscriptions(remote: RemoteManager) -> Hooks:
    """Keep, answer and forward the subscriptions of all processes (BUS-RELAY-8)."""
    from bus.core.remote.remote_subscriptions import RemoteSubscriptions

    return RemoteSubscriptions(remote).begin()


# Each gives the hooks of one feature to a process that joins a network.
REMOTE_FEATURES: Final = (_subscriptions,)
