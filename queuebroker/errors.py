"""Every exception of the package, grouped by the party that can act (QB-ERR).

::

    QueueBrokerError
    ├── DisconnectedError (ConnectionError)     an end disconnected; `side` names it
    │   ├── DisconnectedQueueError
    │   └── DisconnectedChannelError
    │       └── IncompleteReadError             read_exactly met the end; `partial`
    ├── QueueBrokerTimeoutError (TimeoutError)  the caller's time limit has passed
    │   ├── RendezvousTimeoutError
    │   ├── SendTimeoutError
    │   └── ReceiveTimeoutError
    ├── BrokerNameInUseError (ValueError)       choose another name
    ├── UnknownBrokerError (LookupError)        no live broker has that name
    ├── BrokerClosedError                       closed before or during the call
    ├── PortInUseError                          another accept holds that port
    ├── NoCurrentBrokerError (RuntimeError)     this thread is no Task of any broker
    ├── MessageTooLargeError (ValueError)       above max_message_size
    ├── PayloadError (ValueError)               no object of a TypedQueue; `payload`
    ├── BufferFullError                         CircularBuffer.push found no room
    └── BufferEmptyError                        CircularBuffer.pull found nothing

Wrong arguments raise plain `TypeError` and `ValueError`. A disconnect is never a
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

# Every constructor passes ONE argument up: with two, an OSError subclass would read
# them as errno and strerror (QB-ERR-6). Other attributes are set after that. Pickling
# and copying, which call the class with `args` and then restore `__dict__`, keep them
# (QB-ERR-7).


class QueueBrokerError(Exception):
    """Base class of every exception that this package defines."""

    def __init__(self, *args: object) -> None:
        # `inspect.signature` finds none in a constructor of the interpreter.
        super().__init__(*args)


class DisconnectedError(QueueBrokerError, ConnectionError):
    """An end is disconnected, so the operation can never succeed again.

    Not raised while unread messages remain after the peer has disconnected: those are
    still received (QB-DISC-5).

    side: "local" if this end disconnected, "remote" if the peer did.
    reason: the text of the error that caused it, None for an ordinary disconnect; the
      error itself is then also `__cause__` (QB-RECV-9, QB-ERR-8).
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

    partial: the bytes that `read_exactly` had read, else empty; nothing is lost.
    """

    partial: bytes = b""


class BrokerNameInUseError(QueueBrokerError, ValueError):
    """A live broker of the same manager has this name (QB-NAME-4)."""


class UnknownBrokerError(QueueBrokerError, LookupError):
    """`connect(..., required=True)` to a name that no live broker has."""


class BrokerClosedError(QueueBrokerError):
    """The broker is closed, or was closed during this call (QB-NAME-6, 8)."""


class PortInUseError(QueueBrokerError):
    """An exclusive accept and another accept conflict on one port (QB-RDV-9)."""


class NoCurrentBrokerError(QueueBrokerError, RuntimeError):
    """The caller is in neither a Task nor an `as_current()` block (QB-NAME-10)."""


class MessageTooLargeError(QueueBrokerError, ValueError):
    """The message is longer than the connection's `max_message_size`."""


class PayloadError(QueueBrokerError, ValueError):
    """A message does not decode to the type of its `TypedQueue` (QB-PY-12).

    The message counts as received, and the queue goes on with the next one. Not raised
    on sending: an object that cannot be encoded is a wrong argument, and nothing is
    sent.

    payload: the message as received.
    """

    def __init__(self, message: str = "", *, payload: bytes = b"") -> None:
        super().__init__(message)
        self.payload: bytes = payload


class BufferFullError(QueueBrokerError):
    """A CircularBuffer had no room for one more byte."""


class BufferEmptyError(QueueBrokerError):
    """A CircularBuffer held no byte."""
