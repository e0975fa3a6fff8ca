"""The timers of `ParkedExpiry`: each that fires sets one more at most."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from bus.testing import memory_bus
from queuebroker import _sync
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable


class Host:
    """A thread that keeps timers, and fires the earliest on order."""

    ended = False

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def set_timer(self, deadline: float, due: Callable[[], object]) -> None:
        self.timers.append((deadline, due))

    def fire(self) -> None:
        timer = min(self.timers, key=lambda each: each[0])
        self.timers.remove(timer)
        timer[1]()


@clause("BUS-ROUTE-19")
def test_timers_do_not_multiply() -> None:
    """A message with a short time sets a timer before that of the others.

    Each timer once set the next one, also those that an earlier one had replaced. So a
    process whose messages waited for lost machines soon fired thousands.
    """
    host: Any = Host()
    later = _sync.monotonic() + 1000.0  # none of these times passes by itself
    waiting = [later + 9.0]
    parked = SimpleNamespace(next_deadline=lambda: min(waiting, default=None))
    with memory_bus() as bus:
        expiry: Any = bus._exchange.parked_expiry
        manager = expiry._manager
        expiry._manager = SimpleNamespace(parked=parked, expire=lambda *_: [])
        expiry.schedule(host)
        for brief in (1.0, 2.0, 3.0):
            waiting[:] = [later + brief, later + 9.0]
            expiry.schedule(host)
            waiting[:] = [later + 9.0]
            host.fire()
        assert [at for at, _ in host.timers] == [later + 9.0] * 4

        waiting[:] = [later + 20.0]
        for _ in range(4):
            host.fire()

        assert [at for at, _ in host.timers] == [later + 20.0]
        expiry._manager = manager


@clause("BUS-ROUTE-19", "BUS-ENT-8")
def test_an_overdue_timer_of_another_thread_postpones_no_message() -> None:
    """That thread is in a callback that does not return."""
    here, blocked = Host(), Host()
    later = _sync.monotonic() + 1000.0  # none of these times passes by itself
    waiting, expired = [later + 9.0], list[object]()

    def expire(*_: object) -> None:
        expired.extend(waiting)
        waiting.clear()

    parked = SimpleNamespace(next_deadline=lambda: min(waiting, default=None))
    with memory_bus() as bus:
        expiry: Any = bus._exchange.parked_expiry
        manager = expiry._manager
        expiry._manager = SimpleNamespace(parked=parked, expire=expire)
        expiry.schedule(here)
        waiting.append(later + 1.0)
        expiry.schedule(blocked)

        here.fire()

        assert expired == [later + 9.0, later + 1.0]
        blocked.fire()  # once its callback has returned
        assert (here.timers, blocked.timers) == ([], [])
        expiry._manager = manager
