"""Tasks of an event loop that move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bus import RemoteError, aio
from bus.aio import waits
from specs.clauses import clause
from tests.aio.support import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus, Incoming
    from tests.bus.support import There


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
