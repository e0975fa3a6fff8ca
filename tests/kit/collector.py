"""The garbage collector: in the middle of a call, or not at all."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collecting", "uncollected"]


@contextmanager
def collecting(owner: type[Any], method: str, victims: list[object]) -> Iterator[None]:
    """Drop the victims and collect them when ``method`` is entered the first time."""
    original = getattr(owner, method)

    def collect_and_go_on(self: Any, *args: Any, **kwargs: Any) -> Any:
        if victims:
            victims.clear()
            gc.collect()
        return original(self, *args, **kwargs)

    setattr(owner, method, collect_and_go_on)
    try:
        yield
    finally:
        setattr(owner, method, original)
    assert not victims, f"{method} was never called"


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the collector while a million objects are created, none of them garbage.

    It would go through them again and again, for two thirds of the time. Later
    collections do not go through them either.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
