"""The end of a bus, of an event loop, or of the thread that ran it."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus import NOREPLY, UnknownTaskError, aio
from bus.kernel.tasks.process_manager import ProcessManager
from bus.testing import memory_bus
from queuebroker.aio.waker import Waker
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.kit.collector import collecting
from tests.kit.constants import set_constants
from tests.kit.systems import needs_fork
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from bus import Bus, Incoming


@pytest.fixture(autouse=True)
def abandoned() -> Iterator[None]:
    """Collect the coroutines of a closed loop: one pass ends them, the next frees."""
    yield
    gc.collect()
    gc.collect()


@clause("BUS-DEREG-12")
async def test_closing_handles_the_unread_commands(face: aio.Bus) -> None:
    got = []

    @face.task("slow")
    async def slow(message: Incoming) -> None:
        await asyncio.sleep(0)
        got.append(message.payload)

    for number in range(5):
        await face.command("slow", number)

    await face.close(drain=LIMIT_S)

    assert got == list(range(5))


@clause("BUS-DEREG-12")
async def test_no_command_is_taken_once_the_handlers_are_cancelled(
    face: aio.Bus,
) -> None:
    begun = []

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


@clause("BUS-DEREG-9")
def test_the_end_of_a_loop_deregisters_its_tasks(bus: Bus) -> None:
    async def main() -> None:
        await aio.wrap(bus).register("echo", echo)

    run(main())

    assert not bus.tasks()
    assert not bus.inspect().threads


@clause("BUS-DEREG-9")
def test_the_end_of_a_loop_that_a_callback_ends_deregisters_its_tasks(bus: Bus) -> None:
    """The loop used to cancel the serving asyncio task before that had begun again."""

    def leave(_: Incoming) -> None:
        raise SystemExit

    async def main() -> None:
        box = await aio.wrap(bus).register("box")
        bus.register("leave", thread=box.task.thread, on_command=leave)
        await box.command("leave")
        await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        run(main())

    assert not bus.tasks()
    gc.collect()  # asyncio logs the exit that it has raised in the loop


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


async def test_a_thread_closes_the_bus_of_a_running_loop(
    bus: Bus, face: aio.Bus
) -> None:
    box = await face.register("box")
    receiving = asyncio.create_task(box.receive())
    await asyncio.sleep(0)

    await asyncio.to_thread(face.bus.close)

    with pytest.raises(UnknownTaskError):
        await receiving


async def test_a_handler_closes_the_bus(bus: Bus, face: aio.Bus) -> None:
    """It does not wait for its own end, and its caller gets the answer."""

    @face.task("quit")
    async def stop(_: Incoming) -> str:
        await face.close(drain=LIMIT_S)
        return "closing"

    assert await asyncio.to_thread(bus.call, "quit") == "closing"
    closing = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*closing, return_exceptions=True)  # it may have ended

    assert not bus.inspect().threads


@clause("BUS-DEREG-12")
async def test_a_handler_of_another_loop_than_the_last_closes_the_bus(
    bus: Bus, face: aio.Bus
) -> None:
    @face.task("quit")
    async def stop(_: Incoming) -> str:
        await face.close(drain=LIMIT_S)
        return "closing"

    await asyncio.to_thread(lambda: asyncio.run(face.command("nobody")))

    assert await asyncio.to_thread(bus.call, "quit") == "closing"
    closing = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*closing, return_exceptions=True)  # it may have ended


@clause("BUS-DEREG-12")
def test_a_thread_closes_the_bus_of_a_stopped_loop_of_another_one(bus: Bus) -> None:
    """It used to wait until that thread ran the loop again, or ended."""
    with asyncio.Runner() as runner, Threads() as threads:
        runner.run(aio.wrap(bus).register("echo", echo))

        threads.start(bus.close).result(LIMIT_S)

        assert not bus.inspect().threads
        runner.run(asyncio.sleep(0))


@clause("BUS-DEREG-12")
def test_a_loop_that_starts_as_another_thread_closes_the_bus_ends_by_itself(
    bus: Bus,
) -> None:
    closes, starts, closed = (threading.Event() for _ in range(3))
    looks = iter([False, True])  # of the thread that closes

    class Starts(asyncio.SelectorEventLoop):
        def is_running(self) -> bool:
            if threading.current_thread() is threading.main_thread():
                return super().is_running()
            if running := next(looks, super().is_running()):
                closes.set()
                assert starts.wait(LIMIT_S)
            return running

    def close() -> None:
        bus.close()
        closed.set()

    async def run_again() -> None:
        starts.set()
        assert await asyncio.to_thread(closed.wait, LIMIT_S)

    with asyncio.Runner(loop_factory=Starts) as runner, Threads() as threads:
        runner.run(aio.wrap(bus).register("echo", echo))
        closing = threads.start(close)
        assert closes.wait(LIMIT_S)
        runner.run(run_again())

        closing.result(LIMIT_S)
        assert not bus.inspect().threads


@clause("BUS-DEREG-12")
def test_the_log_names_the_coroutine_by_which_a_loop_is_blocked(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    set_constants(STUCK_CALLBACK_S=0.01)

    async def main() -> None:
        await aio.wrap(bus).register("echo", echo)
        closing = threads.start(bus.close)
        until(lambda: "event loop is blocked" in caplog.text, "it is logged")
        await asyncio.to_thread(closing.result, LIMIT_S)

    with Threads() as threads:
        run(main())
    [record] = caplog.records
    assert record.getMessage().endswith("is_blocked.<locals>.main")


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


async def test_the_cleanup_of_a_cancelled_handler_may_call(bus: Bus) -> None:
    """The thread used to serve nothing while it waited for the handlers."""
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


async def _listens(face: aio.Bus) -> None:
    async with face.listen("clock") as messages:
        await anext(messages)


async def _stays_open(face: aio.Bus) -> None:
    async with face:
        await face.call("silent", timeout=None)


@clause("BUS-DEREG-14")
@pytest.mark.parametrize(
    "waits",
    [
        _listens,
        _stays_open,
        lambda face: face.call("silent", timeout=None),
        lambda face: face.wait_for("late", timeout=None),
    ],
    ids=["listen", "stay open", "call", "wait for"],
)
def test_a_coroutine_of_a_closed_loop_is_collected_within_a_call(
    bus: Bus, waits: Callable[[aio.Bus], Coroutine[Any, Any, object]]
) -> None:
    """It used to take the lock that the call held, or to wait."""
    clock = bus.register("clock")
    bus.register("silent", on_command=lambda _: NOREPLY)
    loop = asyncio.new_event_loop()
    waiting: Any = loop.create_task(waits(aio.wrap(bus)))
    waiting._log_destroy_pending = False  # asyncio would log it
    for _ in range(10):  # more turns of the loop than it takes until it waits
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    run(_registers(bus, "next"))  # ends the thread of the closed loop
    victims: list[object] = [waiting, loop]
    del waiting, loop

    with collecting(ProcessManager, "leave", victims):  # the bus is locked
        clock.deregister()


@clause("BUS-DEREG-14")
def test_a_call_that_is_collected_after_the_close_of_its_bus_is_forgotten(
    bus: Bus,
) -> None:
    """The bus used to keep it, and so the waker of the loop with its descriptor."""
    bus.register("silent", on_command=lambda _: NOREPLY)
    loop = asyncio.new_event_loop()
    waiting: Any = loop.create_task(aio.wrap(bus).call("silent", timeout=None))
    waiting._log_destroy_pending = False  # asyncio would log it
    for _ in range(10):  # as above
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    bus.close()
    del waiting, loop

    for _ in range(2):  # as in `abandoned`
        gc.collect()
    # No weak references: they are cleared before the call is appended.
    assert not [each for each in gc.get_objects() if type(each) is Waker]


def test_a_close_in_a_loop_asks_no_handler_of_another_one(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other loop might change its set of handlers in the middle of that."""
    asked: list[object] = []
    monkeypatch.setattr(aio.Task, "_is_handled_by", lambda *each: asked.append(each))

    async def main() -> None:
        face = aio.wrap(bus)
        await face.register("echo", echo)
        await asyncio.to_thread(lambda: asyncio.run(face.close()))

    run(main())
    assert not asked
