"""Programs under exploration that several tests use."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queuebroker.testing import explore
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker.testing import Run

__all__ = ["taking_turns", "under_way"]


def taking_turns(orders: list[list[str]]) -> Callable[[Run], None]:
    """Return a program that records the order in which its three tasks get a lock."""

    def program(run: Run) -> None:
        order: list[str] = []
        lock = threading.Lock()

        def work(name: str) -> None:
            for _ in range(3):
                with lock:
                    order.append(name)

        for name in "abc":
            run.spawn(work, name)
        run.join()
        orders.append(order)

    return program


@contextmanager
def under_way() -> Iterator[None]:
    """Keep an exploration in another thread suspended for the duration of the block."""
    entered = threading.Event()
    leave = threading.Lock()
    leave.acquire()

    def hold(_run: Run) -> None:
        entered.set()
        leave.acquire(timeout=LIMIT_S)  # a real wait: it was made outside of the run

    with Threads() as threads:
        threads.start(explore, hold, bound=0, random=0)
        assert entered.wait(LIMIT_S)
        try:
            yield
        finally:
            leave.release()
