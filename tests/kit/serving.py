"""The calling thread as a thread of a bus, served by the test."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final

from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus

__all__ = ["serve", "settle"]

_LOOK_S: Final = 0.001


def settle(bus: Bus) -> None:
    """Serve the calling thread until there is nothing to do in it."""
    here = bus.here()
    while here.poll(0) or here._manager.pending():
        pass


def serve(bus: Bus, condition: Callable[[], object], what: str) -> None:
    """Serve the calling thread until `condition` holds, in this thread or another.

    Raises:
        AssertionError: it does not hold within the limit; ``what`` describes it.
    """
    deadline = monotonic() + LIMIT_S
    while not condition():
        bus.here().poll(_LOOK_S)
        assert monotonic() < deadline, f"not so after {LIMIT_S:g} s: {what}"
