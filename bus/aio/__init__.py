"""The bus for coroutines: the same names, with ``await``.

::

    async with aio.open_bus("house") as bus:

        @bus.task("thermostat")
        async def decide(message):
            return {"heat": message.payload["celsius"] < 18}

        print(await bus.call("thermostat", {"celsius": 17}))  # {'heat': True}

The event loop hosts the tasks as a thread of the bus does. A call starts no thread. One
bus may be used by coroutines, event loops and threads at once: `wrap` returns the face
of a bus that `bus.open_bus` has returned.

Not imported by ``import bus``, so that only programs with asyncio load it.
"""

from __future__ import annotations

from bus.aio.bus import Bus, open_bus, wrap
from bus.aio.listener import Listener
from bus.aio.task import Task

__all__ = ["Bus", "Listener", "Task", "open_bus", "wrap"]
