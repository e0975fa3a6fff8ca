"""A garbage collection in the middle of a call."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collecting"]


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
