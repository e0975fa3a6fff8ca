"""A fault file in the form that frontrun explores: state, and concurrent workers.

frontrun explores the given workers, not the threads that they start. So every thread of
the program is a worker from the beginning, and waits until the program starts it.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from benchmarks.hunters.real_threads import fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["hunt_with"]


class _State:
    """One execution: the module, its threads in the order of their start, errors."""

    def __init__(self, path: Path, count: int) -> None:
        self.module = fresh(path)
        self.module.Thread = self._thread
        self.started: list[Callable[[], object]] = []
        self.may_begin = [threading.Event() for _ in range(count)]
        self.errors: list[Exception] = []

    def _thread(
        self, target: Callable[..., object], args: tuple[Any, ...] = (), **_named: str
    ) -> _Thread:
        return _Thread(self, lambda: target(*args))

    def live(self, number: int) -> None:
        """Wait until thread ``number`` is started, then run its body."""
        self.may_begin[number].wait()
        try:
            self.started[number]()
        except Exception as error:  # noqa: BLE001 # the fault to be found
            self.errors.append(error)


class _Thread:
    def __init__(self, state: _State, body: Callable[[], object]) -> None:
        self._state = state
        self._body = body

    def start(self) -> None:
        state = self._state
        state.started.append(self._body)
        if len(state.started) <= len(state.may_begin):
            state.may_begin[len(state.started) - 1].set()


def hunt_with(path: Path, note: Callable[[], None], **options: Any) -> bool:
    """Explore with frontrun; return False if it reports no fault, or no result."""
    import frontrun  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

    rehearsal = _State(path, 0)
    rehearsal.module.program()
    count = len(rehearsal.started)

    def setup() -> _State:
        note()
        return _State(path, count)

    workers: list[Callable[[_State], object]] = [lambda state: state.module.program()]
    workers += [functools.partial(_State.live, number=n) for n in range(count)]
    result = frontrun.explore(
        setup=setup,
        workers=workers,
        invariant=lambda state: not state.errors,
        reproduce_on_failure=0,
        **options,
    )
    return result.property_holds is False
