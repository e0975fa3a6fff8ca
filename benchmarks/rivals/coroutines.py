"""Round trips of a contestant whose calls are coroutines, within its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import perf_counter, perf_counter_ns
from typing import Any

from benchmarks.job import Job, Sender

__all__ = ["sender"]


def sender(
    job: Job,
    run: Callable[[Coroutine[Any, Any, Any]], Any],
    ask: Callable[[Any], Coroutine[Any, Any, Any]],
    close: Callable[[], object],
) -> Sender:
    """Return the sender that awaits ``ask`` for each trip.

    run: runs a coroutine in the event loop.
    """

    async def trips(message: Any, end: float) -> list[int]:
        taken_ns, began = list[int](), perf_counter()
        while perf_counter() < end:
            start = perf_counter_ns()
            await ask(message)
            taken_ns.append(perf_counter_ns() - start)
            if job.hz:
                due = began + len(taken_ns) / job.hz
                await asyncio.sleep(max(0.0, due - perf_counter()))
        return taken_ns

    def once(message: Any) -> Any:
        return run(ask(message))

    return Sender(
        once, close, once, trips=lambda message, end: run(trips(message, end))
    )
