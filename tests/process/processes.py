"""Links between the processes of one bus, as the processes keep them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel.fast_path import FastPath
from bus.kernel.wire import Batch
from bus.model.message import Kind
from bus.process.memory_network import MemoryNetwork
from tests.kit.comm_threads import comm_of
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus import Bus
    from bus.kernel.wire import Frame


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


def subscribed(bus: Bus, name: str) -> None:
    """Wait until a process has a remote subscriber for one of its tasks."""
    remote = comm_of(bus).remote
    entry = bus._exchange.find(name)
    assert entry is not None
    until(lambda: bool(remote.subscribed_peers(entry)), f"{name} is subscribed to")


def under_way(bus: Bus) -> int:
    """Return how many messages on the links of a process are not acknowledged."""

    def count() -> int:
        peers = comm_of(bus).remote.topology.peers.values()
        relays = (relay for peer in peers for relay in peer.all_relays())
        return sum(len(relay.unacked) for relay in relays)

    total: int = bus._exchange.query(count)
    return total


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
