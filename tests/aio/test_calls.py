"""Calls and commands of coroutines, at each distance."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    Address,
    BusConfig,
    BusFullError,
    CommandTimeoutError,
    UnknownTaskError,
    UnresolvedError,
    aio,
)
from bus.kernel import constants
from bus.testing import memory_bus
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.bus.support import DISTANCES, FAR
from tests.kit.serving import serve
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bus import Bus, Incoming
    from tests.bus.support import There


@clause("BUS-MSG-11")
@pytest.mark.parametrize("distance", DISTANCES)
async def test_a_coroutine_calls_a_task_of_a_thread(
    bus: Bus, face: aio.Bus, there: There
) -> None:
    if there.thread is not bus.here():
        there.register("echo", on_command=lambda message: message.payload)
    else:
        bus.register("echo", on_command=lambda message: message.payload)
    calls = [face.call(there.at("echo"), number) for number in range(5)]

    assert await asyncio.gather(*calls) == list(range(5))


@clause("BUS-MSG-11")
@pytest.mark.parametrize("distance", FAR)
async def test_a_thread_calls_a_task_of_a_coroutine(
    bus: Bus, face: aio.Bus, there: There
) -> None:
    await face.register("echo", echo)

    calling = asyncio.to_thread(there.bus.call, there.back("echo"), 7)

    assert await calling == 7


async def test_coroutines_and_threads_share_one_bus(bus: Bus) -> None:
    async with aio.wrap(bus) as face:
        await face.register("loop", echo)
        face.bus.register("thread", on_command=lambda message: -message.payload)

        assert await face.call("loop", 1) == 1
        assert await face.call("thread", 1) == -1
        assert await asyncio.to_thread(face.bus.call, "loop", 2) == 2


def test_two_event_loops_share_one_bus(bus: Bus) -> None:
    ready = threading.Event()

    async def serve(stop: asyncio.Event) -> None:
        await aio.wrap(bus).register("echo", echo)
        ready.set()
        await stop.wait()

    async def ask() -> Any:
        return await aio.wrap(bus).call("echo", 1)

    with Threads() as threads:
        loop, stop = asyncio.new_event_loop(), asyncio.Event()
        serving = threads.start(loop.run_until_complete, serve(stop))
        assert ready.wait(LIMIT_S)

        assert asyncio.run(ask()) == 1

        loop.call_soon_threadsafe(stop.set)
        serving.result(LIMIT_S)
        loop.close()


@clause("BUS-FLOW-5")
async def test_a_call_ends_at_its_timeout(face: aio.Bus) -> None:
    await face.register("box")

    with pytest.raises(CommandTimeoutError, match="'box'"):
        await face.call("box", timeout=0.001)
    with pytest.raises(UnresolvedError, match="'nobody'"):
        await face.call("nobody", timeout=0.001)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await face.call("box")


@pytest.mark.parametrize("distance", FAR[-1:])
async def test_the_timeout_of_a_call_names_the_cause(
    bus: Bus, face: aio.Bus, there: There
) -> None:
    there.register("box")

    async def slow(_: Incoming) -> None:
        await asyncio.Event().wait()

    near, far = face, aio.wrap(there.bus)
    await far.register("unread")
    await far.register("slow", slow)
    for to, why in (
        ("box", "it has no callback"),
        ("unread", "no coroutine receives its commands"),
        ("slow", "its handler handles 1 of its commands"),
    ):
        with pytest.raises(CommandTimeoutError, match=why):
            await near.call(there.at(to), timeout=0.5)


async def test_no_idle_handler_is_the_cause_of_a_timeout(face: aio.Bus) -> None:
    """Its error used to say that the handler had not returned."""
    await face.register("echo", echo)

    with pytest.raises(CommandTimeoutError) as raised:
        await face.call("echo", timeout=0)

    assert not raised.value.why


async def test_a_failed_call_leaves_no_garbage(face: aio.Bus) -> None:
    """Its error and its frame used to hold one another, and the loop's descriptor."""
    await face.register("box")
    gc.disable()
    try:
        try:
            await face.call("box", timeout=0)
        except CommandTimeoutError as error:
            failed = weakref.ref(error)

        assert failed() is None
    finally:
        gc.enable()


async def test_a_cancelled_call_withdraws_its_command(face: aio.Bus) -> None:
    box = await face.register("box")
    calling = asyncio.create_task(face.call("box", "withdrawn"))
    await asyncio.sleep(0)  # the command is sent
    calling.cancel()
    await asyncio.wait([calling])

    await face.command("box", "next")

    assert (await box.receive()).payload == "next"


async def test_a_call_ends_when_the_bus_is_closed(face: aio.Bus) -> None:
    await face.register("box")
    calling = asyncio.create_task(face.call("box", timeout=None))
    await asyncio.sleep(0)

    await face.close(drain=0)

    with pytest.raises(UnknownTaskError):
        await calling
    with pytest.raises(UnknownTaskError, match="closed"):
        await face.call("box")


