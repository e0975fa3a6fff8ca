"""Blocking channels between threads: rendezvous by name, full duplex, exact disconnect.

General layout, each on those before it:

errors                 exceptions
_sync, _net            the doors to threads and time, and to sockets and processes
waiting                wait lists, and the one loop by which callers wait
observer, arguments    observation of channels; checks of arguments
channel                the two ends of a connection, for bytes, messages and objects
first                  the first message of several queues
lockfree               the kind of end that takes no lock unless it has to wait
meeting                the rendezvous: brokers, and threads that belong to them
java                   the same objects under the names of the Java text
sockets, aio           between processes; from asyncio: not imported from here
testing                the schedule explorer: not imported from here
"""

from __future__ import annotations

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
