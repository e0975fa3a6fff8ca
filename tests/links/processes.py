"""Several processes of one bus in one test, and their comm threads."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusConfig
from bus.core.remote.fast_path import FastPath
from bus.core.wire import Batch
from bus.links.memory import MemoryNetwork
from bus.message import Kind
from bus.testing import memory_bus
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bus import Bus, Incoming
    from bus.core.wire import Frame
    from bus.links.comm_thread import CommThread


# Long enough for the slowest machine; no test waits for these times to pass.
PATIENT = BusConfig(
    resolve_timeout_s=LIMIT_S, command_timeout_s=LIMIT_S, link_linger_s=10 * LIMIT_S
)


@contextmanager
def processes(count: int, config: BusConfig = PATIENT) -> Iterator[list[Bus]]:
    """Yield a bus with `count` processes; the first is the master, by `config`."""
    with ExitStack() as stack:
        bus = stack.enter_context(memory_bus(process="p0", config=config))
        yield [
            bus,
            *(
                stack.enter_context(
                    memory_bus(process=f"p{number}", beside=bus, config=PATIENT)
                )
                for number in range(1, count)
            ),
        ]


def comm_of(bus: Bus) -> CommThread:
    assert bus._node.comm is not None
    return bus._node.comm


def linked(bus: Bus) -> set[str]:
    """Return the names of the processes to which this one has a ready link."""
    peers = comm_of(bus).remote.topology.peers.values()
    return {peer.key[1] for peer in peers if peer.session.ready}


def serving(bus: Bus) -> list[str]:
    """Return the names of the threads that serve the links of a process."""
    own = (f"{bus.machine}/{bus.process} ", f"master of {bus.machine} ")
    return sorted(
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith(own) and not thread.name.endswith("connects")
    )


def settled(bus: Bus) -> None:
    """Wait until the comm thread has served all earlier requests."""
    done = threading.Event()
    comm_of(bus)._relay_outbox.ask(done.set)
    assert done.wait(LIMIT_S)


@contextmanager
def held(bus: Bus) -> Iterator[None]:
    """Block the comm thread meanwhile."""
    is_held, go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        assert go.wait(LIMIT_S)

    comm_of(bus)._relay_outbox.ask(hold)
    assert is_held.wait(LIMIT_S)
    try:
        yield
    finally:
        go.set()


class Reader:
    """A task that records the messages it receives."""

    def __init__(self, bus: Bus, name: str = "reader", **options: Any) -> None:
        self.got: list[Any] = []
        self.task = bus.register(name, on_command=self._read, **options)

    def _read(self, message: Incoming) -> Any:
        self.got.append(message.payload)
        return message.payload

    def has(self, count: int) -> None:
        """Wait until the task has received `count` messages."""
        until(lambda: len(self.got) >= count, f"{count} messages arrive")


def commands(frames: list[Frame]) -> list[int]:
    """Return the number of commands in each frame that has any."""
    counts = [
        sum(len(run.bodies) for run in frame.runs if run.kind is Kind.COMMAND)
        for frame in frames
        if isinstance(frame, Batch)
    ]
    return [count for count in counts if count]


def brokers(bus: Bus) -> Any:
    """Return the broker manager in which the processes of a bus find one another."""
    assert isinstance(bus._node.network, MemoryNetwork)
    return bus._node.network._brokers


def gone_short(act: Callable[[], object]) -> int:
    """Return how many commands take the fast path while `act` runs."""
    command, went = FastPath.command, 0

    def counted(short: FastPath, *about: Any) -> Any:
        nonlocal went
        frame = command(short, *about)
        went += frame is not None
        return frame

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastPath, "command", counted)
        act()
    return went
