"""A cancel at any moment loses no message and leaves no waiter behind.

The loop runs one step at a time. The tests cancel, and trigger the awaited event,
before each of its steps, in both orders.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus import aio
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.cancels import first_of, orders, play
from tests.kit.stepped_loop import stepped_loop
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from bus import Bus, Overflow
    from tests.kit.stepped_loop import SteppedLoop

    Events = Sequence[tuple[int, str]]


@contextmanager
def loop_of(bus: Bus) -> Iterator[tuple[SteppedLoop, aio.Bus]]:
    """Yield a loop, and a bus for its coroutines; close it before the loop ends."""
    with stepped_loop() as loop:
        yield loop, aio.wrap(bus)
        bus.close(0)
        loop.run()


def hosted(loop: SteppedLoop, face: aio.Bus, overflow: Overflow = "error") -> aio.Task:
    """Register a task with room for one command, without a wait for its name."""

    async def register() -> aio.Task:
        thread = face._thread("register a task")
        options: dict[str, Any] = {"overflow": overflow, "capacity": 1}
        return aio.Task(face.bus.register("box", thread=thread, **options), thread)

    return loop.run_until(loop.start(register()))


async def _payload(step: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return (await step()).payload


def outcomes(case: Callable[[Bus, SteppedLoop, aio.Bus, Events], bool]) -> set[bool]:
    """Run a case for each order of events; return whether it was cancelled."""
    found = set()
    for events in orders():
        with memory_bus() as bus, loop_of(bus) as (loop, face):
            found.add(case(bus, loop, face, events))
    return found


@clause("BUS-MSG-10")
@pytest.mark.parametrize("timeout", [None, 9.0])
def test_a_receive_cancelled_at_any_step_loses_no_message(
    timeout: float | None,
) -> None:
    """The cancelled receive or the next one gets it."""

    def case(bus: Bus, loop: SteppedLoop, face: aio.Bus, events: Events) -> bool:
        box, sender = hosted(loop, face), bus.register("sender")
        receiving = loop.start(_payload(lambda: box.receive(timeout)))

        play(loop, receiving, lambda: sender.command("box", 1), events)

        if receiving.cancelled():
            assert loop.run_until(loop.start(_payload(box.receive))) == 1
        else:
            assert receiving.result() == 1
        assert not box.task._receiver.waiters
        return receiving.cancelled()

    assert outcomes(case) == {True, False}


@clause("BUS-MSG-5")
def test_a_step_of_a_listener_cancelled_at_any_step_loses_no_message() -> None:
    """The cancelled step or the next one gets it."""

    def case(bus: Bus, loop: SteppedLoop, face: aio.Bus, events: Events) -> bool:
        clock = bus.register("clock")

        async def listen() -> aio.Listener:
            return await face.listen("clock").__aenter__()

        messages = loop.run_until(loop.start(listen()))
        stepping = loop.start(_payload(lambda: first_of(messages)))

        play(loop, stepping, lambda: clock.notify(1), events)

        if stepping.cancelled():
            assert loop.run_until(loop.start(_payload(lambda: first_of(messages)))) == 1
        else:
            assert stepping.result() == 1
        return stepping.cancelled()

    assert outcomes(case) == {True, False}


@clause("BUS-MSG-11", "BUS-FLOW-5")
def test_a_call_cancelled_at_any_step_leaves_no_question() -> None:
    def case(bus: Bus, loop: SteppedLoop, face: aio.Bus, events: Events) -> bool:
        slow, may_answer, answered = bus.thread(), threading.Event(), threading.Event()
        bus.register("slow", thread=slow, on_command=lambda _: may_answer.wait(LIMIT_S))
        calling = loop.start(face.call("slow", timeout=None))

        def act() -> None:
            if calling.cancelled():
                assert not sum(each.questions for each in bus.tasks())
            may_answer.set()
            slow.call_soon(answered.set)
            assert answered.wait(LIMIT_S)

        play(loop, calling, act, events)

        assert calling.cancelled() or calling.result() is True
        assert not sum(each.questions for each in bus.tasks())
        return calling.cancelled()

    assert outcomes(case) == {True, False}


@clause("BUS-FLOW-6")
def test_a_command_cancelled_at_any_step_is_sent_or_not() -> None:
    """Either it returns and the addressee has the command, or neither."""

    def case(bus: Bus, loop: SteppedLoop, face: aio.Bus, events: Events) -> bool:
        box, sender = hosted(loop, face, "block"), bus.register("sender")
        sender.command("box", "first")
        sending = loop.start(face.command("box", "second"))

        play(loop, sending, lambda: loop.start(_payload(box.receive)), events)

        if sending.cancelled():
            sender.command("box", "last")
        got = loop.run_until(loop.start(_payload(box.receive)))
        assert got == ("last" if sending.cancelled() else "second")
        return sending.cancelled()

    assert outcomes(case) == {True, False}
