"""What only a queue between processes can tell its user.

They are causes: `DisconnectedQueueError` and `BrokerClosedError` stay what is caught,
and these say why (QB-RECV-9, QB-SOCK-4).
"""

from __future__ import annotations

from queuebroker.errors import QueueBrokerError

__all__ = ["NotAdmittedError", "PeerLostError", "ProtocolError", "RemoteError"]


class PeerLostError(QueueBrokerError, ConnectionError):
    """The peer vanished without a good-bye: killed, reset, or silent for too long.

    What had arrived is received before this is told. What was sent and not yet
    received there may be lost: `Stats.peer_lost` counts it.
    """


class ProtocolError(QueueBrokerError, ConnectionError):
    """What came over the connection breaks the protocol; that connection is ended."""


class RemoteError(QueueBrokerError):
    """The error with which the peer disconnected, as its text and its kind.

    kind: the name of the exception's class over there.
    """

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind: str = kind


class NotAdmittedError(QueueBrokerError, PermissionError):
    """The listener did not admit this peer; the text is its reason."""
