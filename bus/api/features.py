"""The features of a bus, as `open_bus` and `bus.testing` give them to it.

This module alone names them: the kernel, the process and the API import no feature.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bus.api.new_exchange import Features
from bus.core.remote.new_addresses import NewAddresses

if TYPE_CHECKING:
    from types import ModuleType

    from bus.api.new_exchange import Begin
    from bus.core.hooks import Hooks
    from bus.durability import Durability

__all__ = ["features"]


def features(durability: Durability | None = None) -> Features:
    """Return the features of a bus that is about to be opened.

    durability: as in `bus.open_bus`.
    """
    begin: list[Begin] = [_moving]
    if durability is not None:
        begin.append(partial(_durable, durability))
    return Features(begin, moving=_hand_over)


def _moving(*_: object) -> Hooks:
    return NewAddresses().hooks()


def _durable(
    durability: Durability, bus: str, machine: str, process: str, incarnation: int
) -> Hooks:
    from bus.horizon.format import Owner  # noqa: PLC0415 - rarely needed
    from bus.horizon.store import HorizonStore  # noqa: PLC0415 - likewise

    owner = Owner(bus, machine, process, incarnation)
    return HorizonStore.open(durability, owner).hooks()


def _hand_over() -> ModuleType:
    from bus.api import hand_over  # noqa: PLC0415 - rarely needed

    return hand_over
