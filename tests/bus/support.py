"""Shared helpers of the bus tests: buses, distances, and serving with a limit.

Nothing here sleeps to put threads in order. A thread made by ``bus.here()`` runs only
when the test drives it; the effects of other threads are awaited, with a limit.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

import pytest

from bus import Bus, BusConfig, Role
from bus.links.socket_network import SocketNetwork
from bus.testing import memory_bus
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import (
        BusSnapshot,
        BusThread,
        Counters,
        Incoming,
        Overflow,
        SentCounters,
        Task,
        TaskInfo,
    )
    from bus.journal.writer import Journal

__all__ = [
    "DISTANCES",
    "FAR",
    "NEAR",
    "POLICIES",
    "Holder",
    "There",
    "counters_of",
    "echo",
    "far",
    "far_apart",
    "held_comm_thread",
    "info",
    "is_there",
    "memory_bus",
    "sent_counters_of",
    "serve",
    "settle",
    "socket_bus",
    "unbalanced",
    "unwanted",
]

POLICIES: Final[tuple[Overflow, ...]] = (
    *("block", "drop-oldest", "drop-newest", "error", "disconnect"),
)

# Distances between two tasks (BUS-MSG-1): in one process, and in two.
NEAR: Final = ("same thread", "other thread")
FAR: Final = ("other process", "other machine", "by sockets")
DISTANCES: Final = (*NEAR, *FAR)
far_apart = pytest.mark.parametrize("distance", FAR)

_LOOK_S = 0.001


@contextmanager
def socket_bus(
    process: str = "process",
    *,
    role: Role = Role.AUTO,
    config: BusConfig | None = None,
    name: str = "bus1",
    journal: Journal | None = None,
) -> Iterator[Bus]:
    """Yield a process of a socket bus; one test process can hold several."""
    network = SocketNetwork(name, role, BusConfig() if config is None else config)
    with Bus(
        name,
        process=process,
        machine="machine",
        config=config,
        network=network,
        journal=journal,
    ) as bus:
        bus._node.join(name, bus._look)
        yield bus


def far(bus: Bus, distance: str) -> BusThread:
    """Return a thread of this process at a distance from the calling one."""
    return bus.here() if distance == "same thread" else bus.thread("far")


class There:
    """A place at a distance from the calling thread; a context manager.

    bus: the bus there, which may be that of another process.
    """

    def __init__(self, bus: Bus, distance: str) -> None:
        self._here: Final = bus
        self._stack: Final = ExitStack()
        if distance in NEAR:
            self.bus, self.thread = bus, far(bus, distance)
            return
        if distance == "by sockets":
            self.bus = self._stack.enter_context(socket_bus("other"))
        else:
            machine = "far" if distance == "other machine" else None
            self.bus = self._stack.enter_context(
                memory_bus(process="other", machine=machine, beside=bus)
            )
        self.thread = self.bus.thread("far")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def beside(self, process: str, config: BusConfig) -> Iterator[Bus]:
        """Yield one more process on this machine."""
        near = self._here
        made = (
            socket_bus(process, config=config)
            if isinstance(near._node.network, SocketNetwork)
            else memory_bus(process=process, config=config, beside=near)
        )
        with made as bus:
            yield bus

    def register(self, name: str, **options: Any) -> Task:
        """Register a task at this place."""
        return self.bus.register(name, thread=self.thread, **options)

    def at(self, name: str) -> str:
        """Return the address of a task there, as used from here."""
        return _reached(name, self.bus, self._here)

    def back(self, name: str) -> str:
        """Return the address of a task here, as used from there."""
        return _reached(name, self._here, self.bus)


def _reached(name: str, there: Bus, here: Bus) -> str:
    if there.machine == here.machine:
        return name
    return f"ism://{there.machine}/{name}"


def settle(bus: Bus) -> None:
    """Serve the calling thread until there is nothing to do in it."""
    here = bus.here()
    while here.poll(0) or here._manager.pending():
        pass


def serve(bus: Bus, condition: Callable[[], object], what: str) -> None:
    """Serve the calling thread until `condition` holds, in this thread or another.

    Raises:
        AssertionError: it does not hold within the limit; ``what`` describes it.
    """
    deadline = monotonic() + LIMIT_S
    while not condition():
        bus.here().poll(_LOOK_S)
        assert monotonic() < deadline, f"not so after {LIMIT_S:g} s: {what}"


def info(bus: Bus, name: str) -> TaskInfo:
    """Return the visible state of one task."""
    [found] = [each for each in bus.tasks() if each.address.module == name]
    return found


def is_there(bus: Bus, name: str) -> bool:
    """Return True if a task is registered by a name, private or not."""
    return any(each.address.module == name for each in bus.tasks())


def counters_of(snapshot: BusSnapshot) -> Iterator[tuple[str, Counters]]:
    """Yield all counters, each with the name of its owner."""
    for task in snapshot.tasks:
        yield task.address.module, task.commands
        for each in task.subscriptions:
            yield f"{task.address.module} of {each.specification}", each.notifications


def sent_counters_of(snapshot: BusSnapshot) -> Iterator[tuple[str, SentCounters]]:
    """Yield all counters of messages to other processes, each with its owner."""
    yield "all", snapshot.sent
    for peer in snapshot.peers:
        yield peer.process, peer.sent
        yield f"hearers in {peer.process}", peer.notifications
        for relay in peer.relays:
            yield f"{relay.address.module} in {peer.process}", relay.sent


def unbalanced(snapshot: BusSnapshot) -> list[str]:
    """Return the counters that do not balance (BUS-FLOW-7)."""
    sent = [
        f"{whose}: {counters}"
        for whose, counters in sent_counters_of(snapshot)
        if counters.posted
        != counters.taken
        + counters.dropped
        + counters.returned
        + counters.failed
        + counters.in_doubt
        + counters.present
        or counters.present < 0
    ]
    return sent + [
        f"{whose}: {counters}"
        for whose, counters in counters_of(snapshot)
        if counters.accepted
        != counters.delivered
        + counters.dropped
        + counters.expired
        + counters.returned
        + counters.unread
        or min(counters.unread, counters.unread_bytes) < 0
    ]


def unwanted(what: object) -> None:
    """Fail the test: a callback for a message that must not arrive."""
    pytest.fail(f"nobody wants {what}")


class Holder:
    """A task in a thread of its own whose callback blocks until `let_go`."""

    def __init__(self, bus: Bus, name: str = "holder", **options: Any) -> None:
        self._go = Event()
        self.held = Event()
        self.got: list[Any] = []
        self.thread = bus.thread(name)
        self.task = bus.register(
            name, thread=self.thread, on_command=self._hold, **options
        )

    def _hold(self, message: Incoming) -> Any:
        self.held.set()
        assert self._go.wait(LIMIT_S), "nobody let it go"
        self.got.append(message.payload)
        return message.payload

    def let_go(self) -> None:
        """Let all callbacks return, later ones as well."""
        self._go.set()

    @classmethod
    @contextmanager
    def holding(cls, bus: Bus, **options: Any) -> Iterator[Holder]:
        """Yield a holder that is in its callback; it is released at the end."""
        holder = cls(bus, **options)
        try:
            bus.command(holder.task.address, "hold")
            assert holder.held.wait(LIMIT_S), "its callback does not run"
            yield holder
        finally:
            holder.let_go()


@contextmanager
def held_comm_thread(bus: Bus) -> Iterator[None]:
    """Block a process's comm thread, so that it neither sends nor receives."""
    held, go = Event(), Event()
    assert bus._node.comm is not None

    def hold() -> None:
        held.set()
        assert go.wait(LIMIT_S)

    bus._node.comm._relay_outbox.ask(hold)
    assert held.wait(LIMIT_S)
    try:
        yield
    finally:
        go.set()


def echo(message: Incoming) -> Any:
    """Answer a command with its payload."""
    return message.payload
