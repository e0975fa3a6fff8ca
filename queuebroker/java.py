"""The names of the Java text, for readers of it (QB-PY-13).

Differences beyond the names: `accept`, `connect`, `send` and `receive` take timeouts,
and `connect` can raise instead of returning None.
"""

from __future__ import annotations

from queuebroker.errors import DisconnectedChannelError, DisconnectedQueueError

__all__ = [
    "DisconnectQueueException",
    "DisconnectedChannelException",
    "DisconnectedQueueException",
]

DisconnectedQueueException = DisconnectedQueueError
DisconnectQueueException = DisconnectedQueueError
DisconnectedChannelException = DisconnectedChannelError
