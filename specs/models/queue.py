"""Send, receive and disconnect on a connection that carries messages.

The rules are pure functions from a connection to an answer and the next connection.
An answer of WAITS leaves the connection unchanged: the operation is not enabled. The
caller may retry it later, for a send with ``waited=True``, or give up, which is a
timeout. `QueuePair` is the same as an object, for tests that go step by step.
"""

from __future__ import annotations

import attrs

from specs.models.answers import Answer, Ending
from specs.models.connection import Connection, Status, disconnect, status

__all__ = ["Messages", "QueuePair", "open_queue", "receive", "send"]

Messages = Connection[tuple[bytes, ...]]

_SENT = Answer(Ending.DONE)
_WAITS = Answer(Ending.WAITS)
_DISCONNECTED = Answer(Ending.DISCONNECTED)


def open_queue(capacity: int, *, strict_half: bool = False) -> Messages:
    """Return a new connection for messages."""
    return Connection(((), ()), capacity=capacity, strict_half=strict_half)


def send(
    queue: Messages, end: int, message: bytes, *, waited: bool = False
) -> tuple[Answer, Messages]:
    """Send one message from ``end`` to its peer.

    waited: True if this very send found the buffer full before. It then never counts as
    dropped (A2): if the peer disconnects, it is refused.
    """
    peer = 1 - end
    match status(queue, end):
        case Status.DISCONNECTED:
            return _DISCONNECTED, queue
        case Status.HALF:
            # The peer's buffer does not matter any more: no one will read it.
            return (_DISCONNECTED if waited or queue.strict_half else _SENT), queue
        case Status.CONNECTED:
            if not queue.free(peer):
                return _WAITS, queue
            return _SENT, queue.with_inbound(peer, (*queue.inbound[peer], message))


def receive(queue: Messages, end: int) -> tuple[Answer, Messages]:
    """Receive the oldest unread message of ``end``."""
    if status(queue, end) is Status.DISCONNECTED:
        return _DISCONNECTED, queue
    if not queue.inbound[end]:
        return _WAITS, queue
    oldest, *rest = queue.inbound[end]
    return Answer(Ending.DONE, oldest), queue.with_inbound(end, tuple(rest))


@attrs.define
class QueuePair:
    """Both ends of one queue, step by step, with the counters of QB-BOOK-1.

    Every operation returns its `Answer`; one that WAITS has changed nothing and is a
    timeout for a caller that does not wait. The counters belong to the sending end.
    """

    state: Messages
    sent: list[int] = attrs.field(factory=lambda: [0, 0])
    received: list[int] = attrs.field(factory=lambda: [0, 0])
    half_disconnected: list[int] = attrs.field(factory=lambda: [0, 0])
    discarded: list[int] = attrs.field(factory=lambda: [0, 0])

    @classmethod
    def open(cls, capacity: int, *, strict_half: bool = False) -> QueuePair:
        """A new connection."""
        return cls(open_queue(capacity, strict_half=strict_half))

    def status(self, end: int) -> Status:
        """Return the present status of the end."""
        return status(self.state, end)

    def disconnected(self, end: int) -> bool:
        """Return True if no send or receive on this end can succeed any more."""
        return self.status(end) is Status.DISCONNECTED

    def remote_disconnected(self, end: int) -> bool:
        """Return True if the peer has disconnected (QB-DISC-13)."""
        return self.state.closed[1 - end]

    def pending(self, end: int) -> int:
        """Return the number of unread messages of the end."""
        return len(self.state.inbound[end])

    def can_send(self, end: int, *, waited: bool = False) -> bool:
        """Return True if a send would end at once or raise."""
        return send(self.state, end, b"", waited=waited)[0] != _WAITS

    def can_receive(self, end: int) -> bool:
        """Return True if a receive would end at once or raise."""
        return receive(self.state, end)[0] != _WAITS

    def send(self, end: int, message: bytes, *, waited: bool = False) -> Answer:
        """Send one message."""
        dropped = self.status(end) is Status.HALF
        answer, self.state = send(self.state, end, message, waited=waited)
        if answer.kind is Ending.DONE:
            self.sent[end] += 1
            self.half_disconnected[end] += dropped
        return answer

    def receive(self, end: int) -> Answer:
        """Receive one message."""
        answer, self.state = receive(self.state, end)
        self.received[1 - end] += answer.kind is Ending.DONE
        return answer

    def send_many(self, end: int, messages: list[bytes]) -> Answer:
        """Send until one would fail or wait; DONE with the number sent (QB-BULK-1)."""
        for count, message in enumerate(messages):
            answer = self.send(end, message)
            if answer.kind is not Ending.DONE:
                return Answer(Ending.DONE, count) if count else answer
        return Answer(Ending.DONE, len(messages))

    def receive_many(self, end: int, limit: int | None = None) -> Answer:
        """Receive the messages there, up to ``limit``; DONE with them (QB-BULK-2)."""
        first = self.receive(end)
        if first.kind is not Ending.DONE:
            return first
        got = [first.value]
        while self.pending(end) and (limit is None or len(got) < limit):
            got.append(self.receive(end).value)
        return Answer(Ending.DONE, got)

    def disconnect(self, end: int) -> None:
        """Disconnect one end."""
        self.discarded[1 - end] += self.pending(end)
        self.state = disconnect(self.state, end)

    def balances(self, end: int) -> bool:
        """Return True if every message that ``end`` sent is accounted for."""
        dropped = self.half_disconnected[end] + self.discarded[end]
        return self.sent[end] == self.received[end] + dropped + self.pending(1 - end)
