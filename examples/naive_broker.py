"""A first attempt at the channel contract: it runs, but breaks some clauses.

Two brokers connect, exchange messages and disconnect, and a test by hand finds no
fault. Run the conformance suite:

    bus conformance examples/naive_broker.py:factory

``docs/how-to/test-your-own-broker.md`` explains its output.
"""

from __future__ import annotations

import threading

CAPACITY = 8


class Manager:
    """The brokers by name."""

    def __init__(self) -> None:
        self.brokers: dict[str, Broker] = {}

    def broker(self, name: str) -> Broker:
        """Make a broker that others can connect to."""
        self.brokers[name] = Broker(self)
        return self.brokers[name]


class Broker:
    """The queues that accepts offer and connects take, by port."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.changed = threading.Condition()
        # By port, the ends offered by an accept and not yet taken by a connect.
        self.offered: dict[int, list[Queue]] = {}

    def accept(self, port: int) -> Queue:
        """Offer a queue on a port and wait for a connect."""
        mine, theirs = Queue.pair()
        with self.changed:
            offered = self.offered.setdefault(port, [])
            offered.append(theirs)
            self.changed.notify_all()
            while theirs in offered:
                self.changed.wait()
        return mine

    def connect(self, name: str, port: int) -> Queue:
        """Wait until that broker offers a queue on the port, and take it."""
        other = self.manager.brokers[name]
        with other.changed:
            while not other.offered.get(port):
                other.changed.wait()
            theirs = other.offered[port].pop(0)
            other.changed.notify_all()
        return theirs


class Queue:
    """One end of a connection, with its inbox of unread messages."""

    def __init__(self, changed: threading.Condition) -> None:
        self.changed = changed
        self.inbox: list[bytes] = []
        self.closed = False
        self.peer: Queue

    @classmethod
    def pair(cls) -> tuple[Queue, Queue]:
        """Make the two ends of one connection."""
        changed = threading.Condition()
        left, right = cls(changed), cls(changed)
        left.peer, right.peer = right, left
        return left, right

    def send(self, data: bytes) -> None:
        """Put a message into the peer's inbox; wait while it is full."""
        message = bytes(data)
        with self.changed:
            while len(self.peer.inbox) >= CAPACITY and not self.disconnected():
                self.changed.wait()
            if self.disconnected():
                raise ConnectionError("the queue is disconnected")
            self.peer.inbox.append(message)
            self.changed.notify_all()

    def receive(self) -> bytes:
        """Take the oldest message out of the inbox; wait while it is empty."""
        with self.changed:
            if not self.inbox and not self.disconnected():
                self.changed.wait()
            if self.closed or (self.peer.closed and not self.inbox):
                raise ConnectionError("the queue is disconnected")
            message = self.inbox.pop(0)
            self.changed.notify_all()
            return message

    def disconnect(self) -> None:
        """Disconnect, and wake all waiting threads."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def disconnected(self) -> bool:
        """Return True if either end has disconnected."""
        return self.closed or self.peer.closed


def factory() -> Manager:
    """Make a new world, as the suite requires."""
    return Manager()
