"""Tasks of an event loop: their handlers, and `receive` without one."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    BusError,
    BusFullError,
    CommandTimeoutError,
    NameTakenError,
    RemoteError,
    UnknownTaskError,
    aio,
)
from bus.aio.loop_thread import LoopThread
from specs.clauses import clause
from tests.aio.support import echo, run
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from bus import Bus, Incoming
    from tests.bus.support import There


@clause("BUS-MSG-12")
async def test_a_handler_handles_one_command_after_the_other(face: aio.Bus) -> None:
    order = []

    @face.task("slow")
    async def slow(message: Incoming) -> None:
        order.append(("begins", message.payload))
        for _ in range(9):
            await asyncio.sleep(0)
        order.append(("ends", message.payload))

    await asyncio.gather(*[face.call("slow", number) for number in range(3)])

    steps = [(step, number) for number in range(3) for step in ("begins", "ends")]
    assert order == steps


@pytest.mark.parametrize("concurrency", [2, 3])
async def test_a_handler_handles_several_commands_at_once(
    face: aio.Bus, concurrency: int
) -> None:
    go = asyncio.Event()
    busy = most = 0

    async def slow(message: Incoming) -> Any:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if most == concurrency:
            go.set()
        await go.wait()
        busy -= 1
        return message.payload

    task = await face.register("slow", slow, concurrency=concurrency)
    calls = [asyncio.create_task(face.call("slow", each)) for each in range(7)]

    assert await asyncio.gather(*calls) == list(range(7))
    assert most == concurrency
    assert task._is_idle()


@clause("BUS-FLOW-6")
async def test_commands_that_no_handler_has_taken_count_as_unread(
    face: aio.Bus,
) -> None:
    go = asyncio.Event()
    begun = asyncio.Event()

    async def slow(_: Incoming) -> None:
        begun.set()
        await go.wait()

    await face.register("slow", slow, capacity=2)
    await face.command("slow", "handled")
    await begun.wait()
    await face.command("slow", "unread")
    await face.command("slow", "unread")

    with pytest.raises(BusFullError):
        await face.command("slow", "refused")
    go.set()


@clause("BUS-FLOW-6")
@pytest.mark.parametrize("distance", ["other thread", "other process"])
async def test_a_command_waits_for_room(bus: Bus, face: aio.Bus, there: There) -> None:
    box = await aio.wrap(there.bus).register("box", overflow="block", capacity=1)
    near = face

    async def send() -> None:
        for number in range(9):
            await near.command(there.at("box"), number)

    sending = asyncio.create_task(send())
    received = [(await box.receive()).payload for _ in range(9)]

    assert received == list(range(9))
    await sending


@clause("BUS-MSG-13")
async def test_the_caller_gets_the_exception_of_a_handler(face: aio.Bus) -> None:
    @face.task("bad")
    async def bad(message: Incoming) -> object:
        if message.payload == "raise":
            raise ValueError("refused")
        return object()  # no payload

    with pytest.raises(RemoteError, match="ValueError: refused"):
        await face.call("bad", "raise")
    with pytest.raises(RemoteError, match="cannot send"):
        await face.call("bad", "return")


async def test_a_handler_answers_later(face: aio.Bus) -> None:
    kept = asyncio.Queue[Any]()

    @face.task("later")
    async def later(message: Incoming) -> Any:
        kept.put_nowait(message)
        return NOREPLY

    calling = asyncio.create_task(face.call("later", 1))
    message = await kept.get()
    message.respond("late")

    assert await calling == "late"


@clause("BUS-MSG-13")
async def test_the_caller_of_a_cancelled_handler_gets_an_error(face: aio.Bus) -> None:
    begun = asyncio.Event()

    @face.task("slow")
    async def slow(_: Incoming) -> None:
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(face.call("slow"))
    await begun.wait()
    (handling,) = slow._busy
    handling.cancel()

    with pytest.raises(RemoteError, match="cancelled"):
        await calling


@clause("BUS-MSG-13")
async def test_the_caller_of_a_handler_that_a_closed_bus_ends_gets_an_error(
    bus: Bus,
    face: aio.Bus,
) -> None:
    begun = asyncio.Event()

    @face.task("slow")
    async def slow(_: Incoming) -> None:
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(asyncio.to_thread(_failure, bus, "slow"))
    await begun.wait()
    await face.close(drain=0)

    assert isinstance(await calling, RemoteError | UnknownTaskError)


def _failure(bus: Bus, to: str) -> BaseException | None:
    try:
        bus.call(to, timeout=None)
    except BusError as error:
        return error
    return None


@clause("BUS-NAME-7")
@pytest.mark.parametrize("distance", ["same thread", "other process"])
async def test_a_taken_name_is_refused(face: aio.Bus, there: There) -> None:
    there.register("taken")
    with pytest.raises(NameTakenError, match="'taken'"):
        await face.register("taken", echo)


async def test_an_object_handles_commands_even_if_it_is_false(face: aio.Bus) -> None:
    class Echoes(list[Any]):
        async def __call__(self, message: Incoming) -> Any:
            self.append(message.payload)
            return message.payload

    echoes = Echoes()
    await face.register("echo", echoes)

    assert await face.call("echo", 1) == 1
    assert echoes == [1]


async def test_only_coroutine_functions_handle_commands(
    bus: Bus, face: aio.Bus
) -> None:
    with pytest.raises(
        TypeError, match=r"'adder': its handler .*lambda.* is not a coroutine"
    ):
        await face.register("adder", lambda message: message)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match=r'@bus\.task\("name"\)'):
        face.task(echo)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="concurrency must be"):
        await face.register("adder", echo, concurrency=0)
    with pytest.raises(ValueError, match="concurrency is for a task with a handler"):
        await face.register("adder", concurrency=2)


@clause("BUS-DEREG-10")
async def test_a_receive_ends_when_the_task_deregisters(face: aio.Bus) -> None:
    box = await face.register("box")
    receiving = asyncio.create_task(box.receive())
    await asyncio.sleep(0)

    await asyncio.to_thread(box.deregister)

    with pytest.raises(UnknownTaskError, match="'box'"):
        await receiving


@clause("BUS-DEREG-10")
async def test_a_task_that_is_deregistered_as_its_handler_runs_is_forgotten(
    face: aio.Bus,
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @face.task("slow")
    async def slow(_: Incoming) -> None:
        begun.set()
        await go.wait()

    await face.command("slow", 1)
    await begun.wait()
    await asyncio.to_thread(slow.deregister)
    assert slow in slow._thread.handled
    go.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert slow not in slow._thread.handled


async def test_each_command_wakes_one_of_the_coroutines_that_receive(
    face: aio.Bus,
) -> None:
    box = await face.register("box")
    receiving = [asyncio.create_task(box.receive()) for _ in range(5)]
    await asyncio.sleep(0)
    for number in range(4):
        await face.command("box", number)
    receiving[0].cancel()  # it may have been woken for the first one

    got = [each.payload for each in await asyncio.gather(*receiving[1:])]

    assert sorted(got) == list(range(4))


# What ends a handler, or a receive, in other ways.


@clause("BUS-DEREG-9")
@pytest.mark.parametrize("distance", ["other process"])
def test_the_end_of_a_loop_answers_the_callers_of_busy_handlers(
    bus: Bus, there: There
) -> None:
    """The handler ends only after that."""
    answered = threading.Event()
    calling: list[Any] = []

    def call(to: str) -> BaseException | None:
        error = _failure(bus, to)
        answered.set()
        return error

    async def main() -> None:
        face, begun = aio.wrap(there.bus), asyncio.Event()

        @face.task("slow")
        async def slow(_: Incoming) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.to_thread(answered.wait, LIMIT_S)

        to = there.at("slow")
        await asyncio.to_thread(bus.wait_for, to)
        calling.append(threads.start(call, to))
        await begun.wait()

    with Threads() as threads:
        run(main())
        error = calling[0].result(LIMIT_S)

    assert isinstance(error, RemoteError)


@clause("QB-ERR-9")
@pytest.mark.parametrize("struck", ["_let_take", "_serve", "_forget_job"])
def test_an_interrupt_ends_no_handler(
    bus: Bus, struck: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It strikes before a handler takes a command, at its end, or in a serving task."""
    real = getattr(LoopThread, struck)

    def once(*_: object) -> Any:
        monkeypatch.setattr(LoopThread, struck, real)
        raise KeyboardInterrupt

    with asyncio.Runner() as runner:
        loop, face = runner.get_loop(), aio.wrap(bus)
        task = loop.run_until_complete(face.register("echo", echo))
        monkeypatch.setattr(LoopThread, struck, once)
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(face.call("echo", 1))

        assert loop.run_until_complete(face.call("echo", 2)) == 2
        loop.run_until_complete(asyncio.sleep(0))
        assert not task._thread._jobs, "the end of the thread would wait for it"
        gc.collect()  # asyncio logs the interrupt that it has raised in the loop


