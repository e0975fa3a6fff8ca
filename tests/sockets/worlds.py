"""The conformance suite's view of brokers that reach one another through sockets.

Both ends are in one process here, but all data between them goes through the socket.
QB-SOCK-1 lists how the medium differs, and one place handles it: a peer sees an
operation of this end once the notice has arrived. So each operation here ends by
waiting for that (`Settled`), and a connect that timed out ends by waiting until its
listener knows.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import queuebroker
from queuebroker import BrokerManager, _net
from queuebroker.sockets import SocketMessageQueue, SocketQueueBroker
from specs.conformance.real import RealDriver, _Place, _turns
from tests.sockets.certificates import identity
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

__all__ = ["Carried", "World", "remove_worlds", "tcp", "tls", "unix"]

ARRIVES_S = 10.0
# A thread that is ready to run may get no processor for this long.
STARVES_S = 3.0

# Operations with an effect that the peer can see.
ACTS = frozenset(
    {"send", "send_nowait", "send_many", "disconnect", "close"}
    | {"receive", "receive_nowait", "receive_many", "receive_into"}
)


class Carried(RealDriver):
    """Runs the threads of a stage, and watches the thread that transports their data.

    "At once" is judged once nothing has moved for a while. A caller that sleeps until
    its peer has answered does not move. But the thread that brings the answer may lack
    a processor, on a busy machine for longer than any such while, and so may the peer.
    That is not a wait of the caller, and two processes have twice as many threads to
    schedule.
    """

    def settle(self) -> None:
        """Wait until nothing has moved, and no thread is ready without a processor."""
        deadline = time.monotonic() + STARVES_S
        super().settle()
        while any(each.runs for each in self._picture()) and (
            time.monotonic() < deadline
        ):
            super().settle()

    def _picture(self) -> list[_Place]:
        return [*super()._picture(), *_carriers()]


def _carriers() -> list[_Place]:
    """Return where the socket threads stand; see `RealDriver._picture`."""
    every = map(_turns, filter(_serves_sockets, threading.enumerate()))
    return [_Place(0, 0, *turns) for turns in every]


def _serves_sockets(thread: threading.Thread) -> bool:
    return thread.name == "queuebroker sockets"


class Settled:
    """An end whose operations have reached its peer when they return or raise."""

    _end: SocketMessageQueue

    def __init__(self, end: SocketMessageQueue) -> None:
        self.__dict__["_end"] = end

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._end, name, value)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._end, name)
        if name not in ACTS:
            return found
        end = self._end

        @functools.wraps(found)
        def act(*args: Any, **kwargs: Any) -> Any:
            try:
                return found(*args, **kwargs)
            finally:
                assert end.ping(ARRIVES_S), "no answer"

        return act

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.disconnect()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._end)

    def __repr__(self) -> str:
        return repr(self._end)

    def __reduce__(self) -> Any:
        return self._end.__reduce__()


class Broker:
    """A broker that finds others by name: in a folder, or at a registered address."""

    def __init__(self, world: World, broker: SocketQueueBroker) -> None:
        self._world = world
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def accept(self, port: int, **options: Any) -> Settled:
        """Accept, as the broker itself does."""
        return self._settled(self._broker.accept(port, **options))

    def connect(self, name: str, port: int, **options: Any) -> Settled | None:
        """Connect to the address of a name."""
        where = self._world.address_of(name) if name and type(name) is str else name
        call = object()
        self._world.asking.add(call)
        try:
            end = self._broker.connect(where, port, **options)
        except BaseException:
            self._world.asking.remove(call)
            self._world.settle_connects()
            raise
        self._world.asking.remove(call)
        return None if end is None else self._settled(end)

    def accept_iter(self, port: int) -> Iterator[Settled]:
        """Iterate over accepts, as the broker itself does."""
        return map(self._settled, self._broker.accept_iter(port))

    def outgoing(self) -> dict[tuple[str, int], int]:
        """Return the broker's own connects that wait, by name."""
        names = {self._world.address_of(name): name for name in self._world.names}
        return {
            (names[where], port): count
            for (where, port), count in self._broker.outgoing().items()
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._broker.close()

    def __repr__(self) -> str:
        return repr(self._broker)

    def __reduce__(self) -> Any:
        return self._broker.__reduce__()

    @staticmethod
    def _settled(end: Any) -> Settled:
        assert isinstance(end, SocketMessageQueue), "it went by another way"
        return Settled(end)


class World:
    """Brokers with separate managers, as in separate processes."""

    offers = frozenset(
        {"NAME", "RDV", "SEND", "RECV", "FIFO", "DISC", "ERR", "TIME", "CONC", "BULK"}
        | {"PY"}
    )
    disconnected_error = queuebroker.DisconnectedQueueError
    timeout_error = queuebroker.QueueBrokerTimeoutError
    closed_error = queuebroker.BrokerClosedError
    name_in_use_error = queuebroker.BrokerNameInUseError
    unknown_broker_error = queuebroker.UnknownBrokerError
    port_in_use_error = queuebroker.PortInUseError
    message_too_large_error = queuebroker.MessageTooLargeError

    def __init__(
        self, settings: Callable[[World, str], dict[str, Any]], *, named: bool = False
    ) -> None:
        if not named:  # with free ports, no two listeners share a name
            self.offers = self.offers - {"NAME"}
        self.folder = Path(tempfile.mkdtemp(prefix="qb-"))
        self.names: set[str] = set()
        self._settings = settings
        self._managers: list[BrokerManager] = []
        self._found: dict[str, str] = {}
        self._brokers: list[SocketQueueBroker] = []
        self.asking: set[object] = set()
        _worlds.append(self)

    def broker(self, name: str, *, max_message_size: int | None = None) -> Broker:
        """Return a broker that listens."""
        self.names.add(name)
        manager = BrokerManager()
        self._managers.append(manager)
        made = SocketQueueBroker(
            name,
            manager=manager,
            max_message_size=max_message_size,
            **self._settings(self, name),
        )
        assert made.address is not None
        self._found[name] = made.address
        self._brokers.append(made)
        return Broker(self, made)

    def path_of(self, name: str) -> str:
        """Return a file for a name, which may have any characters.

        Where there are no UNIX sockets, return a port where no program listens.
        """
        if not _net.HAS_UNIX:
            return "tcp://127.0.0.1:1"
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return f"ipc://{self.folder}/{digest[:16]}"

    def address_of(self, name: str) -> str:
        """Return the address where a broker of that name listens, or would."""
        return self._found.get(name) or self.path_of(name)

    def close(self) -> None:
        """Close every broker, and no queue."""
        for manager in self._managers:
            manager.close()

    def settle_connects(self) -> None:
        """Wait until no listener holds a connect that has timed out."""

        def gone() -> bool:
            waiting = [one.waiting_connects() for one in self._brokers]
            return sum(sum(ports.values()) for ports in waiting) <= len(self.asking)

        until(gone, "the caller that timed out no longer waits")

    def remove(self) -> None:
        """Close everything, and remove every file."""
        for manager in self._managers:
            manager.close(disconnect=True)
        shutil.rmtree(self.folder, ignore_errors=True)


_worlds: list[World] = []


def remove_worlds() -> None:
    """Remove every world that was created: a stage that fails leaves its own behind."""
    while _worlds:
        _worlds.pop().remove()


def unix() -> World:
    """Return a world of brokers at UNIX sockets."""
    return World(
        lambda world, name: {
            "listen": world.path_of(name) if type(name) is str else "ipc:///-"
        },
        named=True,
    )


def tcp() -> World:
    """Return a world of brokers at TCP ports of this machine."""
    return World(lambda _world, _name: {"listen": "tcp://127.0.0.1:0"})


def tls() -> World:
    """Return a world like `tcp` with TLS, certificates on both sides."""
    return World(
        lambda _world, _name: {"listen": "tls://localhost:0", "tls": identity("world")}
    )
