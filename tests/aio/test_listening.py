"""Listeners, watchers and waits for names, at each distance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bus import CommandTimeoutError, UnknownTaskError, aio
from specs.clauses import clause
from tests.bus.support import DISTANCES, FAR
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from bus import Bus
    from tests.bus.support import There


@clause("BUS-MSG-5", "BUS-MSG-18")
@pytest.mark.parametrize("distance", DISTANCES)
async def test_a_listener_gets_each_notification(face: aio.Bus, there: There) -> None:
    clock = there.register("clock")
    async with face.listen(there.at("clock")) as messages:
        for number in range(5):
            clock.notify(number)

        got = [(await anext(messages)).payload for _ in range(5)]

    assert got == list(range(5))


@clause("BUS-FLOW-6")
async def test_unread_notifications_count_against_the_capacity(
    bus: Bus, face: aio.Bus
) -> None:
    clock = bus.register("clock")
    async with face.listen("clock", capacity=2, timeout=0) as messages:
        for number in range(5):
            clock.notify(number)
            await asyncio.sleep(0)

        assert [each.payload async for each in messages] == [3, 4]
        assert messages.dropped == 3


@clause("BUS-DEREG-12")
async def test_listeners_and_watchers_end_with_the_bus(face: aio.Bus) -> None:
    listening = asyncio.create_task(_all(face.listen("clock")))
    watching = asyncio.create_task(_all(face.watch("clock")))
    await asyncio.sleep(0)

    await face.close(drain=0)

    assert await listening == []
    assert await watching == []


async def _all(iterator: Any) -> list[Any]:
    return [each async for each in iterator]


@clause("BUS-DEREG-14")
async def test_a_dropped_listener_unsubscribes(bus: Bus, face: aio.Bus) -> None:
    listener = face.listen("clock")
    watcher = face.watch("clock")
    assert len(bus.tasks()) == 2

    del listener, watcher

    while bus.tasks():
        await asyncio.sleep(0)


@pytest.mark.parametrize("distance", DISTANCES)
async def test_a_watcher_sees_tasks_come_and_go(face: aio.Bus, there: There) -> None:
    async with face.watch(there.at("lamp")) as presences:
        lamp = await asyncio.to_thread(there.register, "lamp")
        assert (await anext(presences)).here
        lamp.deregister()
        assert not (await anext(presences)).here


@pytest.mark.parametrize("distance", FAR)
async def test_a_coroutine_waits_for_a_name(face: aio.Bus, there: There) -> None:
    with pytest.raises(CommandTimeoutError, match="no task found"):
        await face.wait_for(there.at("late"), timeout=0)
    waiting = asyncio.create_task(face.wait_for(there.at("late"), timeout=None))
    await asyncio.sleep(0)
    await asyncio.to_thread(there.register, "late")

    assert (await waiting).module == "late"


@clause("BUS-MSG-19")
@pytest.mark.parametrize("distance", FAR)
async def test_a_notifier_waits_for_its_subscribers(
    face: aio.Bus, there: There
) -> None:
    clock = await face.register("clock")
    assert not await clock.wait_for_subscribers(timeout=0)
    got = asyncio.Queue[Any]()
    loop = asyncio.get_running_loop()
    far = there.register("far")
    far.subscribe(
        there.back("clock"),
        lambda message: loop.call_soon_threadsafe(got.put_nowait, message.payload),
    )

    assert await clock.wait_for_subscribers()
    clock.notify("tick")

    assert await got.get() == "tick"


@clause("BUS-MSG-14")
async def test_a_service_turns_commands_into_notifications(face: aio.Bus) -> None:
    await face.service("news", lambda message: message.payload.upper())
    async with face.listen("news") as messages:
        await face.command("news", "rain")

        assert (await anext(messages)).payload == "RAIN"


@clause("BUS-DEREG-12")
async def test_an_asynchronous_generator_closes_what_it_has_opened(bus: Bus) -> None:
    async def readings() -> AsyncGenerator[Any, None]:
        async with aio.wrap(bus) as face, face.listen("clock") as messages:
            async for message in messages:
                yield message.payload

    clock, generator = bus.register("clock"), readings()
    reading = asyncio.ensure_future(anext(generator))
    while len(bus.tasks()) == 1:
        await asyncio.sleep(0)
    clock.notify(1)
    assert await reading == 1

    await generator.aclose()

    assert not bus.tasks()


@clause("BUS-DEREG-14")
@pytest.mark.parametrize("iterates", ["listen", "watch"])
async def test_the_next_message_for_a_dropped_iterator_ends_it(
    bus: Bus, face: aio.Bus, iterates: str
) -> None:
    clock = bus.register("clock")
    iterator = getattr(face, iterates)("clock")
    task = iterator._task
    del iterator

    # Neither call runs the orphans.
    clock.notify(1)
    clock.deregister()
    while task._entry.host is not None:
        await asyncio.sleep(0)


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
async def test_a_wait_for_a_name_of_a_closed_bus_ends(timeout: float | None) -> None:
    async with aio.open_bus("one") as one:
        two = await aio.open_bus("two")
        name = f"ism://two@{two.bus.machine}/late"
        waiting = asyncio.create_task(one.wait_for(name, timeout))
        await asyncio.sleep(0)

        await two.close()

        with pytest.raises(UnknownTaskError, match="bus 'two' is closed"):
            await waiting
