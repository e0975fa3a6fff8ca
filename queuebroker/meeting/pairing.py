"""Create the two ends of one connection from two matched `RdV`.

The only place that chooses the kind of end. It runs under the manager's lock and takes
no other: no other thread has the connection yet.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from queuebroker import _sync
from queuebroker.channel.channel import Channel
from queuebroker.channel.circular_buffer import CircularBuffer, CircularBufferQueue
from queuebroker.channel.connection import Connection
from queuebroker.channel.flow import Flow
from queuebroker.channel.locked_queue import LockedMessageQueue
from queuebroker.channel.queue_connection import Message, QueueConnection
from queuebroker.lockfree.fast_queue import FastMessageQueue
from queuebroker.lockfree.lock_free_connection import LockFreeConnection
from queuebroker.meeting.rendezvous import Kind

if TYPE_CHECKING:
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.meeting.rendezvous import RdV
    from queuebroker.observer import Watch

__all__ = ["pair"]

# A member of an Enum takes five times as long to look up as a global name.
_CHANNEL: Final = Kind.CHANNEL

# The fast kind relies on the interpreter lock (docs/explanation/fast-path.md).
LOCKED: Final = (
    os.environ.get("QUEUEBROKER_LOCKED") == "1"
    or not getattr(sys, "_is_gil_enabled", lambda: True)()
)


def pair(
    acceptor: RdV, connector: RdV, watch: Watch | None
) -> tuple[Connection[Any], MessageQueue | Channel, MessageQueue | Channel]:
    """Return one new connection, the acceptor's end of it, and the connector's.

    The acceptor's terms decide capacity and limit (QB-BUF-10); strictness is each
    side's own.
    """
    if connector.join is not None:
        # The connector's end is in another process; its call here gets the acceptor's
        # end.
        connection, end = connector.join(acceptor, watch)
        return connection, end, end
    lock = _sync.RLock()
    capacity = acceptor.terms.capacity
    names = (acceptor.caller.name, connector.caller.name)
    strict = (acceptor.terms.strict, connector.terms.strict)
    if acceptor.kind is _CHANNEL:
        bytes_flows = (
            Flow(CircularBuffer(capacity, lock=lock)),
            Flow(CircularBuffer(capacity, lock=lock)),
        )
        stream = Connection(
            lock, bytes_flows, names, acceptor.port, strict=strict, watch=watch
        )
        return stream, Channel(stream, 0), Channel(stream, 1)
    if watch is None and not LOCKED:
        limit = acceptor.terms.limit
        fast = LockFreeConnection(
            lock, capacity, names, acceptor.port, limit=limit, strict=strict
        )
        return fast, FastMessageQueue(fast, 0), FastMessageQueue(fast, 1)
    messages: tuple[CircularBufferQueue[Message], CircularBufferQueue[Message]] = (
        CircularBufferQueue(capacity, lock=lock),
        CircularBufferQueue(capacity, lock=lock),
    )
    flows = (Flow(messages[0]), Flow(messages[1]))
    queue = QueueConnection(
        lock,
        flows,
        names,
        acceptor.port,
        limit=acceptor.terms.limit,
        strict=strict,
        watch=watch,
    )
    return queue, LockedMessageQueue(queue, 0), LockedMessageQueue(queue, 1)
