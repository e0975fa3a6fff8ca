"""The same objects from asyncio: the same names, with ``await`` (QB-PY-11).

::

    async with aio.QueueBroker("server") as server:
        async for queue in server.accept_iter(7):
            ...

A face decides nothing. What a send, a receive, an accept does, and when, is said once,
in the plain objects; here a coroutine sleeps where a thread would. So both faces of one
end may be used at once, by several tasks, loops and threads.

waker                  how a thread wakes a coroutine: one descriptor for each loop
waiting                the loops of `queuebroker.parking` and `queuebroker.meeting`
message_queue, queue_broker    the faces, and `wrap`
first                  the first message of several queues

Not imported by ``import queuebroker``: only who uses asyncio pays for it.
"""

from __future__ import annotations

from queuebroker.aio.first import receive_any
from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.queue_broker import QueueBroker, wrap

__all__ = ["MessageQueue", "QueueBroker", "receive_any", "wrap"]
