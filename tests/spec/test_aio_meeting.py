"""QB-PY-11: tasks meet as threads do, with the same errors if they do not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    DisconnectedQueueError,
    MessageTooLargeError,
    PortInUseError,
    RendezvousTimeoutError,
    UnknownBrokerError,
    aio,
    current_broker,
)
from specs.clauses import clause
from tests.kit.stepped_loop import SteppedLoop, stepped_loop
from tests.meetings import nobody_waits

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    with stepped_loop() as loop:
        yield loop


@clause("QB-PY-11")
@pytest.mark.parametrize("first", ["accept", "connect"])
def test_two_tasks_meet_in_either_order(first: str, loop: SteppedLoop) -> None:
    """Both get an end of one connection, with the acceptor's settings."""
    with BrokerManager() as manager:
        server = aio.QueueBroker("server", manager=manager, max_message_size=3)
        client = aio.QueueBroker("client", manager=manager)
        if first == "accept":
            accept = loop.start(server.accept(1, capacity=5))
            loop.run()
            assert server.waiting_accepts() == {1: 1}
        connect = loop.start(client.connect("server", 1, required=True))
        loop.run()
        if first == "connect":
            assert server.waiting_connects() == {1: 1}
            assert client.outgoing() == {("server", 1): 1}
            accept = loop.start(server.accept(1, capacity=5))

        with loop.run_until(accept) as left, connect.result() as right:
            left.send_nowait(b"abc")
            assert right.receive_nowait() == b"abc"
            assert (left.capacity, right.capacity) == (5, 5)
            assert (left.local_name, left.remote_name) == ("server", "client")
            with pytest.raises(MessageTooLargeError):
                right.send_nowait(b"abcd")
        nobody_waits(server.broker, client.broker)


@clause("QB-PY-11")
def test_accept_and_connect_raise_the_errors_of_their_blocking_forms(
    loop: SteppedLoop,
) -> None:
    """Tested: an unknown name, a timeout, an exclusive accept, a closed broker."""
    with BrokerManager() as manager:
        server = aio.QueueBroker("server", manager=manager)
        client = aio.QueueBroker("client", manager=manager)
        assert loop.run_until(loop.start(client.connect("nobody", 1))) is None
        with pytest.raises(UnknownBrokerError):
            loop.run_until(loop.start(client.connect("nobody", 1, required=True)))
        for call in (
            server.accept(1, timeout=0),
            client.connect("server", 1, timeout=0),
        ):
            with pytest.raises(RendezvousTimeoutError):
                loop.run_until(loop.start(call))
        with pytest.raises(ValueError, match="port"):
            loop.run_until(loop.start(server.accept(-1)))
        accepting = loop.start(server.accept(1))
        loop.run()
        with pytest.raises(PortInUseError):
            loop.run_until(loop.start(server.accept(1, exclusive=True)))
        connecting = loop.start(client.connect("server", 2))
        loop.run()

        server.close()

        for task in (accepting, connecting, loop.start(server.accept(1))):
            with pytest.raises(BrokerClosedError):
                loop.run_until(task)
        nobody_waits(server.broker, client.broker)


@clause("QB-PY-11")
def test_accept_iter_gives_queues_until_the_broker_is_closed(loop: SteppedLoop) -> None:
    """Several tasks may iterate; the iteration stops once the broker is closed."""
    with BrokerManager() as manager:
        server = aio.QueueBroker("server", manager=manager)
        arrivals = server.accept_iter(1)

        async def serve() -> int:
            served = 0
            async for queue in arrivals:
                queue.close()
                served += 1
            return served

        tasks = [loop.start(serve()) for _ in range(2)]
        for _ in range(4):
            connected = loop.start(server.connect("server", 1, required=True))
            loop.run_until(connected).close()

        server.close()

        assert sum(loop.run_until(task) for task in tasks) == 4


@clause("QB-PY-11")
@pytest.mark.parametrize("strict", [False, True])
def test_strictness_is_that_of_the_call(strict: bool, loop: SteppedLoop) -> None:
    """The broker's setting is the default (QB-PY-8)."""
    with BrokerManager() as manager:
        broker = aio.QueueBroker("b", manager=manager, strict_half=not strict)
        accept = loop.start(broker.accept(1, strict_half=strict))
        connect = loop.start(broker.connect("b", 1, required=True, strict_half=strict))
        with loop.run_until(accept) as left, loop.run_until(connect) as right:
            right.send_nowait(b"unread")
            right.disconnect()
            if strict:
                with pytest.raises(DisconnectedQueueError):
                    left.send_nowait(b"x")
            else:
                left.send_nowait(b"x")


@clause("QB-PY-11")
def test_a_woken_call_that_has_not_met_anybody_sleeps_on(loop: SteppedLoop) -> None:
    """Spurious wake-ups are harmless, however many (QB-CONC-6)."""
    with BrokerManager() as manager:
        broker = aio.QueueBroker("b", manager=manager)
        accept = loop.start(broker.accept(1))
        loop.run()
        [rdv] = broker.broker._broker.waiting
        for _ in range(3):
            rdv.wake()
            loop.run()
            assert not accept.done()
            assert rdv.asleep()

        with loop.run_until(loop.start(broker.connect("b", 1, required=True))):
            accept.result().close()


@clause("QB-PY-11")
def test_the_current_broker_is_that_of_the_coroutine(loop: SteppedLoop) -> None:
    """It is not the broker of another coroutine (QB-NAME-11)."""
    with BrokerManager() as manager:

        async def current(name: str) -> object:
            broker = aio.QueueBroker(name, manager=manager)
            with broker.as_current():
                await asyncio.sleep(0)
                assert broker.get_broker() is current_broker()
                return current_broker().name

        tasks = [loop.start(current(name)) for name in ("a", "b")]
        assert [loop.run_until(task) for task in tasks] == ["a", "b"]
