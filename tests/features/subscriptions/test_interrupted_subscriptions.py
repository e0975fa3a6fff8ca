"""An interrupt of a subscription leaves a process that others can subscribe in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import bus as package
from bus import Presence
from bus.api.outcome import AwaitedOutcome
from bus.features.subscriptions.local_subscriptions import subscriptions_of
from bus.features.subscriptions.presence import PresenceReport
from bus.kernel.tasks.actions import Settled
from bus.kernel.tasks.remote import NoAudiences
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import Bus, Incoming
    from tests.strikes import Blow

BESIDE = ("master", "slave")


@pytest.mark.deep
@clause("BUS-MSG-5", "BUS-DEREG-10")
@pytest.mark.parametrize("first", [False, True])
def test_an_interrupted_subscription_is_made_again_and_ends_with_its_task(
    *, first: bool
) -> None:
    """first: True if the process has had no subscription before."""

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            here, manager = bus.here(), bus._exchange.manager
            news = bus.register("news", thread=here)
            got: list[object] = []

            def read(message: Incoming) -> None:
                got.append(message.payload)

            def case(interrupted: Blow) -> None:
                if first:
                    manager.audiences = NoAudiences()
                got.clear()
                reader = bus.register("reader", thread=here)

                interrupted(lambda: reader.subscribe("news", read))

                reader.subscribe("news", read)
                news.notify(1)
                here.poll(0)
                assert got == [1]
                reader.deregister()
                here.poll(0)
                assert news._entry.audience == ()
                assert subscriptions_of(manager).subscriptions.all() == []

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


@clause("BUS-DEREG-10")
def test_an_interrupted_report_reaches_its_watch_once() -> None:
    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            here, exchange = bus.here(), bus._exchange
            watcher = bus.register("watcher", thread=here)
            seen: list[Presence] = []
            watch = watcher.watch("log", seen.append)

            def case(interrupted: Blow) -> None:
                seen.clear()
                presence = Presence(watcher.address, here=True)
                exchange._todo.append(PresenceReport(watcher._entry, watch, presence))

                interrupted(exchange.act)

                exchange.act()
                while here.poll(0):
                    pass
                assert seen == [presence]

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


@clause("BUS-MSG-19")
@pytest.mark.parametrize(
    "place",
    ["alone", *(pytest.param(each, marks=pytest.mark.deep) for each in BESIDE)],
)
def test_an_interrupted_subscription_lets_no_notifier_wait_on(place: str) -> None:
    """Either it has ended, or the notifier learns of it; so it does of the next one."""

    def strikes(bus: Bus) -> None:
        here, exchange = bus.here(), bus._exchange
        news = bus.register("news", thread=here)
        local = subscriptions_of(exchange.manager)

        def case(interrupted: Blow) -> None:
            told: list[bool] = []
            then = told.append
            reader = bus.register("reader", thread=here)
            exchange.decide(lambda: local.await_subscribers(news._entry, 1, then))

            interrupted(lambda: reader.subscribe("news", print))

            until(lambda: bool(told) or not news._entry.audience, "it ends, or is told")
            reader.subscribe("news", print)
            until(lambda: bool(told), "it is told")
            assert set(told) == {True}
            exchange.decide_remote(lambda: local.forget_subscribers(then))
            reader.deregister()
            here.poll(0)
            assert local.subscriptions.all() == []

        everywhere(case, packages=(package,))

    def run() -> None:
        with memory_bus(process="first", config=PATIENT) as first:
            if place == "alone":
                strikes(first)
                return
            with memory_bus(process="second", beside=first, config=PATIENT) as second:
                strikes(first if place == "master" else second)

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


@clause("BUS-MSG-5", "BUS-DEREG-10", "BUS-MSG-19")
@pytest.mark.parametrize(
    "place",
    ["alone", *(pytest.param(each, marks=pytest.mark.deep) for each in BESIDE)],
)
def test_the_next_cancel_completes_an_interrupted_one(place: str) -> None:
    """No notifier counts the subscriber any more; the next subscription is as usual.

    place: of the process, on its bus.
    """

    def strikes(bus: Bus, other: Bus) -> None:
        news = other.register("news", thread=other.here())
        reader = bus.register("reader", thread=bus.here())

        def has_subscriber() -> bool:
            return news.wait_for_subscribers(timeout=0)

        def case(interrupted: Blow) -> None:
            subscription = reader.subscribe("news", print)
            watch = reader.watch("news", print)
            until(has_subscriber, "it subscribes")

            def cancel() -> None:
                subscription.cancel()
                watch.cancel()

            interrupted(cancel)

            cancel()
            until(lambda: not has_subscriber(), "it subscribes no more")
            for each in (bus, other):
                local = subscriptions_of(each._exchange.manager)
                assert local.subscriptions.all() == local.watches.all() == []
            assert not reader._receiver.interests

        everywhere(case, packages=(package,))

    def run() -> None:
        with memory_bus(process="first", config=PATIENT) as first:
            if place == "alone":
                strikes(first, first)
                return
            with memory_bus(process="second", beside=first, config=PATIENT) as second:
                one, other = (first, second) if place == "master" else (second, first)
                strikes(one, other)

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)


@clause("BUS-MSG-18", "BUS-MSG-19")
def test_an_interrupt_loses_no_confirmation() -> None:
    """The thread that is interrupted may perform it for another one that waits."""

    def run() -> None:
        with memory_bus(config=PATIENT) as bus:
            exchange = bus._exchange
            task = bus.register("task", thread=bus.here())
            entry, host = task._entry, task._entry.host

            def case(interrupted: Blow) -> None:
                wait = AwaitedOutcome[bool](entry, host)
                exchange._todo.append(Settled(partial(wait.on_outcome, True)))

                interrupted(exchange.act)

                exchange.act()
                assert wait.outcome

            everywhere(case, packages=(package,))

    with Threads() as threads:
        threads.start(run).result(LIMIT_S)