@clause("BUS-MSG-11")
def test_a_call_that_would_stop_the_loop_is_refused(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        task = await face.register("box")
        calls: list[Callable[[], object]] = [
            lambda: bus.call("box"),
            lambda: task.task.call("box"),
            lambda: bus.wait_for("box"),
            lambda: bus.listen("box"),
            lambda: bus.subscribe("box", print, wait=True),
            task.task.wait_for_subscribers,
            task.task.receive,
            task.task.thread.run,
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match=r"in an event loop.*bus\.aio"):
                call()

    run(main())
    bus.register("echo", on_command=lambda _: 1)  # no loop runs any more
    assert bus.call("echo") == 1


# Room.


@clause("BUS-FLOW-6")
async def test_a_command_without_room_for_its_bytes_is_refused_in_time() -> None:
    """It has room for one byte, and the wait for that ended at once, without end."""
    config = BusConfig(task_fifo_bytes=1000, send_timeout_s=0.01)
    with memory_bus(config=config) as bus:
        face = aio.wrap(bus)
        await face.register("box", overflow="block")
        await face.command("box", bytes(600))

        for send in (face.command, face.call):
            with pytest.raises(BusFullError):
                await send("box", bytes(600))


@clause("BUS-FLOW-2")
async def test_a_command_to_a_full_parked_list_is_refused(face: aio.Bus) -> None:
    for number in range(constants.PARKED_PER_NAME):
        await face.command("nobody", number)

    with pytest.raises(BusFullError, match="the parked list of 'nobody'"):
        await face.command("nobody", "refused")


@clause("BUS-FLOW-6")
async def test_a_call_waits_for_room(face: aio.Bus) -> None:
    box = await face.register("box", overflow="block", capacity=1)
    await face.command("box", "first")
    calling = asyncio.create_task(face.call("box", "second"))
    await asyncio.sleep(0)

    assert (await box.receive()).payload == "first"
    (await box.receive()).respond("answer")

    assert await calling == "answer"


# Loops and threads.


def in_other_loop(call: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Await a call in an event loop of another thread."""

    async def awaited() -> None:
        await call()

    with Threads() as threads:
        threads.start(asyncio.run, awaited()).result(LIMIT_S)


async def test_a_task_is_refused_in_another_event_loop(face: aio.Bus) -> None:
    """There it used to block that loop, or to wait on waiters of the wrong one."""
    box, messages = await face.register("box"), face.listen("clock")
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: box.call("box"),
        lambda: box.command("box"),
        lambda: box.loan(8, on_full="wait"),
        box.wait_for_subscribers,
        box.receive,
        messages.__aenter__,
        messages.__anext__,
        lambda: face.hand_over(box, "elsewhere"),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await asyncio.to_thread(in_other_loop, call)


@clause("BUS-MSG-11")
def test_a_stopped_loop_refuses_no_plain_call(bus: Bus) -> None:
    bus.register("echo", on_command=lambda message: message.payload)

    with asyncio.Runner() as runner:
        assert runner.run(aio.wrap(bus).call("echo", 1)) == 1
        assert bus.call("echo", 2) == 2
        assert runner.run(_refused(bus))


async def _refused(bus: Bus) -> bool:
    try:
        bus.call("echo")
    except RuntimeError:
        return True
    return False


@clause("BUS-MSG-11")
def test_a_task_of_a_stopped_loop_makes_no_plain_call(bus: Bus) -> None:
    bus.register("echo", on_command=lambda message: message.payload)
    with asyncio.Runner() as runner:
        task = runner.run(aio.wrap(bus).register("box")).task

        for act in (lambda: task.call("echo"), task.receive, task.thread.poll):
            with pytest.raises(RuntimeError, match="its event loop serves"):
                act()


@clause("BUS-MSG-11")
def test_a_callback_may_run_a_loop_and_is_a_callback_afterwards(bus: Bus) -> None:
    bus.register("echo", on_command=lambda message: message.payload)
    seen: list[object] = []

    def nested(_: Incoming) -> None:
        seen.append(asyncio.run(aio.wrap(bus).call("echo", 1)))
        with pytest.raises(RuntimeError, match="within a callback"):
            bus.call("echo")
        seen.append("refused")

    bus.register("nested", thread=bus.here(), on_command=nested)
    bus.command("nested")
    serve(bus, lambda: len(seen) == 2, "the callback has run")

    assert seen == [1, "refused"]


async def test_a_timeout_is_raised_whatever_the_inspector_does(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = aio.Task._ask

    async def ask(task: aio.Task, to: Any, *args: Any) -> Any:
        if isinstance(to, Address):
            raise UnknownTaskError("the inspector")
        return await real(task, to, *args)

    monkeypatch.setattr(aio.Task, "_ask", ask)
    came = threading.Event()

    def ignore(_: Incoming) -> Any:
        came.set()
        return NOREPLY

    with memory_bus(process="other", beside=bus) as far:
        far.register("box", on_command=ignore)
        face = aio.wrap(bus)
        await face.command("box")  # the name is resolved by the time it comes
        await asyncio.to_thread(came.wait, LIMIT_S)
        with pytest.raises(CommandTimeoutError, match="'box'"):
            await face.call("box", timeout=0.01)
