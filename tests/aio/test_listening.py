"""Listeners, watchers and waits for names, at each distance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bus import CommandTimeoutError, UnknownTaskError, aio
from specs.clauses import clause
from tests.aio.support import run
from tests.bus.support import DISTANCES, FAR
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from bus import Bus
    from tests.bus.support import There


@clause("BUS-MSG-5", "BUS-MSG-18")
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_listener_gets_each_notification(bus: Bus, there: There) -> None:
    clock = there.register("clock")

    async def main() -> None:
        async with aio.wrap(bus).listen(there.at("clock")) as messages:
            for number in range(5):
                clock.notify(number)

            got = [(await anext(messages)).payload for _ in range(5)]

        assert got == list(range(5))

    run(main())


@clause("BUS-FLOW-6")
def test_unread_notifications_count_against_the_capacity(bus: Bus) -> None:
    async def main() -> None:
        clock = bus.register("clock")
        face = aio.wrap(bus)
        async with face.listen("clock", capacity=2, timeout=0) as messages:
            for number in range(5):
                clock.notify(number)
                await asyncio.sleep(0)

            assert [each.payload async for each in messages] == [3, 4]
            assert messages.dropped == 3

    run(main())


def test_a_cancelled_step_of_a_listener_loses_nothing(bus: Bus) -> None:
    async def main() -> None:
        clock = bus.register("clock")
        async with aio.wrap(bus).listen("clock") as messages:
            stepping = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0)
            stepping.cancel()
            await asyncio.wait([stepping])
            clock.notify(1)

            assert (await anext(messages)).payload == 1

    run(main())


@clause("BUS-DEREG-12")
def test_listeners_and_watchers_end_with_the_bus(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        listening = asyncio.create_task(_all(face.listen("clock")))
        watching = asyncio.create_task(_all(face.watch("clock")))
        await asyncio.sleep(0)

        await face.close(drain=0)

        assert await listening == []
        assert await watching == []

    run(main())


async def _all(iterator: Any) -> list[Any]:
    return [each async for each in iterator]


@clause("BUS-DEREG-14")
def test_a_dropped_listener_unsubscribes(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        listener = face.listen("clock")
        watcher = face.watch("clock")
        assert len(bus.tasks()) == 2

        del listener, watcher

        while bus.tasks():
            await asyncio.sleep(0)

    run(main())


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_watcher_sees_tasks_come_and_go(bus: Bus, there: There) -> None:
    async def main() -> None:
        async with aio.wrap(bus).watch(there.at("lamp")) as presences:
            lamp = await asyncio.to_thread(there.register, "lamp")
            assert (await anext(presences)).here
            lamp.deregister()
            assert not (await anext(presences)).here

    run(main())


@pytest.mark.parametrize("distance", FAR)
def test_a_coroutine_waits_for_a_name(bus: Bus, there: There) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        with pytest.raises(CommandTimeoutError, match="no task found"):
            await face.wait_for(there.at("late"), timeout=0)
        waiting = asyncio.create_task(face.wait_for(there.at("late"), timeout=None))
        await asyncio.sleep(0)
        await asyncio.to_thread(there.register, "late")

        assert (await waiting).module == "late"

    run(main())


@clause("BUS-MSG-19")
@pytest.mark.parametrize("distance", FAR)
def test_a_notifier_waits_for_its_subscribers(bus: Bus, there: There) -> None:
    async def main() -> None:
        clock = await aio.wrap(bus).register("clock")
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

    run(main())


@clause("BUS-MSG-14")
def test_a_service_turns_commands_into_notifications(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        await face.service("news", lambda message: message.payload.upper())
        async with face.listen("news") as messages:
            await face.command("news", "rain")

            assert (await anext(messages)).payload == "RAIN"

    run(main())


@clause("BUS-DEREG-14")
@pytest.mark.parametrize("iterates", ["listen", "watch"])
def test_the_next_message_for_a_dropped_iterator_ends_it(
    bus: Bus, iterates: str
) -> None:
    async def main() -> None:
        clock = bus.register("clock")
        iterator = getattr(aio.wrap(bus), iterates)("clock")
        task = iterator._task
        del iterator

        # Neither call runs the orphans.
        clock.notify(1)
        clock.deregister()
        while task._entry.host is not None:
            await asyncio.sleep(0)

    run(main())


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
def test_a_wait_for_a_name_of_a_closed_bus_ends(timeout: float | None) -> None:
    async def main() -> None:
        async with aio.open_bus("one") as one:
            two = await aio.open_bus("two")
            name = f"ism://two@{two.bus.machine}/late"
            waiting = asyncio.create_task(one.wait_for(name, timeout))
            await asyncio.sleep(0)

            await two.close()

            with pytest.raises(UnknownTaskError, match="bus 'two' is closed"):
                await waiting

    run(main())
