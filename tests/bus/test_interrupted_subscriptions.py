"""An interrupt of a subscription leaves a process that others can subscribe in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import bus as package
from bus.core.local.local_subscriptions import subscriptions_of
from bus.core.local.remote import NoAudiences
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
