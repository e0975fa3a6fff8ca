"""Observation of channels: the `Observer`, and the operations reported to it.

An observer is set when a `BrokerManager` is created and never changes (QB-BOOK-4). It
is called inside the critical section of the observed operation, in the true order. It
must not call back into ``queuebroker``. An observer that raises is switched off, once,
with a log line: recording must never make a channel fail.
"""

from __future__ import annotations

import enum
from typing import Final, Protocol

__all__ = ["SHARED_CHANNELS", "Observer", "Operation", "Reason", "Watch"]

# The channel numbers of sockets are random and at least this. All others, which count
# the connections of a process, are less.
SHARED_CHANNELS: Final = 2**61


class Operation(enum.IntEnum):
    """The observed operations. The numbers are those of the journal's records."""

    BIND = 16  # a broker took its name
    UNBIND = 17  # a broker was closed
    ACCEPT_BEGIN = 18
    ACCEPT_END = 19  # matched
    CONNECT_BEGIN = 20
    CONNECT_END = 21  # matched
    REFUSE = 22  # an accept or connect ended without a match; see `reason`
    SEND = 32  # accepted: the message is in the peer's buffer
    RECEIVE = 33
    RECV_BEGIN = 34  # a receive began to wait
    RECV_END = 35  # that receive ended, with a message or without
    CLOSE_LOCAL = 36  # disconnect() on this end
    CLOSE_SEEN = 37  # this end noticed the peer's disconnect for the first time
    DROP = 38  # a message that will not be received; see `reason`
    WRITE = 40  # bytes accepted on a Channel; `seq` counts the bytes before them
    READ = 41  # bytes read from a Channel; `seq` counts the bytes before them


class Reason(enum.IntEnum):
    """The reason of a drop, a refusal, a close or an end."""

    NONE = 0
    HALF_DISCONNECTED = 1  # sent after the peer had disconnected (QB-DISC-6)
    DISCARDED = 2  # unread when its receiver disconnected (QB-DISC-11)
    PEER_LOST = 3  # the peer vanished, and may have received it (QB-SOCK-4)
    TIMED_OUT = 4
    BROKER_CLOSED = 5
    UNKNOWN_BROKER = 6
    PORT_IN_USE = 7
    DISCONNECTED = 8
    COLLECTED = 9  # the end was garbage collected while connected (QB-PY-7)
    ABNORMAL = 10  # disconnect(error=...) (QB-RECV-9)
    INTERRUPTED = 11  # an exception was raised in the waiting thread


class Observer(Protocol):
    """A callable that receives every accepted operation, in the channel's true order.

    It is called under the lock of the observed object. If the observer takes a lock of
    its own, a nested call in the same thread must not block on that lock. The garbage
    collector may run inside the observer, and the finalizer of a forgotten end then
    reports that end's close.
    """

    def __call__(
        self,
        operation: Operation,
        channel: int,
        direction: int,
        seq: int,
        size: int,
        depth: int,
        waited_ns: int,
        local: str,
        remote: str,
        port: int,
        reason: Reason,
        /,
    ) -> None:
        """Record one operation; return quickly; never call back.

        channel: number of the connection, unique in this process, 0 before a match.
          The two ends of a socket have the same number, drawn at random from 2**61 on.
        direction: for SEND, RECEIVE, DROP, RECV_*, WRITE and READ, the side that
          receives this flow; for the others the side that acts. Side 0 is the end of
          the acceptor, side 1 that of the connector.
        seq: number of the message in its flow, from 1. The sender assigns it when the
          message is accepted, and the message carries it. For ACCEPT_*, CONNECT_* and
          REFUSE it is the ticket that joins the begin to its end. It is 0 if there is
          none (a message dropped while half-disconnected never was accepted).
        size: bytes of the message.
        depth: messages in the flow's buffer after the operation.
        waited_ns: how long the call had to wait, 0 if it did not.
        local, remote: names of this side's broker and of the other ("" if none).
        port: the port of the rendezvous, -1 if none.
        """


# The arguments of an `Observer`, in their order.
Event = tuple[Operation, int, int, int, int, int, int, str, str, int, Reason]


class Watch:
    """An observer with a guard: an exception in it switches it off (QB-BOOK-4)."""

    __slots__ = ("_armed",)

    def __init__(self, observer: Observer) -> None:
        # A list of one, because its pop is atomic: if the observer raises in two
        # threads at once, one of them switches it off and logs.
        self._armed = [observer]

    def __call__(self, *event: *Event) -> None:
        try:
            observer = self._armed[0]
        except IndexError:
            return
        try:
            observer(*event)
        except Exception:  # recording must never fail a channel
            try:
                self._armed.pop()
            except IndexError:
                return
            # Imported here: it would take a quarter of the import time of this package,
            # for a line that a correct observer never causes.
            import logging  # noqa: PLC0415

            logger = logging.getLogger("queuebroker")
            logger.addHandler(logging.NullHandler())  # silent unless configured
            logger.exception("observer raised and is switched off: %r", observer)
