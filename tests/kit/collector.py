"""The garbage collector: in the middle of a call, or not at all."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["changed_by_finalizers", "collecting", "uncollected"]


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
def changed_by_finalizers(change: Callable[[], object]) -> Iterator[None]:
    """Collect at almost each new object, and make a change in each collection.

    So may any other thread: the interpreter switches to it in a finalizer. Before
    CPython 3.12 a collection may begin in the middle of a call into C.
    """

    def begin(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            change()

    gc.collect()  # frees the spare tuples, which are not new
    threshold = gc.get_threshold()
    gc.callbacks.append(begin)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(begin)


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
