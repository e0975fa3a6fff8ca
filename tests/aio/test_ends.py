"""The end of a bus, of an event loop, or of the thread that ran it."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import TYPE_CHECKING

import pytest

from bus import UnknownTaskError, aio
from bus.testing import memory_bus
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.kit.constants import set_constants
from tests.kit.systems import needs_fork
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus, BusThread, Incoming


@pytest.fixture(autouse=True)
def abandoned() -> Iterator[None]:
    """Collect the coroutines of a closed loop: one pass ends them, the next frees."""
    yield
    gc.collect()
    gc.collect()


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


@clause("BUS-DEREG-12")
def test_no_command_is_taken_once_the_handlers_are_cancelled(bus: Bus) -> None:
    async def main() -> None:
        face, begun = aio.wrap(bus), []

        @face.task("stuck")
        async def stuck(message: Incoming) -> None:
            begun.append(message.payload)
            await asyncio.Event().wait()

        for number in range(3):
            await face.command("stuck", number)
        while not begun:
            await asyncio.sleep(0)

        await face.close(drain=0)

        assert begun == [0]

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


@clause("BUS-DEREG-12")
def test_a_handler_of_another_loop_than_the_last_closes_the_bus(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)

        @face.task("quit")
        async def stop(_: Incoming) -> str:
            await face.close(drain=LIMIT_S)
            return "closing"

        await asyncio.to_thread(lambda: asyncio.run(face.command("nobody")))

        assert await asyncio.to_thread(bus.call, "quit") == "closing"
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})

    run(main())


@clause("BUS-DEREG-12")
def test_a_bus_can_be_closed_after_the_thread_of_a_stopped_loop_has_ended(
    bus: Bus,
) -> None:
    loop = asyncio.new_event_loop()
    with Threads() as threads:
        threads.start(
            lambda: loop.run_until_complete(aio.wrap(bus).register("echo", echo))
        ).join()

    bus.close()

    assert not bus.inspect().threads
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@clause("BUS-DEREG-12")
def test_a_bus_is_closed_once_its_stopped_loop_is(bus: Bus) -> None:
    set_constants(STUCK_CALLBACK_S=0.01)
    loop = asyncio.new_event_loop()
    thread = loop.run_until_complete(_thread_of(aio.wrap(bus)))
    with Threads() as threads:
        closing = threads.start(bus.close)
        until(lambda: thread.stopped, "another thread waits for the end")

        loop.close()

        closing.result(LIMIT_S)
    assert not bus.inspect().threads


async def _thread_of(face: aio.Bus) -> BusThread:
    return (await face.register("echo", echo)).task.thread


@clause("BUS-DEREG-12")
def test_a_loop_runs_on_after_the_close_of_a_bus_while_it_was_stopped(
    bus: Bus,
) -> None:
    """Its other bus used to lose the note that the loop runs."""
    errors: list[object] = []
    with asyncio.Runner() as runner, memory_bus("other") as other:
        loop = runner.get_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        runner.run(aio.wrap(bus).register("echo", echo))
        task = runner.run(aio.wrap(other).register("echo", echo))

        bus.close()

        async def call() -> None:
            assert await aio.wrap(other).call("echo", 1) == 1
            with pytest.raises(RuntimeError, match="in an event loop"):
                other.call("echo")
            task.deregister()

        runner.run(call())
    gc.collect()
    assert not errors


@clause("BUS-DEREG-9")
def test_the_next_loop_ends_the_thread_of_a_closed_one(bus: Bus) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(aio.wrap(bus).register("echo", echo))
    loop.close()

    run(_registers(bus, "echo"))

    assert not bus.tasks()
    assert not bus.inspect().threads


async def _registers(bus: Bus, name: str) -> None:
    await aio.wrap(bus).register(name)


def test_a_coroutine_calls_as_its_loop_ends(bus: Bus) -> None:
    bus.register("echo", on_command=lambda message: message.payload)
    answers = []

    async def clean_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(5):  # the tasks of the loop have deregistered
                await asyncio.sleep(0)
            answers.append(await aio.wrap(bus).call("echo", 1))

    async def main() -> None:
        await aio.wrap(bus).register("box")
        cleaning.append(asyncio.create_task(clean_up()))
        await asyncio.sleep(0)

    cleaning: list[asyncio.Task[None]] = []
    run(main())

    assert answers == [1]
    assert bus.call("echo", 2) == 2


def test_the_cleanup_of_a_cancelled_handler_may_call(bus: Bus) -> None:
    """The thread used to serve nothing while it waited for the handlers."""

    async def main() -> None:
        face, begun, cleaned = aio.wrap(bus), asyncio.Event(), []
        box = bus.register("echo", on_command=lambda message: message.payload)

        @face.task("slow")
        async def slow(_: Incoming) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append(await slow.call("echo", 1))

        await face.command("slow")
        await begun.wait()
        await asyncio.to_thread(slow.task.thread.stop)
        box.deregister()

        assert cleaned == [1]

    run(main())


@needs_fork
@clause("BUS-INIT-16")
def test_a_forked_child_leaves_its_copy_of_a_loop(bus: Bus) -> None:
    parent, statuses = os.getpid(), []

    async def main() -> None:
        face = aio.wrap(bus)
        await face.register("echo", echo)
        if child := os.fork():
            statuses.append(os.waitpid(child, 0)[1])
        else:
            async with face:
                raise SystemExit

    try:
        run(main())
    except SystemExit:
        os._exit(0)
    finally:
        if os.getpid() != parent:
            os._exit(1)
    assert statuses == [0]
