"""Every exception of the package, by who can act on it (QB-ERR).

::

    QueueBrokerError
    ├── DisconnectedError (ConnectionError)     somebody hung up; `side` says who
    │   ├── DisconnectedQueueError
    │   └── DisconnectedChannelError
    │       └── IncompleteReadError             read_exactly met the end; `partial`
    ├── QueueBrokerTimeoutError (TimeoutError)  you set a limit and it passed
    │   ├── RendezvousTimeoutError
    │   ├── SendTimeoutError
    │   └── ReceiveTimeoutError
    ├── BrokerNameInUseError (ValueError)       choose another name
    ├── UnknownBrokerError (LookupError)        nobody has that name
    ├── BrokerClosedError                       the broker is closed, or was meanwhile
    ├── PortInUseError                          another accept holds that port
    ├── NoCurrentBrokerError (RuntimeError)     this thread is no Task of any broker
    ├── MessageTooLargeError (ValueError)       above max_message_size
    ├── PayloadError (ValueError)               no object of a TypedQueue; `payload`
    ├── BufferFullError                         CircularBuffer.push found no room
    └── BufferEmptyError                        CircularBuffer.pull found nothing

Wrong arguments are plain `TypeError` and `ValueError`. A disconnect is never a
timeout nor the reverse, though Python makes both of them `OSError` (QB-ERR-2).
"""

from __future__ import annotations

from typing import Literal

__all__ = [
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

# Every constructor passes ONE argument up: two would make an OSError subclass read
# them as errno and strerror (QB-ERR-6). What else an exception carries is set after
# that, so that pickling and copying, which call the class with `args` and then
# restore `__dict__`, keep it (QB-ERR-7).


class QueueBrokerError(Exception):
    """Root of every exception this package defines."""


class DisconnectedError(QueueBrokerError, ConnectionError):
    """An end is disconnected, so this can never succeed again.

    Not raised while unread messages remain after the peer hung up: those are still
    received (QB-DISC-5).

    side: "local" if this end disconnected, "remote" if the peer did.
    reason: the text of the error that caused it, None for an ordinary disconnect;
      the error itself is then also `__cause__` (QB-RECV-9, QB-ERR-8).
    """

    def __init__(
        self,
        message: str = "",
        *,
        side: Literal["local", "remote"] = "local",
        reason: str | None = None,
    ) -> None:
        super().__init__(message)
        self.side: Literal["local", "remote"] = side
        self.reason: str | None = reason


class DisconnectedQueueError(DisconnectedError):
    """A MessageQueue end is disconnected."""


class DisconnectedChannelError(DisconnectedError):
    """A Channel end is disconnected."""


class IncompleteReadError(DisconnectedChannelError):
    """`Channel.read_exactly` met the end; `partial` holds the bytes read before."""

    partial: bytes = b""


class QueueBrokerTimeoutError(QueueBrokerError, TimeoutError):
    """The timeout passed, and neither success nor a disconnect came first."""


class RendezvousTimeoutError(QueueBrokerTimeoutError):
    """No opposite call came in time; this one was withdrawn (QB-TIME-4)."""


class SendTimeoutError(QueueBrokerTimeoutError):
    """The peer's buffer stayed full; nothing was sent (QB-TIME-6)."""


class ReceiveTimeoutError(QueueBrokerTimeoutError):
    """Nothing, or for `Channel.read_exactly` too little, arrived in time (QB-TIME-7).

    partial: what `read_exactly` had read, else empty; nothing is lost.
    """

    partial: bytes = b""


class BrokerNameInUseError(QueueBrokerError, ValueError):
    """A live broker of the same manager has this name (QB-NAME-4)."""


class UnknownBrokerError(QueueBrokerError, LookupError):
    """`connect(..., required=True)` to a name that no live broker has."""


class BrokerClosedError(QueueBrokerError):
    """The broker is closed, or was while this call waited (QB-NAME-6, 8)."""


class PortInUseError(QueueBrokerError):
    """An exclusive accept and another one met on one port (QB-RDV-9)."""


class NoCurrentBrokerError(QueueBrokerError, RuntimeError):
    """Neither a Task nor an `as_current()` block (QB-NAME-10)."""


class MessageTooLargeError(QueueBrokerError, ValueError):
    """The message is longer than the connection's `max_message_size`."""


class PayloadError(QueueBrokerError, ValueError):
    """A message is no object of the type that a `TypedQueue` is of (QB-PY-12).

    It is received all the same, and the queue goes on with the next one. Not raised on
    sending: what cannot be encoded is a wrong argument, and nothing is sent.

    payload: the message, as it came.
    """

    def __init__(self, message: str = "", *, payload: bytes = b"") -> None:
        super().__init__(message)
        self.payload: bytes = payload


class BufferFullError(QueueBrokerError):
    """A CircularBuffer had no room for one more byte."""


class BufferEmptyError(QueueBrokerError):
    """A CircularBuffer held no byte."""
