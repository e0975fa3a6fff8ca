"""An interrupt of a subscription leaves a process that others can subscribe in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import bus as package
from bus import Presence
from bus.core.local.local_subscriptions import subscriptions_of
from bus.core.local.remote import NoAudiences
from bus.core.local.remote_tasks import PresenceReport
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from bus import Incoming
    from tests.strikes import Blow


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
