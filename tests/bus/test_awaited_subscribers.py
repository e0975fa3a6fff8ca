"""`Task.wait_for_subscribers`: a notifier waits, at each distance."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from bus import UnknownTaskError
from specs.clauses import clause
from tests.bus.support import DISTANCES, There
from tests.kit.serving import serve
from tests.support import Threads, until

if TYPE_CHECKING:
    from bus import Bus, Incoming

at_each_distance = pytest.mark.parametrize("distance", DISTANCES)


def waits(bus: Bus) -> bool:
    return bool(bus._exchange.manager._awaited_subscribers)


@clause("BUS-MSG-19")
@at_each_distance
@pytest.mark.parametrize("hosted", [True, False], ids=["own thread", "other thread"])
def test_a_notifier_waits_for_its_subscriber(
    bus: Bus, there: There, *, hosted: bool
) -> None:
    """Its first notification arrives, though the subscriber does not wait."""
    notifier = bus.register("news", thread=bus.here() if hosted else bus.thread())
    reader = there.register("reader")
    got: list[int] = []

    def subscribe() -> None:
        until(lambda: waits(bus), "it waits")
        reader.subscribe(there.back("news"), lambda each: got.append(each.payload))

    with Threads() as threads:
        threads.start(subscribe)
        assert notifier.wait_for_subscribers(1, timeout=30.0)
    notifier.notify(1)
    serve(bus, lambda: got == [1], "it is received")
    assert not waits(bus)


@clause("BUS-MSG-19")
@at_each_distance
def test_a_wait_for_present_subscribers_ends_at_once(bus: Bus, there: There) -> None:
    notifier = bus.register("news")
    there.bus.wait_for(there.back("news"))
    there.register("reader").subscribe(there.back("news"), print, wait=True)
    assert notifier.wait_for_subscribers(timeout=0)
    assert not notifier.wait_for_subscribers(2, timeout=0.05)
    assert not waits(bus)


@clause("BUS-MSG-19")
def test_each_task_of_the_own_process_counts_once(bus: Bus) -> None:
    notifier = bus.register("news")
    reader = bus.register("reader")
    for specification in ("news", "*", "news"):
        reader.subscribe(specification, print)
    assert not notifier.wait_for_subscribers(2, timeout=0)
    bus.register("second").subscribe("news", print)
    assert notifier.wait_for_subscribers(2, timeout=0)


@clause("BUS-MSG-19", "BUS-DEREG-12")
@pytest.mark.parametrize("act", ["close", "deregister"])
def test_a_wait_for_subscribers_raises_if_the_task_leaves(bus: Bus, act: str) -> None:
    notifier = bus.register("news")
    told: list[Any] = []

    def wait() -> None:
        with suppress(UnknownTaskError):
            told.append(notifier.wait_for_subscribers())
        told.append("over")

    with Threads() as threads:
        threads.start(wait)
        until(lambda: waits(bus), "it waits")
        if act == "close":
            bus.close()
        else:
            notifier.deregister()
    assert told == ["over"]
    with pytest.raises(UnknownTaskError):
        notifier.wait_for_subscribers(timeout=0)


@clause("BUS-MSG-19", "BUS-MSG-11")
def test_a_wait_for_subscribers_is_refused_within_a_callback(bus: Bus) -> None:
    errors: list[Exception] = []

    def read(_: Incoming) -> None:
        try:
            task.wait_for_subscribers()
        except RuntimeError as error:
            errors.append(error)

    task = bus.register("task", thread=bus.here(), on_command=read)
    task.call("task", timeout=5.0)
    assert len(errors) == 1


@clause("BUS-MSG-19")
@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1"])
def test_a_wait_for_a_wrong_number_of_subscribers_is_refused(
    bus: Bus, count: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match="count"):
        bus.register("news").wait_for_subscribers(count)
