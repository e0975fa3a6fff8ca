"""BUS-ENT-18: a signal handler that interrupts a coroutine of the bus never hangs.

The handler runs at every point of the steps that the loop executes (`tests.handlers`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import bus as library
import queuebroker
from bus import aio, api, features, kernel, process
from bus.testing import memory_bus
from queuebroker import waiting
from specs.clauses import clause
from tests.aio.support import echo
from tests.handlers import Interruption, everywhere_handled
from tests.kit.cancels import first_of
from tests.kit.stepped_loop import stepped_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import ModuleType
    from typing import Any


async def _call(face: aio.Bus) -> None:
    face.task("echo")(echo)
    assert await face.call("echo", 1) == 1


async def _listen(face: aio.Bus) -> None:
    @face.task("clock")
    async def tick(_: library.Incoming) -> None:
        tick.notify(1)

    async with face.listen("clock") as messages:
        await face.command("clock")
        assert (await first_of(messages)).payload == 1


async def _wait_for_subscribers(face: aio.Bus) -> None:
    clock = face.task("clock")(echo)
    assert not await clock.wait_for_subscribers(timeout=0)


_STEPS: dict[str, Callable[[aio.Bus], Coroutine[Any, Any, None]]] = {
    "call": _call,
    "listen": _listen,
    "wait for subscribers": _wait_for_subscribers,
}


@clause("BUS-ENT-18")
@pytest.mark.parametrize(
    ("step", "packages"),
    [
        ("call", (process, waiting)),
        pytest.param("call", (library, queuebroker), marks=pytest.mark.deep),
        # The messages go the same way as those of a call.
        *(
            pytest.param(step, (aio, api, features, kernel), marks=pytest.mark.deep)
            for step in ("listen", "wait for subscribers")
        ),
    ],
)
def test_a_handler_takes_effect_or_is_refused_at_every_point(
    step: str, packages: tuple[ModuleType, ...]
) -> None:
    """It hung on the lock of the inbox, or of the questions, that the step held."""
    refused: list[RuntimeError] = []

    def case(interrupted: Interruption) -> None:
        with memory_bus() as bus, stepped_loop() as loop:

            def handle() -> None:
                try:
                    bus.register("new", thread=bus.here()).command("echo", "handler")
                except RuntimeError as error:
                    refused.append(error)

            running = loop.start(_STEPS[step](aio.wrap(bus)))
            interrupted(lambda: loop.run_until(running), handle)
            bus.close(0)
            loop.run()

    everywhere_handled(case, packages=packages)
    assert refused
    assert all("SimpleQueue" in str(error) for error in refused)
