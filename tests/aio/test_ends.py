"""The end of a bus, of an event loop, or of the thread that ran it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bus import UnknownTaskError, aio
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from bus import Bus, Incoming


@clause("BUS-DEREG-12")
def test_closing_handles_the_unread_commands(bus: Bus) -> None:
    async def main() -> None:
        face, got = aio.wrap(bus), []

        @face.task("slow")
        async def slow(message: Incoming) -> None:
            await asyncio.sleep(0)
            got.append(message.payload)

        for number in range(5):
            await face.command("slow", number)

        await face.close(drain=LIMIT_S)

        assert got == list(range(5))

    run(main())


@clause("BUS-DEREG-9")
def test_the_end_of_a_loop_deregisters_its_tasks(bus: Bus) -> None:
    async def main() -> None:
        await aio.wrap(bus).register("echo", echo)

    run(main())

    assert not bus.tasks()
    assert not bus.inspect().threads


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("closed", [False, True])
def test_a_bus_can_be_closed_after_its_loop_has_stopped(
    bus: Bus, *, closed: bool
) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(aio.wrap(bus).register("echo", echo))
    if closed:
        loop.close()

    bus.close()

    assert not bus.inspect().threads
    if not closed:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def test_a_thread_closes_the_bus_of_a_running_loop(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        box = await face.register("box")
        receiving = asyncio.create_task(box.receive())
        await asyncio.sleep(0)

        await asyncio.to_thread(face.bus.close)

        with pytest.raises(UnknownTaskError):
            await receiving

    run(main())


def test_a_handler_closes_the_bus(bus: Bus) -> None:
    """It does not wait for its own end, and its caller gets the answer."""

    async def main() -> None:
        face = aio.wrap(bus)

        @face.task("quit")
        async def stop(_: Incoming) -> str:
            await face.close(drain=LIMIT_S)
            return "closing"

        assert await asyncio.to_thread(bus.call, "quit") == "closing"
        closing = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(closing)

        assert not bus.inspect().threads

    run(main())
