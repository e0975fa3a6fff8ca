"""``subscribe(wait=True)`` and `Task.wait_for_subscribers`, at each distance."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Event, get_ident
from typing import TYPE_CHECKING, Any

import pytest

from bus import CommandTimeoutError, UnknownTaskError
from bus.features.subscriptions.confirmations import Confirmations
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.testing import memory_bus
from queuebroker import _sync
from specs.clauses import clause
from tests.bus.support import DISTANCES, There
from tests.kit.inspection import is_there
from tests.kit.serving import serve
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, Incoming

COUNT = 100
at_each_distance = pytest.mark.parametrize("distance", DISTANCES)


def is_long(items: list[int], count: int) -> bool:
    return len(items) == count


def waits(bus: Bus) -> bool:
    return bool(subscriptions_of(bus._exchange.manager)._awaited)


@pytest.fixture
def unconfirmed(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    """Yield a process whose subscriptions no other process confirms."""
    monkeypatch.setattr(Confirmations, "_review", lambda *_: None)
    with memory_bus(process="other", beside=bus):
        yield bus


@clause("BUS-MSG-18")
@at_each_distance
def test_each_notification_after_the_wait_arrives(bus: Bus, there: There) -> None:
    """The notifier exists already; it sends once the subscriber signals."""
    notifier = there.register("news")
    bus.wait_for(there.at("news"))
    for number in range(5):
        got: list[int] = []

        def read(message: Incoming, got: list[int] = got) -> None:
            assert not message.gap
            got.append(message.payload)

        name = f"reader{number}"
        reader = bus.register(name, thread=bus.here() if number % 2 else bus.thread())
        reader.subscribe(there.at("news"), read, wait=True)
        for item in range(COUNT):
            notifier.notify(item)
        serve(bus, partial(is_long, got, COUNT), "all are received")
        assert got == [*range(COUNT)]
        reader.deregister()


@clause("BUS-MSG-18")
@at_each_distance
def test_scripts_wait_as_well(bus: Bus, there: There) -> None:
    """By `Bus.subscribe` and `Bus.listen`."""
    notifier = there.register("news")
    bus.wait_for(there.at("news"))
    got: list[int] = []
    bus.subscribe(there.at("news"), lambda each: got.append(each.payload), wait=True)
    iterator = bus.listen(there.at("news"), timeout=30.0, wait=True)
    for item in range(3):
        notifier.notify(item)
    assert [next(iterator).payload for _ in range(3)] == [0, 1, 2]
    until(lambda: got == [0, 1, 2], "all are received")


@clause("BUS-MSG-18")
def test_a_subscription_that_is_not_confirmed_in_time_is_cancelled(
    unconfirmed: Bus,
) -> None:
    """In the thread of the task, and in another one."""
    for thread in (unconfirmed.here(), unconfirmed.thread()):
        reader = unconfirmed.register("reader", thread=thread)
        with pytest.raises(
            CommandTimeoutError, match=r"no confirmation .*'news'.*0\.05 s"
        ):
            reader.subscribe("news", print, wait=True, timeout=0.05)
        assert not reader._receiver.interests
        reader.deregister()
        until(lambda: not is_there(unconfirmed, "reader"), "it leaves")


@clause("BUS-MSG-18", "BUS-MSG-19", "BUS-MSG-11")
def test_a_wait_is_refused_within_a_callback(bus: Bus) -> None:
    errors: list[Exception] = []

    def read(_: Incoming) -> None:
        for wait in (
            lambda: task.subscribe("news", print, wait=True),
            lambda: bus.subscribe("news", print, wait=True),
            task.wait_for_subscribers,
        ):
            try:
                wait()
            except RuntimeError as error:
                errors.append(error)

    task = bus.register("task", thread=bus.here(), on_command=read)
    task.call("task", timeout=5.0)
    assert len(errors) == 3


@clause("BUS-MSG-18", "BUS-MSG-19", "BUS-DEREG-12")
@pytest.mark.parametrize("act", ["close", "deregister"])
@pytest.mark.parametrize("call", ["subscribe", "wait_for_subscribers"])
def test_a_wait_raises_if_its_task_deregisters(
    unconfirmed: Bus, act: str, call: str
) -> None:
    task = unconfirmed.register("task")
    outcomes: list[str] = []

    def wait() -> None:
        try:
            if call == "subscribe":
                task.subscribe("news", print, wait=True, timeout=None)
            else:
                task.wait_for_subscribers()
        except UnknownTaskError:
            outcomes.append("raised")

    with Threads() as threads:
        threads.start(wait)
        until(lambda: bool(task._receiver.interests) or waits(unconfirmed), "it waits")
        if act == "close":
            unconfirmed.close()
        else:
            task.deregister()
    assert outcomes == ["raised"]
    with pytest.raises(UnknownTaskError):
        task.wait_for_subscribers(timeout=0)


@clause("BUS-MSG-18")
def test_a_waiting_subscribe_returns_if_it_is_cancelled(unconfirmed: Bus) -> None:
    reader = unconfirmed.register("reader")
    returned: list[Any] = []

    def wait() -> None:
        returned.append(reader.subscribe("news", print, wait=True, timeout=None))

    with Threads() as threads:
        threads.start(wait)
        until(lambda: bool(reader._receiver.interests), "it waits")
        (subscription,) = reader._receiver.interests
        subscription.cancel()
    assert [each.active for each in returned] == [False]


@clause("BUS-FLOW-8")
@at_each_distance
def test_notifications_without_a_subscriber_are_counted(bus: Bus, there: There) -> None:
    """Those before the subscription and after it, not those that have a subscriber."""
    notifier = bus.register("news")
    reader = there.register("reader")
    there.bus.wait_for(there.back("news"))

    def no_subscriber() -> int:
        (info,) = [each for each in bus.tasks() if each.address.module == "news"]
        return info.no_subscriber

    for item in range(3):
        notifier.notify(item)
    until(lambda: no_subscriber() == 3, "they are counted")
    got: list[int] = []
    subscription = reader.subscribe(
        there.back("news"), lambda each: got.append(each.payload), wait=True
    )
    for item in range(5):
        notifier.notify(item)
    serve(bus, lambda: len(got) == 5, "all are received")
    assert no_subscriber() == 3

    subscription.cancel()

    def notified_in_vain() -> bool:
        notifier.notify("to nobody")
        return no_subscriber() > 3

    until(notified_in_vain, "it is taken back")
    assert len(got) == 5


@clause("BUS-FLOW-8")
def test_a_subscriber_in_the_same_process_counts(bus: Bus) -> None:
    """Though no other process does."""
    with memory_bus(process="other", beside=bus):
        notifier = bus.register("news")
        got: list[int] = []
        subscription = bus.subscribe("news", lambda each: got.append(each.payload))
        for item in range(3):
            notifier.notify(item)
        subscription.cancel()
        notifier.notify(3)
        news = "news"

        def no_subscriber() -> int:
            return sum(
                each.no_subscriber
                for each in bus.tasks()
                if each.address.module == news
            )

        until(lambda: no_subscriber() == 1, "the last one is counted")


@clause("BUS-MSG-18", "BUS-DEREG-12")
def test_a_task_deregisters_between_the_wake_up_and_the_end_of_its_wait(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread used to wake the waiter twice, and let the task leave halfway."""
    host = bus.thread()
    reader = bus.register("reader", thread=host)
    park, waits = _sync.park, get_ident()

    def park_later(lock: Any, ready: Any, deadline: float | None) -> bool:
        if get_ident() == waits and not left.is_set():
            assert left.wait(LIMIT_S)
        return park(lock, ready, deadline)

    left = Event()
    monkeypatch.setattr(_sync, "park", park_later)

    def leave() -> None:
        until(lambda: bool(reader._receiver.interests), "it waits")
        subscription: Any
        (subscription,) = reader._receiver.interests
        until(lambda: subscription._then is not None, "it is to be woken")
        until(lambda: not subscription._then.__self__.parker.locked(), "it was woken")
        reader.deregister()
        # This request is behind the departure, in the same thread.
        host.call_soon(left.set)

    with Threads() as threads:
        threads.start(leave)
        with suppress(UnknownTaskError):
            reader.subscribe("news", print, wait=True)
    assert not is_there(bus, "reader")
    bus.register("reader", thread=host).deregister()


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


@clause("BUS-MSG-19")
@pytest.mark.parametrize("count", [0, -1, True, 1.0, "1"])
def test_a_wait_for_a_wrong_number_of_subscribers_is_refused(
    bus: Bus, count: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match="count"):
        bus.register("news").wait_for_subscribers(count)
