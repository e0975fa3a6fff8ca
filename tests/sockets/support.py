"""Shared by socket tests: a pair of brokers, a pair of ends, other processes."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queuebroker import BrokerManager, _net, _platform
from queuebroker.sockets import (
    Driver,
    SocketMessageQueue,
    SocketQueueBroker,
    read_owner,
)
from queuebroker.sockets.link import Link
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from queuebroker import MessageQueue
    from queuebroker.observer import Observer
    from queuebroker.sockets.protocol import Event, Protocol

__all__ = [
    "PORT",
    "Exhausted",
    "Wired",
    "brokers",
    "connections",
    "ends",
    "folder",
    "let_nobody_read",
    "local_address",
    "meet",
    "numbered",
    "take",
    "take_lease_locked",
]

PORT = 7


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder with a short path: a socket address has little room for it."""
    with tempfile.TemporaryDirectory(prefix="qb-") as name:
        yield Path(name)


def local_address(place: Path) -> str:
    """Return where a broker listens: at a path, or where there are none at a port."""
    return f"ipc://{place}/host" if _net.HAS_UNIX else "tcp://127.0.0.1:0"


@contextmanager
def brokers(
    listen: str | None = None,
    host: dict[str, Any] | None = None,
    guest: dict[str, Any] | None = None,
    observer: Observer | None = None,
) -> Iterator[tuple[SocketQueueBroker, SocketQueueBroker]]:
    """Yield a broker that listens and one that does not, as in two processes."""
    with (
        folder() as place,
        BrokerManager(observer=observer) as one,
        BrokerManager(observer=observer) as other,
        SocketQueueBroker(
            "host", listen=listen or local_address(place), manager=one, **(host or {})
        ) as acceptor,
        SocketQueueBroker("guest", manager=other, **(guest or {})) as connector,
    ):
        yield acceptor, connector


def meet(
    acceptor: SocketQueueBroker, connector: SocketQueueBroker, port: int = PORT
) -> tuple[SocketMessageQueue, SocketMessageQueue]:
    """Connect the two; return the acceptor's end and the connector's."""
    assert acceptor.address is not None
    with Threads() as threads:
        accepting = threads.start(acceptor.accept, port)
        connected: MessageQueue = connector.connect(
            acceptor.address, port, required=True
        )
        accepted = accepting.result()
    assert isinstance(accepted, SocketMessageQueue)
    assert isinstance(connected, SocketMessageQueue)
    return accepted, connected


@contextmanager
def ends(
    listen: str | None = None,
    host: dict[str, Any] | None = None,
    guest: dict[str, Any] | None = None,
) -> Iterator[tuple[SocketMessageQueue, SocketMessageQueue]]:
    """Yield both ends of a connection over a socket."""
    with brokers(listen, host, guest) as (acceptor, connector):
        accepted, connected = meet(acceptor, connector)
        with accepted, connected:
            yield accepted, connected


def take(end: SocketMessageQueue, count: int) -> list[bytes]:
    """Receive some messages."""
    return [end.receive(timeout=LIMIT_S) for _ in range(count)]


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Return messages that differ."""
    return [b"%d" % number for number in range(first, first + count)]


class Exhausted(int):
    """A number without memory for the next one."""

    def __add__(self, _other: int) -> int:
        raise MemoryError


class Wired:
    """A link over one of two sockets, for a protocol; it stands for its connection.

    events: those that the link has passed on.
    """

    def __init__(self, protocol: Protocol) -> None:
        near, self._far = _platform.open_pair()
        self._driver = Driver()
        own: Any = self
        self._link = Link(near, protocol, self._driver, own)
        self._link.connection = own
        self.events: list[Event] = []
        # As an inbox.
        self._messages: list[bytes] = []
        self._pulled = 0

    def read_whole(self, data: bytes) -> bytes | None:
        """Let the link read bytes that the peer has written."""
        self._far.send(data)
        own: Any = self
        with self._link.lock:
            return self._link.read_whole_locked(own)

    def post(self, message: bytes) -> bytes:
        """Let the link send a message; return what it has written."""
        with self._link.lock:
            self._link.post_locked(message)
        return self.written

    @property
    def written(self) -> bytes:
        """What the link has written since the last time."""
        try:
            return self._far.recv(1 << 16)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self._link.socket.close()
        self._far.close()
        self._driver.close()

    def on_event_locked(self, event: Event) -> None:
        self.events.append(event)


def take_lease_locked(end: SocketMessageQueue) -> _net.Sleeper:
    """Take the read lease of an end, as a receiver does; return the sleeper."""
    connection = end._socket_connection
    link = connection.link
    sleeper = link.read_owner.lease_locked(link.socket, connection.closed)
    assert sleeper is not None
    return sleeper


def let_nobody_read(end: SocketMessageQueue) -> None:
    """Make the next receive read the socket itself, as a prompt second receive does."""
    with end._connection.lock:
        take_lease_locked(end)
        end._socket_connection.link.read_owner.yield_locked(wanted=False)


@contextmanager
def connections(
    monkeypatch: pytest.MonkeyPatch, capacity: int
) -> Iterator[Callable[[], tuple[SocketMessageQueue, SocketMessageQueue]]]:
    """Yield a factory of connections: after a receive, only receives read them.

    A new connection ends the one before: `select` of the stand-in for Windows accepts
    no descriptor above 1,023.
    """
    monkeypatch.setattr(read_owner, "IDLE_S", 3600.0)
    with (
        brokers(host={"capacity": capacity}) as (acceptor, connector),
        ExitStack() as former,
    ):

        def make() -> tuple[SocketMessageQueue, SocketMessageQueue]:
            former.close()
            made = meet(acceptor, connector)
            for end in made:
                former.callback(_end, end)
            return made

        yield make


def _end(end: SocketMessageQueue) -> None:
    """Disconnect, and let the driver read the answer: no receive will."""
    end.disconnect()
    with end._connection.lock:
        end._socket_connection.link.read_owner.rearm_locked()
