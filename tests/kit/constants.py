"""Replace settings and constants of the bus for one test, or for one program of tests.

A constant holds for all buses of this process, and `tests.conftest` restores it at the
end of the test. Rejected: a struct of times that every part gets, for it would return
to the product all the fields that are no settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.kernel import constants

if TYPE_CHECKING:
    from types import ModuleType

    from bus import BusConfig

__all__ = ["configured", "restore_constants", "set_constants"]

_replaced: Final[dict[tuple[ModuleType, str], Any]] = {}


def configured(base: BusConfig | None = None, /, **values: Any) -> BusConfig:
    """Return a configuration with some values; set those in capitals, the constants."""
    from bus import BusConfig  # noqa: PLC0415 # many tests need no bus

    set_constants(**{name: value for name, value in values.items() if name.isupper()})
    settings = {name: each for name, each in values.items() if not name.isupper()}
    return attrs.evolve(BusConfig() if base is None else base, **settings)


def set_constants(**values: Any) -> None:
    """Replace constants until the end of the test."""
    for name, value in values.items():
        module = _module_of(name)
        _replaced.setdefault((module, name), getattr(module, name))
        setattr(module, name, value)


def restore_constants() -> None:
    """Give all constants their own values."""
    while _replaced:
        (module, name), value = _replaced.popitem()
        setattr(module, name, value)


def _module_of(name: str) -> ModuleType:
    if hasattr(constants, name):
        return constants
    from bus.features.memory import link_memory  # noqa: PLC0415 # the one other module

    assert hasattr(link_memory, name), name
    return link_memory
