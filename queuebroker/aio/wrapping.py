"""`wrap`: the face for coroutines of an end or a broker that exists already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, overload

from queuebroker.aio.message_queue import MessageQueue
from queuebroker.aio.queue_broker import QueueBroker
from queuebroker.arguments import known_as
from queuebroker.channel import message_queue
from queuebroker.meeting import queue_broker as plain

if TYPE_CHECKING:
    from queuebroker.aio import socket_broker
    from queuebroker.sockets.broker import SocketQueueBroker

__all__ = ["wrap"]


@overload
def wrap(existing: message_queue.MessageQueue) -> MessageQueue: ...
@overload
def wrap(existing: plain.QueueBroker) -> QueueBroker: ...
@overload
def wrap(existing: SocketQueueBroker) -> socket_broker.SocketQueueBroker: ...
def wrap(existing: object) -> MessageQueue | QueueBroker:
    """Return the face of an existing end or broker; both may be used at once.

    Raises:
        TypeError: it is neither, or is not an end of a connection of this process.
    """
    if isinstance(existing, message_queue.MessageQueue):
        return MessageQueue(existing)
    # A program with such a broker has loaded its module; others need not load it.
    sockets = sys.modules.get("queuebroker.sockets.broker")
    if sockets is not None and isinstance(existing, sockets.SocketQueueBroker):
        from queuebroker.aio import socket_broker  # noqa: PLC0415 # as above

        return socket_broker.face_of(existing)
    if not isinstance(existing, plain.QueueBroker):
        got = known_as(type(existing))
        msg = (
            f"cannot wrap {got}: want a MessageQueue, a QueueBroker"
            " or a SocketQueueBroker"
        )
        raise TypeError(msg)
    face = QueueBroker.__new__(QueueBroker)
    face._plain = existing
    return face