@clause("BUS-MSG-13")
def test_the_caller_of_an_interrupted_handler_gets_an_error(bus: Bus) -> None:
    async def interrupted(_: Incoming) -> None:
        raise KeyboardInterrupt

    with asyncio.Runner() as runner:
        loop, face = runner.get_loop(), aio.wrap(bus)
        loop.run_until_complete(face.register("bad", interrupted))
        calling = loop.create_task(face.call("bad"))
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(calling)

        with pytest.raises(RemoteError, match="interrupted by KeyboardInterrupt"):
            loop.run_until_complete(calling)


async def test_messages_without_end_for_another_task_stop_no_coroutine(
    bus: Bus,
    face: aio.Bus,
) -> None:
    quiet = await face.register("quiet")
    again = bus.register("again", thread=quiet.task.thread)
    again.on_command(lambda _: again.command("again"))
    again.command("again")

    with pytest.raises(CommandTimeoutError):
        await quiet.receive(timeout=0.01)
    again.deregister()


async def test_a_callback_in_the_place_of_a_handler_is_refused(face: aio.Bus) -> None:
    """The commands used to go to it, and a coroutine to wait for them in vain."""
    box = await face.register("box")

    with pytest.raises(RuntimeError, match="cannot set a callback of 'box'"):
        box.task.on_command(print)


