"""The bus for coroutines: calls, handlers, listeners and watchers, at each distance."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    NOREPLY,
    BusConfig,
    BusError,
    BusFullError,
    CommandTimeoutError,
    NameTakenError,
    RemoteError,
    UnknownTaskError,
    UnresolvedError,
    aio,
    open_bus,
)
from bus.aio import waits
from specs.clauses import clause
from tests.bus.support import DISTANCES, FAR, There
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bus import Bus, Incoming


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a loop of its own, within the limit of a test."""

    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await main

    asyncio.run(limited())


async def echo(message: Incoming) -> Any:
    return message.payload


# Calls.


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


# Handlers.


@clause("BUS-MSG-12")
def test_a_handler_handles_one_command_after_the_other(bus: Bus) -> None:
    async def main() -> None:
        face, order = aio.wrap(bus), []

        @face.task("slow")
        async def slow(message: Incoming) -> None:
            order.append(("begins", message.payload))
            await asyncio.sleep(0)
            order.append(("ends", message.payload))

        await asyncio.gather(*[face.call("slow", number) for number in range(3)])

        steps = [(step, number) for number in range(3) for step in ("begins", "ends")]
        assert order == steps

    run(main())


@pytest.mark.parametrize("concurrency", [2, 3])
def test_a_handler_handles_several_commands_at_once(bus: Bus, concurrency: int) -> None:
    async def main() -> None:
        face, go = aio.wrap(bus), asyncio.Event()
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

    run(main())


@clause("BUS-FLOW-6")
def test_commands_that_no_handler_has_taken_count_as_unread(bus: Bus) -> None:
    async def main() -> None:
        face, go = aio.wrap(bus), asyncio.Event()
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

    run(main())


@clause("BUS-FLOW-6")
@pytest.mark.parametrize("distance", ["other thread", "other process"])
def test_a_command_waits_for_room(bus: Bus, there: There) -> None:
    async def main() -> None:
        box = await aio.wrap(there.bus).register("box", overflow="block", capacity=1)
        near = aio.wrap(bus)

        async def send() -> None:
            for number in range(9):
                await near.command(there.at("box"), number)

        sending = asyncio.create_task(send())
        received = [(await box.receive()).payload for _ in range(9)]

        assert received == list(range(9))
        await sending

    run(main())


@clause("BUS-MSG-13")
def test_the_caller_gets_the_exception_of_a_handler(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)

        @face.task("bad")
        async def bad(message: Incoming) -> object:
            if message.payload == "raise":
                raise ValueError("refused")
            return object()  # no payload

        with pytest.raises(RemoteError, match="ValueError: refused"):
            await face.call("bad", "raise")
        with pytest.raises(RemoteError, match="cannot send"):
            await face.call("bad", "return")

    run(main())


def test_a_handler_answers_later(bus: Bus) -> None:
    async def main() -> None:
        face, kept = aio.wrap(bus), asyncio.Queue[Any]()

        @face.task("later")
        async def later(message: Incoming) -> Any:
            kept.put_nowait(message)
            return NOREPLY

        calling = asyncio.create_task(face.call("later", 1))
        message = await kept.get()
        message.respond("late")

        assert await calling == "late"

    run(main())


@clause("BUS-MSG-13")
def test_the_caller_of_a_cancelled_handler_gets_an_error(bus: Bus) -> None:
    async def main() -> None:
        face, begun = aio.wrap(bus), asyncio.Event()

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

    run(main())


@clause("BUS-MSG-13")
def test_the_caller_of_a_handler_that_a_closed_bus_ends_gets_an_error(bus: Bus) -> None:
    async def main() -> None:
        face, begun = aio.wrap(bus), asyncio.Event()

        @face.task("slow")
        async def slow(_: Incoming) -> None:
            begun.set()
            await asyncio.Event().wait()

        calling = asyncio.create_task(asyncio.to_thread(_failure, bus, "slow"))
        await begun.wait()
        await face.close(drain=0)

        assert isinstance(await calling, RemoteError | UnknownTaskError)

    run(main())


def _failure(bus: Bus, to: str) -> BaseException | None:
    try:
        bus.call(to, timeout=None)
    except BusError as error:
        return error
    return None


@clause("BUS-NAME-7")
@pytest.mark.parametrize("distance", ["same thread", "other process"])
def test_a_taken_name_is_refused(bus: Bus, there: There) -> None:
    there.register("taken")

    async def main() -> None:
        with pytest.raises(NameTakenError, match="'taken'"):
            await aio.wrap(bus).register("taken", echo)

    run(main())


def test_only_coroutine_functions_handle_commands(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        with pytest.raises(
            TypeError, match=r"'adder': its handler .*lambda.* is not a coroutine"
        ):
            await face.register("adder", lambda message: message)  # type: ignore[arg-type,return-value]
        with pytest.raises(TypeError, match=r'@bus\.task\("name"\)'):
            face.task(echo)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="concurrency must be"):
            await face.register("adder", echo, concurrency=0)
        with pytest.raises(
            ValueError, match="concurrency is for a task with a handler"
        ):
            await face.register("adder", concurrency=2)

    run(main())


# Receiving.


