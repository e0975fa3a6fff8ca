"""A cancel at any moment loses no message and leaves no waiter behind (BP-6).

Under a loop that runs one step at a time: the cancel comes before every step, so does
the event that the call waits for, and both come in either order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, PairSocket, SocketConfig, aio
from specs.clauses import clause
from tests.kit.cancels import first_of, orders, play
from tests.kit.stepped_loop import stepped_loop
from tests.pattern.inproc_pairs import connect, nobody_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Call = Callable[[aio.BusSocket], Coroutine[Any, Any, bytes]]

RECEIVES: dict[str, Call] = {
    "receive": lambda face: face.receive(),
    "receive, timeout": lambda face: face.receive(9),
    "async for": first_of,
}


@clause("BP-6", "BP-19")
@pytest.mark.parametrize("name", RECEIVES)
def test_a_receive_cancelled_anywhere_loses_no_message(name: str) -> None:
    """The cancelled receive or the next one gets it, waiting or called later."""
    outcomes = set()
    for events in orders():
        with BusSocket() as left, BusSocket() as right, stepped_loop() as loop:
            connect(left, right)
            face = aio.wrap(right)
            task = loop.start(RECEIVES[name](face))
            other = loop.start(face.receive())

            play(loop, task, lambda: left.send(b"x"), events)

            outcomes.add(task.cancelled())
            if task.cancelled():
                assert other.result() == b"x"
            else:
                assert task.result() == b"x"
                left.send(b"y")
                assert loop.run_until(other) == b"y"
            assert right.stats.received_queued == 0
            assert nobody_waits(right)
    assert outcomes == {True, False}


@clause("BP-6")
@pytest.mark.parametrize("waits_for", ["a peer", "room"])
def test_a_send_cancelled_anywhere_is_done_or_not(waits_for: str) -> None:
    """It returns and its message is sent, or neither; other senders go on."""
    outcomes = set()
    config = SocketConfig(send_messages=1)
    for events in orders():
        with PairSocket(config) as left, PairSocket() as right, stepped_loop() as loop:
            face = aio.wrap(left)
            if waits_for == "a peer":

                def act() -> None:
                    connect(left, right)

            else:
                end = connect(left, right)
                end.queue.blocked = True
                left.send(b"first")

                def act() -> None:
                    end.queue.unblock()  # noqa: B023
                    left._node.on_room()

            task = loop.start(face.send(b"x"))
            other = loop.start(face.send(b"y"))

            play(loop, task, act, events)

            loop.run_until(other)
            outcomes.add(task.cancelled())
            arrived = [right.receive_nowait() for _ in range(left.stats.sent)]
            assert (b"x" in arrived) is not task.cancelled()
            assert arrived.count(b"y") == 1
            assert right.stats.received_queued == 0
            assert nobody_waits(left)
    assert outcomes == {True, False}


def test_a_coroutine_that_is_closed_while_it_waits_leaves_the_list() -> None:
    with BusSocket() as left, BusSocket() as right, stepped_loop() as loop:
        connect(left, right)
        call = aio.wrap(right).receive()
        task = loop.start(_closing(call))
        other = loop.start(aio.wrap(right).receive())
        loop.run()
        assert len(right._node.inbound.receivers) == 2

        call.close()
        left.send(b"x")

        assert loop.run_until(other) == b"x"
        assert nobody_waits(right)
        task.cancel()
        loop.run()


async def _closing(call: Coroutine[Any, Any, bytes]) -> None:
    """Drive a coroutine by hand up to its wait."""
    await call.send(None)
