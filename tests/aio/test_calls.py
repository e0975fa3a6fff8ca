"""Calls and commands of coroutines, at each distance."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus import CommandTimeoutError, UnknownTaskError, UnresolvedError, aio
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.bus.support import DISTANCES, FAR
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Incoming
    from tests.bus.support import There


@clause("BUS-MSG-11")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_coroutine_calls_a_task_of_a_thread(bus: Bus, there: There) -> None:
    if there.thread is not bus.here():
        there.register("echo", on_command=lambda message: message.payload)
    else:
        bus.register("echo", on_command=lambda message: message.payload)

    async def main() -> None:
        face = aio.wrap(bus)
        calls = [face.call(there.at("echo"), number) for number in range(5)]

        assert await asyncio.gather(*calls) == list(range(5))

    run(main())


@clause("BUS-MSG-11")
@pytest.mark.parametrize("distance", FAR)
def test_a_thread_calls_a_task_of_a_coroutine(bus: Bus, there: There) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        await face.register("echo", echo)

        calling = asyncio.to_thread(there.bus.call, there.back("echo"), 7)

        assert await calling == 7

    run(main())


def test_coroutines_and_threads_share_one_bus(bus: Bus) -> None:
    async def main() -> None:
        async with aio.wrap(bus) as face:
            await face.register("loop", echo)
            face.bus.register("thread", on_command=lambda message: -message.payload)

            assert await face.call("loop", 1) == 1
            assert await face.call("thread", 1) == -1
            assert await asyncio.to_thread(face.bus.call, "loop", 2) == 2

    run(main())


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
def test_a_call_ends_at_its_timeout(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        await face.register("box")

        with pytest.raises(CommandTimeoutError, match="'box'"):
            await face.call("box", timeout=0.001)
        with pytest.raises(UnresolvedError, match="'nobody'"):
            await face.call("nobody", timeout=0.001)
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await face.call("box")

    run(main())


@pytest.mark.parametrize("distance", FAR[-1:])
def test_the_timeout_of_a_call_names_the_cause(bus: Bus, there: There) -> None:
    there.register("box")

    async def slow(_: Incoming) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        near, far = aio.wrap(bus), aio.wrap(there.bus)
        await far.register("unread")
        await far.register("slow", slow)
        for to, why in (
            ("box", "it has no callback"),
            ("unread", "no coroutine receives its commands"),
            ("slow", "its handler handles 1 of its commands"),
        ):
            with pytest.raises(CommandTimeoutError, match=why):
                await near.call(there.at(to), timeout=0.5)

    run(main())


def test_a_cancelled_call_withdraws_its_command(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        box = await face.register("box")
        calling = asyncio.create_task(face.call("box", "withdrawn"))
        await asyncio.sleep(0)  # the command is sent
        calling.cancel()
        await asyncio.wait([calling])

        await face.command("box", "next")

        assert (await box.receive()).payload == "next"

    run(main())


def test_a_call_ends_when_the_bus_is_closed(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        await face.register("box")
        calling = asyncio.create_task(face.call("box", timeout=None))
        await asyncio.sleep(0)

        await face.close(drain=0)

        with pytest.raises(UnknownTaskError):
            await calling
        with pytest.raises(UnknownTaskError, match="closed"):
            await face.call("box")

    run(main())


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
