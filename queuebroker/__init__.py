"""Blocking channels between threads: rendezvous by name, full duplex, exact disconnect.

::

    from queuebroker import QueueBroker, Task

    server, client = QueueBroker("server"), QueueBroker("client")

    def serve():
        with server.accept(port=80) as queue:
            for message in queue:  # until the client disconnects
                queue.send(b"you said " + message)

    task = Task(server, serve)
    task.start()
    with client.connect("server", 80, required=True) as queue:
        queue.send(b"hello")
        print(queue.receive())  # b'you said hello'
    task.join()

A `QueueBroker` makes a `MessageQueue` for whole messages, a `Broker` a `Channel` for
bytes, and ``queue.of(type)`` a `TypedQueue` for objects. Each call that may wait takes
a ``timeout`` in seconds; errors are subclasses of `QueueBrokerError`.

queuebroker.sockets    the same between processes and machines
queuebroker.aio        the same from asyncio
queuebroker.testing    threaded code, run in every schedule
queuebroker.java       the same objects under the names of the Java text

The layout of the source is in docs/explanation/layout.md.
"""

from __future__ import annotations

import queuebroker._platform  # noqa: F401 # first: it may remove calls of the system
from queuebroker.channel.channel import Channel
from queuebroker.channel.circular_buffer import CircularBuffer, CircularBufferQueue
from queuebroker.channel.end import Stats
from queuebroker.channel.message_queue import MessageQueue
from queuebroker.channel.status import Status
from queuebroker.channel.typed_queue import TypedQueue
from queuebroker.errors import (
    BrokerClosedError,
    BrokerNameInUseError,
    BufferEmptyError,
    BufferFullError,
    DisconnectedChannelError,
    DisconnectedError,
    DisconnectedQueueError,
    IncompleteReadError,
    MessageTooLargeError,
    NoCurrentBrokerError,
    PayloadError,
    PortInUseError,
    QueueBrokerError,
    QueueBrokerTimeoutError,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    SendTimeoutError,
    UnknownBrokerError,
)
from queuebroker.first import receive_any
from queuebroker.meeting.broker import Broker
from queuebroker.meeting.broker_manager import BrokerManager, default_manager
from queuebroker.meeting.current import current_broker
from queuebroker.meeting.queue_broker import QueueBroker
from queuebroker.meeting.rendezvous import RdV, RdVMap
from queuebroker.meeting.task import Task
from queuebroker.observer import Observer, Operation, Reason

__all__ = [  # noqa: RUF022  # grouped by purpose
    # rendezvous
    "BrokerManager",
    "Broker",
    "QueueBroker",
    "Task",
    "current_broker",
    "default_manager",
    "RdV",
    "RdVMap",
    # communication
    "Channel",
    "MessageQueue",
    "TypedQueue",
    "receive_any",
    "CircularBuffer",
    "CircularBufferQueue",
    "Status",
    "Stats",
    # observation
    "Observer",
    "Operation",
    "Reason",
    # errors
    "BrokerClosedError",
    "BrokerNameInUseError",
    "BufferEmptyError",
    "BufferFullError",
    "DisconnectedChannelError",
    "DisconnectedError",
    "DisconnectedQueueError",
    "IncompleteReadError",
    "MessageTooLargeError",
    "NoCurrentBrokerError",
    "PayloadError",
    "PortInUseError",
    "QueueBrokerError",
    "QueueBrokerTimeoutError",
    "ReceiveTimeoutError",
    "RendezvousTimeoutError",
    "SendTimeoutError",
    "UnknownBrokerError",
]
