"""Blocking channels between threads: meet by name, talk both ways, hang up exactly.

General layout, each on those before it:

errors, observer       what can go wrong; what may watch
_sync, parking         the only door to threads and time; who waits, and how
circular_buffer        bounded buffers of messages and of bytes
connection, end        the state two ends share, as tables; what ends have in common
channel, message_queue, locked_queue     ends for bytes and for messages
rendezvous, meeting    who waits for whom at which port; how they meet
broker_manager, broker, queue_broker, task     names, and threads that belong to them
testing                the schedule explorer: not imported from here
"""

from __future__ import annotations

from queuebroker.broker import Broker
from queuebroker.broker_manager import BrokerManager, default_manager
from queuebroker.channel import Channel
from queuebroker.circular_buffer import CircularBuffer, CircularBufferQueue
from queuebroker.connection import Status
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
from queuebroker.task import Task

__all__ = [  # noqa: RUF022  # grouped by what they are for
    # meeting
    "BrokerManager",
    "Broker",
    "QueueBroker",
    "Task",
    "current_broker",
    "default_manager",
    "RdV",
    "RdVMap",
    # talking
    "Channel",
    "MessageQueue",
    "CircularBuffer",
    "CircularBufferQueue",
    "Status",
    "Stats",
    # watching
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
    "PortInUseError",
    "QueueBrokerError",
    "QueueBrokerTimeoutError",
    "ReceiveTimeoutError",
    "RendezvousTimeoutError",
    "SendTimeoutError",
    "UnknownBrokerError",
]
