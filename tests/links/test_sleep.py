"""How the thread that owns the links sleeps at the sockets, and wakes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.links.sleep import PolledSleep
from bus.threads.inbox import Inbox
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable


class Driver:
    """Stands for a driver; what happens in each of its polls is written down."""

    def __init__(self, *polls: Callable[[], object]) -> None:
        self._polls = list(polls)
        self.waited: list[float | None] = []
        self.woken = 0

    def poll(self, timeout: float | None) -> int:
        self.waited.append(timeout)
        assert self._polls, "sleeps once more than it should"
        self._polls.pop(0)()
        return 0

    def call(self, function: Callable[[], object]) -> None:
        function()
        self.woken += 1


def sleep(driver: Driver, inbox: Inbox, deadline: float | None = None) -> None:
    polled = PolledSleep(cast("Any", driver))
    polled.until([], inbox, lambda: bool(inbox.items), deadline)


def test_who_posts_wakes_who_sleeps_at_the_sockets() -> None:
    inbox = Inbox()
    driver = Driver(lambda: inbox.push("item"))

    sleep(driver, inbox)

    assert driver.waited == [None]
    assert driver.woken == 1
    assert not inbox.arrived.asleep


@clause("BUS-ROUTE-4")
def test_a_wake_up_for_nothing_does_not_cost_the_next_one() -> None:
    """It may be for what was seen to before this slept; a bell rings once only."""
    inbox = Inbox()

    def stale() -> None:
        with inbox.lock:
            inbox.arrived.wake_one()

    driver = Driver(stale, lambda: inbox.push("item"))

    sleep(driver, inbox)

    assert driver.waited == [None, None]
    assert driver.woken == 2


def test_sockets_are_looked_at_though_there_is_something_to_do() -> None:
    inbox = Inbox()
    inbox.push("item")
    driver = Driver(lambda: None)

    sleep(driver, inbox)

    assert driver.waited == [0]


@pytest.mark.parametrize("late_s", [0.0, 5.0])
def test_time_that_is_up_ends_it(late_s: float) -> None:
    inbox = Inbox()
    driver = Driver(lambda: None)

    sleep(driver, inbox, deadline=-late_s)

    assert driver.waited == [0]
