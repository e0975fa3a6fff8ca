"""A first attempt at the channel contract: it runs, and it is wrong in a few places.

Two brokers meet, talk and hang up, and whoever tries it by hand finds nothing to
complain about. Ask the conformance suite:

    bus conformance examples/naive_broker.py:factory

``docs/how-to/test-your-own-broker.md`` goes through what it says.
"""

from __future__ import annotations

import threading

CAPACITY = 8


class Manager:
    """Knows the brokers by name."""

    def __init__(self) -> None:
        self.brokers: dict[str, Broker] = {}

    def broker(self, name: str) -> Broker:
        """Make a broker that others can connect to."""
        self.brokers[name] = Broker(self)
        return self.brokers[name]


class Broker:
    """Where queues are asked for and offered, by port."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.changed = threading.Condition()
        # By port, the ends that accepts have made and no connect has taken yet.
        self.offered: dict[int, list[Queue]] = {}

    def accept(self, port: int) -> Queue:
        """Offer a queue on a port and wait until somebody connects."""
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
    """One end of a connection: what it receives lies in its own inbox."""

    def __init__(self, changed: threading.Condition) -> None:
        self.changed = changed
        self.inbox: list[bytes] = []
        self.closed = False
        self.peer: Queue

    @classmethod
    def pair(cls) -> tuple[Queue, Queue]:
        """Make two ends that belong together."""
        changed = threading.Condition()
        left, right = cls(changed), cls(changed)
        left.peer, right.peer = right, left
        return left, right

    def send(self, data: bytes) -> None:
        """Put a message into the peer's inbox, as soon as there is room."""
        message = bytes(data)
        with self.changed:
            while len(self.peer.inbox) >= CAPACITY and not self.disconnected():
                self.changed.wait()
            if self.disconnected():
                raise ConnectionError("the queue is disconnected")
            self.peer.inbox.append(message)
            self.changed.notify_all()

    def receive(self) -> bytes:
        """Take the oldest message out of the inbox, as soon as there is one."""
        with self.changed:
            if not self.inbox and not self.disconnected():
                self.changed.wait()
            if self.closed or (self.peer.closed and not self.inbox):
                raise ConnectionError("the queue is disconnected")
            message = self.inbox.pop(0)
            self.changed.notify_all()
            return message

    def disconnect(self) -> None:
        """Hang up, and tell everybody who waits."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def disconnected(self) -> bool:
        """Say whether somebody hung up."""
        return self.closed or self.peer.closed


def factory() -> Manager:
    """Make a world of its own, as the suite asks for."""
    return Manager()