_caller: contextvars.ContextVar[str] = contextvars.ContextVar("_caller", default="none")


async def test_a_handler_runs_in_the_context_of_its_registration(
    bus: Bus, face: aio.Bus
) -> None:
    """It used to run in that of the first call in the loop, as plain callbacks did."""
    _caller.set("first call")
    await face.command("nobody")
    _caller.set("registration")

    async def caller(_: Incoming) -> str:
        before = _caller.get()
        _caller.set("handler")  # of this one command
        return before

    task = await face.register("handler", caller)
    _caller.set("other call")
    seen: list[str] = []
    callback = bus.register("callback", thread=task.task.thread)
    callback.on_command(lambda _: seen.append(_caller.get()))
    box = await face.register("box")

    assert [await face.call("handler") for _ in range(2)] == ["registration"] * 2
    await face.call("callback")
    await face.command("callback")
    with pytest.raises(CommandTimeoutError):
        await box.receive(timeout=0)  # serves the callback
    assert seen == ["none", "none"]


# Other loops, and other ways to start an asyncio task.

_eager: Any = getattr(asyncio, "eager_task_factory", None)


@pytest.mark.skipif(
    _eager is None,
    reason="asyncio has eager tasks from Python 3.12 on",
)
async def test_eager_asyncio_tasks_are_served(bus: Bus, face: aio.Bus) -> None:
    asyncio.get_running_loop().set_task_factory(_eager)
    got = asyncio.Queue[Any]()
    await face.register("echo", echo)
    calls = [face.call("echo", number) for number in range(3)]
    assert await asyncio.gather(*calls) == [0, 1, 2]

    async def listen() -> None:
        async with face.listen("clock") as messages:
            clock.notify(1)
            got.put_nowait((await anext(messages)).payload)

    def start(_: Incoming) -> None:
        listening.append(asyncio.create_task(listen()))

    # A callback in the thread of the loop, in which the asyncio task begins.
    listening: list[asyncio.Task[None]] = []
    clock = await face.register("clock")
    bus.register("plain", thread=clock.task.thread, on_command=start)
    await face.command("plain")

    assert await got.get() == 1


def test_a_loop_that_reads_no_descriptors_is_refused(bus: Bus) -> None:
    class Poor(asyncio.SelectorEventLoop):
        def add_reader(self, *_: Any) -> None:  # type: ignore[override]
            raise NotImplementedError

    async def main() -> None:
        with pytest.raises(NotImplementedError, match="Poor does not read"):
            await aio.wrap(bus).register("box")

    with asyncio.Runner(loop_factory=Poor) as runner:
        runner.run(main())
    assert not bus.inspect().threads
