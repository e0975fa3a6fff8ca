"""`queuebroker.aio.waiting`: the state after a waiting coroutine is closed."""

from __future__ import annotations

import asyncio

import pytest

from queuebroker import BrokerManager, aio
from specs.clauses import clause


@clause("QB-PY-11", "QB-RDV-11")
@pytest.mark.parametrize("act", ["accept", "connect"])
def test_a_call_that_is_closed_while_it_waits_is_withdrawn(act: str) -> None:
    """As a cancelled one is: no call matches it any more."""

    async def check() -> None:
        with BrokerManager() as manager:
            broker = aio.QueueBroker("b", manager=manager)
            call = broker.accept(1) if act == "accept" else broker.connect("b", 1)
            call.send(None)
            assert broker.waiting_accepts() or broker.waiting_connects()

            call.close()

            assert (broker.waiting_accepts(), broker.waiting_connects()) == ({}, {})

    asyncio.run(check())
