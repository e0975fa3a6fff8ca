"""A bus for coroutines.

::

    async with aio.open_bus("house") as bus:

        @bus.task("thermostat")
        async def decide(message):
            return {"heat": message.payload["celsius"] < 18}

        print(await bus.call("thermostat", {"celsius": 17}))  # {'heat': True}

The event loop hosts the tasks as a thread of the bus does. Sends and receives start no
thread; rare calls such as `open_bus`, `Bus.register` and `Bus.close` use one. One bus
may be used by coroutines, event loops and threads at once: `wrap` returns the object
for coroutines of a bus that `bus.open_bus` has returned.

Not imported by ``import bus``, so that only programs with asyncio load it.

bus              `Bus`, `open_bus`, `wrap`
task             `Task`, and its handler
listener         notifications for ``async for``
watcher          arrivals and departures of tasks for ``async for``
task_iterator    the base of these two
loop_thread      the event loop as a thread that hosts tasks
waits            how a coroutine waits
tracing          the slots of `bus.otel`; only that loads it
"""

from __future__ import annotations

from bus.aio.bus import Bus, Factory, open_bus, wrap
from bus.aio.listener import Listener
from bus.aio.task import Handler, Task
from bus.aio.watcher import Watcher

__all__ = [
    "Bus",
    "Factory",
    "Handler",
    "Listener",
    "Task",
    "Watcher",
    "open_bus",
    "wrap",
]