def test_a_cancelled_receive_loses_nothing(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        box = await face.register("box")
        receiving = asyncio.create_task(box.receive())
        await asyncio.sleep(0)
        await face.command("box", 1)
        receiving.cancel()
        await asyncio.wait([receiving])

        if receiving.cancelled():
            assert (await box.receive()).payload == 1
        with pytest.raises(CommandTimeoutError, match="no command for 'box'"):
            await box.receive(timeout=0)

    run(main())


@clause("BUS-DEREG-10")
def test_a_receive_ends_when_the_task_deregisters(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        box = await face.register("box")
        receiving = asyncio.create_task(box.receive())
        await asyncio.sleep(0)

        await asyncio.to_thread(box.deregister)

        with pytest.raises(UnknownTaskError, match="'box'"):
            await receiving

    run(main())


def test_each_command_wakes_one_of_the_coroutines_that_receive(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)
        box = await face.register("box")
        receiving = [asyncio.create_task(box.receive()) for _ in range(5)]
        await asyncio.sleep(0)
        for number in range(4):
            await face.command("box", number)
        receiving[0].cancel()  # it may have been woken for the first one

        got = [each.payload for each in await asyncio.gather(*receiving[1:])]

        assert sorted(got) == list(range(4))

    run(main())


def test_a_receive_in_another_loop_is_refused(bus: Bus) -> None:
    async def main() -> None:
        box = await aio.wrap(bus).register("box")

        def elsewhere() -> None:
            asyncio.run(box.receive())

        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await asyncio.to_thread(elsewhere)

    run(main())


# Listening and watching.


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


# Moving and closing.


@clause("BUS-MOVE-10")
@pytest.mark.parametrize("distance", ["other process"])
def test_a_task_is_handed_over_with_its_state(
    bus: Bus, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that its handler handles just now ends before."""
    handled = False

    def in_thread(function: Callable[[], Any], undo: Any = None) -> Any:
        assert handled or "hand_over" not in str(function)
        return real(function, undo)

    real = waits.in_thread
    monkeypatch.setattr("bus.aio.bus.in_thread", in_thread)

    async def main() -> None:
        near, far = aio.wrap(bus), aio.wrap(there.bus)
        begun, go = asyncio.Event(), asyncio.Event()
        count = 0

        async def counter(message: Incoming) -> Any:
            nonlocal count, handled
            begun.set()
            await go.wait()
            count += message.payload
            handled = True
            return count

        async def continued(bus: aio.Bus, name: str, state: Any) -> aio.Task:
            async def counter(message: Incoming) -> Any:
                return f"moved: {state + message.payload}"

            return await bus.register(name, counter)

        await far.accept_tasks("accepts", {"counter": continued})
        task = await near.register("counter", counter)
        task.task.on_leave(lambda: count)
        first = asyncio.create_task(near.call("counter", 2))
        await begun.wait()
        second = asyncio.create_task(near.call("counter", 1))
        moving = asyncio.create_task(near.hand_over(task, there.at("accepts")))
        for _ in range(10):  # more turns of the loop than the pause takes
            await asyncio.sleep(0)
        go.set()

        assert await first == 2
        await moving
        assert await second == "moved: 3"

    run(main())


@clause("BUS-MOVE-10")
def test_a_handler_cannot_hand_over_its_own_task(bus: Bus) -> None:
    async def main() -> None:
        face = aio.wrap(bus)

        @face.task("moves")
        async def move(_: Incoming) -> None:
            await face.hand_over(move, "elsewhere")

        with pytest.raises(RemoteError, match="in its own handler"):
            await face.call("moves")

    run(main())


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


def test_rare_calls_need_no_thread_of_the_executor(bus: Bus) -> None:
    """All of its threads may wait for a task of this loop."""

    async def main() -> None:
        loop, face = asyncio.get_running_loop(), aio.wrap(bus)
        loop.set_default_executor(ThreadPoolExecutor(1))

        @face.task("slow")
        async def slow(_: Incoming) -> str:
            return str((await face.register("late")).address.module)

        assert await asyncio.to_thread(bus.call, "slow") == "late"

    run(main())


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


def test_an_exception_of_a_thread_comes_to_its_caller() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await waits.in_thread(lambda: 1 // 0)

    run(main())


def test_open_bus_needs_an_await() -> None:
    with pytest.raises(AttributeError, match="call: the bus is not open yet"):
        aio.open_bus("house").call  # noqa: B018


def test_a_bus_outside_of_a_loop_names_the_remedy(bus: Bus) -> None:
    with pytest.raises(RuntimeError, match=r"cannot listen on bus .*no event loop"):
        aio.wrap(bus).listen("clock")


def test_open_bus_opens_and_closes() -> None:
    async def main() -> None:
        async with aio.open_bus("house", config=BusConfig()) as face:
            assert face.bus.name == "house"
            await face.register("echo", echo)
            assert await face.call("echo", 1) == 1
        face = await aio.open_bus("house")
        await face.close()
        with open_bus("house"):
            pass

    run(main())


def test_wrap_takes_a_bus_and_nothing_else() -> None:
    with pytest.raises(TypeError, match=r"bus must be a bus\.Bus"):
        aio.wrap("house")  # type: ignore[arg-type]
