"""Opening and wrapping a bus for coroutines, and the thread of a rare call."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from bus import BusConfig, aio, open_bus
from bus.aio import waits
from tests.aio.support import echo, run
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from bus import Bus, Incoming


async def test_rare_calls_need_no_thread_of_the_executor(bus: Bus) -> None:
    """All of its threads may wait for a task of this loop."""
    loop, face = asyncio.get_running_loop(), aio.wrap(bus)
    loop.set_default_executor(ThreadPoolExecutor(1))

    @face.task("slow")
    async def slow(_: Incoming) -> str:
        return str((await face.register("late")).address.module)

    assert await asyncio.to_thread(bus.call, "slow") == "late"


def test_a_call_cancelled_in_its_thread_is_undone() -> None:
    undone, go = threading.Event(), threading.Event()

    async def main() -> None:
        calling = asyncio.create_task(
            waits.in_thread(lambda: go.wait(LIMIT_S), lambda _: undone.set())
        )
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.wait([calling])
        go.set()

    run(main())
    assert undone.wait(LIMIT_S)


async def test_an_exception_of_a_thread_comes_to_its_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        await waits.in_thread(lambda: 1 // 0)


def test_open_bus_needs_an_await() -> None:
    with pytest.raises(AttributeError, match="call: the bus is not open yet"):
        aio.open_bus("house").call  # noqa: B018


def test_a_bus_outside_of_a_loop_names_the_remedy(bus: Bus) -> None:
    with pytest.raises(RuntimeError, match=r"cannot listen on bus .*no event loop"):
        aio.wrap(bus).listen("clock")


async def test_open_bus_opens_and_closes() -> None:
    async with aio.open_bus("house", config=BusConfig()) as face:
        assert face.bus.name == "house"
        await face.register("echo", echo)
        assert await face.call("echo", 1) == 1
    face = await aio.open_bus("house")
    await face.close()
    with open_bus("house"):
        pass


def test_wrap_takes_a_bus_and_nothing_else() -> None:
    with pytest.raises(TypeError, match=r"bus must be a bus\.Bus"):
        aio.wrap("house")  # type: ignore[arg-type]
