"""Blocking channels between threads: rendezvous by name, full duplex, exact disconnect.

General layout, each on those before it:

errors, observer       exceptions; observation of channels
_sync, parking         threads and time; wait lists and the wait loop
arguments, current     argument checks; the broker of the running thread
circular_buffer        bounded buffers of messages and of bytes
status                 the tables: status of an end, verdict on an operation
connection, queue_connection, readiness  the state that two ends share
end, channel           the common base of ends; ends for bytes
typed_queue, message_queue, receive_attempt, locked_queue  ends for messages, objects
sleepers, lock_free_buffer, lock_free_connection, fast_queue
                       the same without a lock unless a caller has to wait
rendezvous, pairing, meeting    waiting calls by port; matching them
broker_manager, broker, queue_broker, task     names, and threads that belong to them
shared_parker, waiting  the first message of several queues
aio                    the same objects from asyncio: not imported from here
java                   the same objects under the names of the Java text
testing                the schedule explorer: not imported from here
"""

from __future__ import annotations

from queuebroker.broker import Broker
from queuebroker.broker_manager import BrokerManager, default_manager
from queuebroker.channel import Channel
from queuebroker.circular_buffer import CircularBuffer, CircularBufferQueue
from queuebroker.current import current_broker
from queuebroker.end import Stats
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
from queuebroker.message_queue import MessageQueue
from queuebroker.observer import Observer, Operation, Reason
from queuebroker.queue_broker import QueueBroker
from queuebroker.rendezvous import RdV, RdVMap
from queuebroker.status import Status
from queuebroker.task import Task
from queuebroker.typed_queue import TypedQueue
from queuebroker.waiting import receive_any

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
