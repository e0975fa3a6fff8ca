"""What may watch a channel: the `Observer`, and the operations it is told of.

An observer is given when a `BrokerManager` is made and never changes (QB-BOOK-4). It
is called inside the critical section of what it watches, in the true order, and must
not call back into ``queuebroker``. One that raises is switched off, once, with a log
line: recording is never a reason for a channel to fail.
"""

from __future__ import annotations

import enum
from typing import Protocol

__all__ = ["Observer", "Operation", "Reason", "Watch"]


class Operation(enum.IntEnum):
    """What happened. The numbers are those of the journal's records."""

    BIND = 16  # a broker took its name
    UNBIND = 17  # a broker was closed
    ACCEPT_BEGIN = 18
    ACCEPT_END = 19  # matched
    CONNECT_BEGIN = 20
    CONNECT_END = 21  # matched
    REFUSE = 22  # an accept or connect ended without a match; `reason` says why
    SEND = 32  # accepted: the message is in the peer's buffer
    RECEIVE = 33
    RECV_BEGIN = 34  # a receive began to wait
    RECV_END = 35  # that receive ended, with a message or without
    CLOSE_LOCAL = 36  # disconnect() on this end
    CLOSE_SEEN = 37  # this end met the peer's disconnect for the first time
    DROP = 38  # a message that will not be received; `reason` says why
    WRITE = 40  # bytes accepted on a Channel; `seq` counts the bytes before them
    READ = 41  # bytes read from a Channel; `seq` counts the bytes before them


class Reason(enum.IntEnum):
    """Why something was dropped, refused, closed or ended."""

    NONE = 0
    HALF_DISCONNECTED = 1  # sent after the peer had disconnected (QB-DISC-6)
    DISCARDED = 2  # unread when its receiver disconnected (QB-DISC-11)
    PEER_LOST = 3  # the peer vanished (QB-SOCK-4)
    TIMED_OUT = 4
    BROKER_CLOSED = 5
    UNKNOWN_BROKER = 6
    PORT_IN_USE = 7
    DISCONNECTED = 8
    COLLECTED = 9  # the end was garbage collected while connected (QB-PY-7)
    ABNORMAL = 10  # disconnect(error=...) (QB-RECV-9)
    INTERRUPTED = 11  # an exception struck the waiting thread


class Observer(Protocol):
    """A callable told of every accepted operation, in the channel's true order.

    It is called under the lock of what it is told of. If it takes a lock of its own, it
    must do so without waiting for itself: the garbage collector may start in it, and
    the finalizer of a forgotten end tells the observer of that end's close.
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
        """Take note of one operation; return quickly; never call back.

        channel: number of the connection, unique in this process, 0 before a match.
        direction: for SEND, RECEIVE, DROP, RECV_*, WRITE and READ, the side that
          receives this flow; for the others the side that acts. Side 0 is the end of
          the acceptor, side 1 that of the connector.
        seq: number of the message in its flow, from 1, given by the sender when the
          message is accepted and carried with it; for ACCEPT_*, CONNECT_* and REFUSE
          the ticket that joins the begin to its end; 0 where there is none (a
          message dropped while half-disconnected never was accepted).
        size: bytes of the message.
        depth: messages in the flow's buffer after the operation.
        waited_ns: how long the call had to wait, 0 if it did not.
        local, remote: names of this side's broker and of the other ("" if none).
        port: the port of the rendez-vous, -1 if none.
        """


# What an `Observer` is told, in its order.
Event = tuple[Operation, int, int, int, int, int, int, str, str, int, Reason]


class Watch:
    """An observer with a guard: what it raises switches it off (QB-BOOK-4)."""

    __slots__ = ("_armed",)

    def __init__(self, observer: Observer) -> None:
        # A list of one, because its pop is atomic: of two threads in which the
        # observer raises at once, one switches it off and logs.
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
            # Imported here: it would be a quarter of the time this package takes to
            # import, for a line that a correct observer never causes.
            import logging  # noqa: PLC0415

            logger = logging.getLogger("queuebroker")
            logger.addHandler(logging.NullHandler())  # silent unless asked for
            logger.exception("observer raised and is switched off: %r", observer)
