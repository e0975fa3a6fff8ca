"""A bounded queue as in a textbook, and five faulty variants.

Written with `threading`, unchanged for the explorer. `Bounded` is correct; each of the
others has one fault, which its docstring states.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run

__all__ = [
    "Bounded",
    "Closed",
    "ForgetsTheOthers",
    "GivesUpItsTurn",
    "LooksOnce",
    "LooksTwice",
    "OneForBoth",
    "program",
]


class Closed(Exception):  # noqa: N818 # a state, not an error
    """The queue is closed and has no more items."""


class Bounded:
    """At most one item, until it is closed."""

    def __init__(self) -> None:
        self.items: deque[object] = deque()
        self.closed = False
        self.lock = threading.Lock()
        self.arrived = threading.Condition(self.lock)
        self.room = threading.Condition(self.lock)

    def put(self, item: object) -> None:
        with self.lock:
            self.room.wait_for(lambda: self.closed or not self.items)
            if self.closed:
                raise Closed
            self.items.append(item)
            self.arrived.notify()

    def get(self, timeout: float | None = None) -> object:
        with self.lock:
            if not self.arrived.wait_for(lambda: self.closed or self.items, timeout):
                raise TimeoutError
            return self._take()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.arrived.notify_all()
            self.room.notify_all()

    def _take(self) -> object:
        if not self.items:
            raise Closed
        item = self.items.popleft()
        self.room.notify()
        return item


class OneForBoth(Bounded):
    """Senders and receivers sleep on one condition, and one of them is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.room = self.arrived


class LooksOnce(Bounded):
    """A woken receiver does not check again: `if` in place of `while`."""

    def get(self, timeout: float | None = None) -> object:
        with self.lock:
            if not self.items and not self.closed:
                self.arrived.wait(timeout)
            item = self.items.popleft()
            self.room.notify()
            return item


class LooksTwice(Bounded):
    """It releases the lock between the check and the sleep."""

    def get(self, timeout: float | None = None) -> object:
        with self.lock:
            sleeps = not self.items and not self.closed
        with self.lock:
            if sleeps:
                self.arrived.wait(timeout)
            return self._take()


class ForgetsTheOthers(Bounded):
    """Closing wakes one receiver."""

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.arrived.notify()


class GivesUpItsTurn(Bounded):
    """A receiver that times out does not pass on a wake-up it may have got."""

    def get(self, timeout: float | None = None) -> object:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self.lock:
            while not self.items:
                left = None if deadline is None else deadline - time.monotonic()
                if not self.arrived.wait(left):
                    raise TimeoutError
            return self._take()


def program(
    make: Callable[[], Bounded], *actors: Callable[[Bounded], object]
) -> Callable[[Run], None]:
    """Return a program that runs the actors concurrently on one queue, in order."""

    def run_once(run: Run) -> None:
        queue = make()
        spawned = [
            run.spawn(_tolerant, actor, queue, name=str(n))
            for n, actor in enumerate(actors)
        ]
        for one in spawned:
            one.join()

    return run_once


def _tolerant(actor: Callable[[Bounded], object], queue: Bounded) -> None:
    with contextlib.suppress(Closed, TimeoutError):
        actor(queue)
