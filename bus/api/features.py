"""The features of a bus, as `open_bus` and `bus.testing` give them to it.

This module alone names them: the kernel, the process and the API import no feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.api.new_exchange import Features
from bus.core.remote.new_addresses import NewAddresses

if TYPE_CHECKING:
    from types import ModuleType

    from bus.core.hooks import Hooks

__all__ = ["features"]


def features() -> Features:
    """Return the features of a bus that is about to be opened."""
    return Features(begin=(_moving,), moving=_hand_over)


def _moving(*_: object) -> Hooks:
    return NewAddresses().hooks()


def _hand_over() -> ModuleType:
    from bus.api import hand_over  # noqa: PLC0415 - rarely needed

    return hand_over
