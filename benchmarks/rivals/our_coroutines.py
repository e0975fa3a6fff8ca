"""This project's bus for coroutines: a call, and a task of an event loop."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any

from benchmarks.job import Job, Sender
from benchmarks.rivals.coroutines import sender
from benchmarks.tally import Tally
from bus import aio


def near(job: Job) -> Sender:
    """Call the task."""
    os.environ["BUS_RUN_DIR"] = job.folder
    runner = asyncio.Runner()
    bus = runner.run(_opened("client"))
    runner.run(bus.wait_for("echo", timeout=20))

    def close() -> None:
        runner.run(bus.close())
        runner.close()

    return sender(job, runner.run, partial(bus.call, "echo"), close)


def far(job: Job, tally: Tally) -> None:
    """Register the task."""
    os.environ["BUS_RUN_DIR"] = job.folder
    asyncio.run(_serve(tally))


async def _opened(process: str) -> aio.Bus:
    return await aio.open_bus("pair", process=process)


async def _serve(tally: Tally) -> None:
    async with aio.open_bus("pair", process="server") as bus:

        @bus.task("echo")
        async def echo(message: Any) -> Any:
            if not message.payload:
                tally.take_value(message.payload)
            return message.payload

        tally.ready()
        await asyncio.to_thread(tally.finish)
