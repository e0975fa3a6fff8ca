"""pyzmq for asyncio as its guide teaches it: REQ and REP with JSON."""

from __future__ import annotations

import asyncio
from typing import Any

import zmq
import zmq.asyncio

from benchmarks.job import Job, Sender
from benchmarks.rivals.coroutines import sender
from benchmarks.tally import Tally


def near(job: Job) -> Sender:
    """Connect."""
    runner = asyncio.Runner()
    socket: Any = zmq.asyncio.Context.instance().socket(zmq.REQ)
    socket.connect(job.address())

    async def ask(value: Any) -> Any:
        await socket.send_json(value)
        return await socket.recv_json()

    def close() -> None:
        socket.close()
        runner.close()

    return sender(job, runner.run, ask, close)


def far(job: Job, tally: Tally) -> None:
    """Answer the requests."""
    asyncio.run(_serve(job, tally))


async def _serve(job: Job, tally: Tally) -> None:
    socket: Any = zmq.asyncio.Context.instance().socket(zmq.REP)
    socket.bind(job.address(tally.number))
    tally.ready()
    while not tally.done:
        value = await socket.recv_json()
        if not value:
            tally.take_value(value)
        await socket.send_json(value)
    tally.finish()
