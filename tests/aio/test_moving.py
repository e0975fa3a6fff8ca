"""Tasks of an event loop that move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusError, RemoteError, aio
from bus.aio import waits
from specs.clauses import clause
from tests.aio.support import echo
from tests.kit.constants import set_constants
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Incoming
    from tests.bus.support import There


@clause("BUS-MOVE-10")
@pytest.mark.parametrize("distance", ["other process"])
async def test_a_task_is_handed_over_with_its_state(
    bus: Bus, face: aio.Bus, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that its handler handles just now ends before."""
    handled = False

    def in_thread(function: Callable[[], Any], undo: Any = None) -> Any:
        assert handled or "hand_over" not in str(function)
        return real(function, undo)

    real = waits.in_thread
    monkeypatch.setattr("bus.aio.bus.in_thread", in_thread)
    near, far = face, aio.wrap(there.bus)
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


@clause("BUS-MOVE-10")
async def test_a_handler_cannot_hand_over_its_own_task(face: aio.Bus) -> None:
    @face.task("moves")
    async def move(_: Incoming) -> None:
        await face.hand_over(move, "elsewhere")

    with pytest.raises(RemoteError, match="in its own handler"):
        await face.call("moves")


@clause("BUS-MOVE-10")
async def test_a_second_hand_over_at_once_is_refused(face: aio.Bus) -> None:
    """Both used to fail and start the handler again, which then ran twice at once."""
    busy = 0

    @face.task("moves")
    async def alone(_: Incoming) -> int:
        nonlocal busy
        busy += 1
        most = busy
        await asyncio.sleep(0)
        busy -= 1
        return most

    moves = [face.hand_over(alone, "nobody", timeout=0.01) for _ in range(2)]
    first, second = await asyncio.gather(*moves, return_exceptions=True)

    assert isinstance(first, BusError)
    assert "an earlier hand-over has not ended" in str(second)
    calls = [face.call("moves") for _ in range(5)]
    assert await asyncio.gather(*calls) == [1] * 5


@clause("BUS-MOVE-2")
async def test_a_task_of_coroutines_moves_to_no_thread(bus: Bus, face: aio.Bus) -> None:
    task = await face.register("echo", echo)

    with pytest.raises(RuntimeError, match=r"cannot move 'echo'.*deregister it"):
        task.task.move(bus.thread())

    assert await face.call("echo", 1) == 1


async def test_wrong_factories_are_refused(face: aio.Bus) -> None:
    with pytest.raises(TypeError, match="factories must be a mapping"):
        await face.accept_tasks("accepts", [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"'moves': its factory .*print"):
        await face.accept_tasks("accepts", {"moves": print})  # type: ignore[dict-item]


@clause("BUS-MOVE-10")
@pytest.mark.parametrize("distance", ["other process"])
async def test_a_factory_that_returns_no_task_is_named(
    bus: Bus, face: aio.Bus, there: There
) -> None:
    async def forgets(bus: aio.Bus, name: str, _: Any) -> None:
        await bus.register(name, echo)

    near, far = face, aio.wrap(there.bus)
    await far.accept_tasks("accepts", {"moves": forgets})  # type: ignore[dict-item]
    task = await near.register("moves", echo)

    with pytest.raises(BusError, match="'moves' must return the task"):
        await near.hand_over(task, there.at("accepts"))


@clause("BUS-MOVE-10")
@pytest.mark.parametrize("stops", ["before", "meanwhile"])
@pytest.mark.parametrize("distance", ["other process"])
def test_a_stopped_loop_accepts_no_task(bus: Bus, there: There, stops: str) -> None:
    """Its thread used to wait for it without end."""
    set_constants(STUCK_CALLBACK_S=0.01)
    task = bus.register("moves")
    task.on_leave(lambda: "state")

    async def never(_: aio.Bus, __: str, ___: Any) -> aio.Task:
        loop.stop()
        return await asyncio.Future[aio.Task]()

    with asyncio.Runner() as runner, Threads() as threads:
        loop, face = runner.get_loop(), aio.wrap(there.bus)
        runner.run(face.accept_tasks("accepts", {"moves": never}))
        bus.wait_for(there.at("accepts"))
        moving = []

        def move() -> None:
            moving.append(threads.start(bus.hand_over, task, there.at("accepts")))

        if stops == "meanwhile":
            loop.call_soon(move)  # not before it runs
            loop.run_forever()
        else:
            move()

        assert "does not run" in str(moving[0].error(LIMIT_S))
