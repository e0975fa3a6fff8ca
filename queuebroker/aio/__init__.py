"""The same objects from asyncio: the same names, with ``await`` (QB-PY-11).

::

    async with aio.QueueBroker("server") as server:
        async for queue in server.accept_iter(7):
            ...

A face adds no rules. The plain objects define sends, receives and accepts; here a
coroutine sleeps instead of a thread. So both faces of one end may be used at once, by
several tasks, loops and threads.

waker                  lets a thread wake a coroutine: one descriptor for each loop
waiting                the loops of `queuebroker.waiting` and `queuebroker.meeting`
face                   the common part of the faces, also of those of `bus.pattern`
message_queue, queue_broker    the faces
socket_broker          the face of a broker that other processes can reach
wrapping               the face of an object that exists already
first                  the first message of several queues

Not imported by ``import queuebroker``, so that only programs with asyncio load it.
"""

from __future__ import annotations

from queuebroker.aio.first import receive_any
from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.queue_broker import QueueBroker
from queuebroker.aio.wrapping import wrap

__all__ = ["MessageQueue", "QueueBroker", "receive_any", "wrap"]
