"""QB-PY-11: a cancel at any moment loses no message and leaves no waiter behind.

Under a loop that runs one step at a time: the cancel comes before every step, so does
the event that the caller waits for, and both come in either order.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerManager,
    DisconnectedQueueError,
    MessageQueue,
    RendezvousTimeoutError,
    aio,
)
from specs.clauses import clause
from tests.kit.cancels import first_of, orders, play
from tests.kit.stepped_loop import SteppedLoop, stepped_loop
from tests.meetings import nobody_waits
from tests.pairs import queue_pair
from tests.spec.kinds import KINDS, both_kinds

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Coroutine

    Call = Callable[[aio.MessageQueue], Coroutine[Any, Any, Any]]

RECEIVES: dict[str, Call] = {
    "receive": lambda face: face.receive(),
    "receive, timeout": lambda face: face.receive(timeout=9),
    "receive_many": lambda face: face.receive_many(),
    "receive_into": lambda face: face.receive_into(bytearray(9)),
    "async for": first_of,
    "receive_any": lambda face: aio.receive_any([face]),
}


@clause("QB-PY-11")
@both_kinds
def test_after_a_cancelled_receive_the_next_one_gets_the_message(kind: str) -> None:
    """A waiting receive is cancelled, then a message is sent."""
    with queue_pair(observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
        face = aio.wrap(left)
        task = loop.start(face.receive())
        loop.run()
        task.cancel()
        loop.run()
        assert task.cancelled()

        right.send(b"x")

        assert loop.run_until(loop.start(face.receive())) == b"x"


@pytest.mark.deep
@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("name", RECEIVES)
def test_a_receive_cancelled_anywhere_loses_no_message(kind: str, name: str) -> None:
    """The cancelled receive or the next one gets it, waiting or called later."""
    outcomes = set()
    for events in orders():
        with queue_pair(observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
            face = aio.wrap(left)
            task = loop.start(RECEIVES[name](face))
            other = loop.start(face.receive())

            play(loop, task, partial(right.send, b"x"), events)

            outcomes.add(task.cancelled())
            if task.cancelled():
                assert other.result() == b"x"
            else:
                assert not other.done()
                right.send(b"y")
                assert loop.run_until(other) == b"y"
            assert left.pending == 0
            assert_nobody_listed(left)
    assert outcomes == {True, False}


SENDS: dict[str, Call] = {
    "send": lambda face: face.send(b"x"),
    "send, timeout": lambda face: face.send(b"x", timeout=9),
    "send_many": lambda face: face.send_many([b"x"]),
}


@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("name", SENDS)
def test_a_send_cancelled_anywhere_is_done_or_not(kind: str, name: str) -> None:
    """It returns and its message is stored, or neither; other senders go on."""
    outcomes = set()
    for events in orders():
        with queue_pair(observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
            face = aio.wrap(left)
            left.send(b"first")
            task = loop.start(SENDS[name](face))
            other = loop.start(face.send(b"y"))

            play(loop, task, right.receive_nowait, events)

            outcomes.add(task.cancelled())
            if not task.cancelled():
                assert right.receive_nowait() == b"x"
            loop.run_until(other)
            assert right.receive_nowait() == b"y"
            assert right.pending == 0
            assert_nobody_listed(right)
    assert outcomes == {True, False}


def begin(
    loop: SteppedLoop,
    call: Callable[[], Coroutine[Any, Any, aio.MessageQueue]],
    tasks: list[Task[aio.MessageQueue]],
) -> None:
    tasks.append(loop.start(call()))


@clause("QB-PY-11")
@pytest.mark.parametrize("accepts", [True, False])
def test_an_accept_or_connect_cancelled_anywhere_leaves_no_ghost(
    accepts: bool,
) -> None:
    """The opposite call then waits, or gets an end whose peer has disconnected."""
    outcomes = set()
    for events in orders():
        with BrokerManager() as manager, stepped_loop() as loop:
            server = aio.QueueBroker("server", manager=manager)
            client = aio.QueueBroker("client", manager=manager)

            def accept(broker: aio.QueueBroker = server) -> Any:
                return broker.accept(1, timeout=9)

            def connect(broker: aio.QueueBroker = client) -> Any:
                return broker.connect("server", 1, required=True, timeout=9)

            call, opposite = (accept, connect) if accepts else (connect, accept)
            others: list[Task[aio.MessageQueue]] = []
            task = loop.start(call())

            play(loop, task, partial(begin, loop, opposite, others), events)

            [other] = others
            if not task.cancelled():
                outcomes.add("met")
                task.result().send_nowait(b"x")
                assert other.result().receive_nowait() == b"x"
                task.result().close()
                other.result().close()
            elif other.done():
                outcomes.add("hung up")
                with pytest.raises(DisconnectedQueueError):
                    other.result().receive_nowait()
            else:
                outcomes.add("alone")
                loop.advance(10)
                assert isinstance(other.exception(), RendezvousTimeoutError)
            nobody_waits(server.broker, client.broker)
    assert outcomes == {"met", "hung up", "alone"}


@clause("QB-PY-11")
def test_a_cancelled_step_of_accept_iter_accepts_no_connect_and_it_continues() -> None:
    """The next step gets the next connect."""
    with BrokerManager() as manager, stepped_loop() as loop:
        server = aio.QueueBroker("server", manager=manager)
        arrivals = server.accept_iter(1)

        async def step() -> aio.MessageQueue:
            return await anext(arrivals)

        task = loop.start(step())
        loop.run()
        task.cancel()
        loop.run()
        assert task.cancelled()
        assert server.waiting_accepts() == {}

        again = loop.start(step())
        connecting = loop.start(server.connect("server", 1, required=True))
        with loop.run_until(again) as accepted, connecting.result() as connected:
            connected.send_nowait(b"x")
            assert accepted.receive_nowait() == b"x"


@clause("QB-PY-11")
@both_kinds
def test_a_cancelled_iteration_goes_on_where_it_was(kind: str) -> None:
    """The iterator is not a generator, which a cancel would end."""
    with queue_pair(observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
        messages = aiter(aio.wrap(left))

        async def step() -> bytes:
            return await anext(messages)

        task = loop.start(step())
        loop.run()
        task.cancel()
        loop.run()
        assert task.cancelled()

        right.send(b"x")

        assert loop.run_until(loop.start(step())) == b"x"


@clause("QB-PY-11")
@both_kinds
def test_a_cancelled_send_many_has_sent_the_first_of_them(kind: str) -> None:
    """Its messages are sent in order, and no more than fit."""
    with queue_pair(2, observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
        task = loop.start(aio.wrap(left).send_many([b"1", b"2", b"3", b"4"]))
        loop.run()
        assert right.receive() == b"1"
        loop.run()

        task.cancel()
        loop.run()

        assert task.cancelled()
        assert right.receive_many() == [b"2", b"3"]


@clause("QB-PY-11")
@both_kinds
def test_a_coroutine_that_is_closed_while_it_waits_leaves_the_list(kind: str) -> None:
    """No loop cancels it; the next waiter gets the message."""
    with queue_pair(observer=KINDS[kind]) as (left, right), stepped_loop() as loop:
        asyncio._set_running_loop(loop._as_loop)
        try:
            forgotten = aio.wrap(left).receive()
            forgotten.send(None)
        finally:
            asyncio._set_running_loop(None)
        other = loop.start(aio.wrap(left).receive())
        loop.run()
        right.send(b"x")  # wakes the coroutine about to be closed

        forgotten.close()

        assert loop.run_until(other) == b"x"
        assert_nobody_listed(left)


def assert_nobody_listed(end: MessageQueue) -> None:
    """Check that no caller waits to receive at an end, nor to send to it."""
    buffer = end._connection.flows[end._side].buffer
    assert (len(buffer.arrived), len(buffer.room)) == (0, 0)
