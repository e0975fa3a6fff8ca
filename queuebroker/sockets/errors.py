"""The errors that only a queue between processes can have.

They are causes: user code still catches `DisconnectedQueueError` and
`BrokerClosedError`, and these give the reason (QB-RECV-9, QB-SOCK-4).
"""

from __future__ import annotations

from queuebroker import _net
from queuebroker.errors import QueueBrokerError

__all__ = [
    "NotAdmittedError",
    "PeerLostError",
    "ProtocolError",
    "RemoteError",
    "failed",
    "lost",
]


class PeerLostError(QueueBrokerError, ConnectionError):
    """The peer vanished without a good-bye: killed, reset, or silent for too long.

    Also raised if an error of this process, such as a lack of memory, ended the
    connection; that error is then its cause.

    Messages that had arrived are received before this error is raised. Messages sent
    but not yet received by the peer may be lost: `Stats.peer_lost` counts them.
    """


class ProtocolError(QueueBrokerError, ConnectionError):
    """A received frame violates the protocol, which ends the connection."""


class RemoteError(QueueBrokerError):
    """The error with which the peer disconnected: its text and its kind.

    kind: the name of the exception's class in the peer's process.
    """

    def __init__(self, message: str = "", *, kind: str = "") -> None:
        super().__init__(message)
        self.kind: str = kind


class NotAdmittedError(QueueBrokerError, PermissionError):
    """The listener did not admit this peer; the text is its reason."""


def lost(error: OSError) -> PeerLostError:
    """Return the error for a lost peer, from the error of its socket."""
    if isinstance(error, _net.TlsError):
        text = _net.tls_reason(error)
    else:
        text = (_net.error_text(error.errno) if error.errno else str(error)).lower()
    made = PeerLostError(f"connection lost: {text}")
    made.__cause__ = error
    return made


def failed(error: BaseException) -> PeerLostError:
    """Return the error for a connection that an error of its process ended."""
    kind, text = type(error).__name__, str(error)
    made = PeerLostError(f"connection ended by {kind}" + (f": {text}" if text else ""))
    made.__cause__ = error
    return made
