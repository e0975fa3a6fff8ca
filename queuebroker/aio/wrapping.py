"""`wrap`: the face for coroutines of an end or a broker that exists already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, overload

from queuebroker.aio.face import Face, face_of
from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.queue_broker import QueueBroker
from queuebroker.channel import message_queue
from queuebroker.meeting import queue_broker

if TYPE_CHECKING:
    from queuebroker.aio import socket_broker
    from queuebroker.sockets import broker

__all__ = ["wrap"]


@overload
def wrap(existing: message_queue.MessageQueue) -> MessageQueue: ...
@overload
def wrap(existing: broker.SocketQueueBroker) -> socket_broker.SocketQueueBroker: ...
@overload
def wrap(existing: queue_broker.QueueBroker) -> QueueBroker: ...
def wrap(existing: object) -> MessageQueue | QueueBroker:
    """Return the face of an existing end or broker; both may be used at once.

    Raises:
        TypeError: it is neither, or is not an end of a connection of this process.
    """
    faces: list[type[Face[Any]]] = [MessageQueue, QueueBroker]
    # A program with such a broker has loaded its module; others need not load it.
    if "queuebroker.sockets.broker" in sys.modules:
        from queuebroker.aio import socket_broker  # noqa: PLC0415 # as above

        faces.insert(0, socket_broker.SocketQueueBroker)
    face: MessageQueue | QueueBroker
    face = face_of(existing, "a MessageQueue or a QueueBroker", *faces)
    return face
