"""A node recognises the messages that it has forwarded, also of other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern.drop_reason import DropReason
from bus.pattern.message_run import MessageRun
from bus.pattern.node import Node
from bus.pattern.send_queue import SendQueue
from bus.pattern.socket_config import SocketConfig
from bus.pattern.wire import EndpointType
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.pattern.pipe import Pipe

NEIGHBOUR, FAR = 5, 6  # node ids


class Recorder:
    """A `Carrier` that keeps the runs of the node."""

    queue = SendQueue[MessageRun](1, 1, bool)
    is_idle = True
    flush_soon = None

    def __init__(self) -> None:
        self.put_here: list[MessageRun] = []

    def put(self, run: MessageRun) -> int:
        self.put_here.append(run)
        return len(run.bodies)

    def report(self) -> None: ...

    def ask(self) -> None: ...

    def refresh(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def node() -> Iterator[Node]:
    node = Node(SocketConfig(), EndpointType.BUS, EndpointType.NATIVE_BUS)
    yield node
    node.close()


@pytest.fixture
def node_with_filter() -> Iterator[Node]:
    node = Node(SocketConfig(repeat_s=60.0), EndpointType.BUS, EndpointType.NATIVE_BUS)
    yield node
    node.close()


def connected(node: Node, peer: int | None) -> tuple[Pipe, Recorder]:
    """Add a pipe to a native peer, or to one of another library."""
    carrier = Recorder()
    pipe = node.add_pipe(carrier, "test://", peer)
    assert pipe is not None
    return pipe, carrier


def forward(node: Node) -> MessageRun:
    """Forward the next message to all other peers, as a device does."""
    came_by, run = node.receive_tagged(0)
    node.forward(run, came_by=came_by)
    return run


def nothing_arrived(node: Node) -> bool:
    return node.stats().received_queued == 0


@clause("BP-16")
def test_a_message_of_another_library_that_returns_by_a_ring_is_dropped(
    node: Node,
) -> None:
    """The copy for the neighbour was dropped, so the neighbour sends it back."""
    leaf, to_leaf = connected(node, None)
    neighbour, to_neighbour = connected(node, NEIGHBOUR)
    node.accept(leaf, [MessageRun(leaf.origin, 1, [b"m"])])
    forwarded = forward(node)
    assert to_neighbour.put_here == [forwarded]

    node.accept(neighbour, [forwarded])

    assert nothing_arrived(node)
    assert neighbour.dropped == {DropReason.DUPLICATE: 1}
    assert to_leaf.put_here == []


@clause("BP-16")
@pytest.mark.parametrize("together", [True, False])
def test_equal_messages_of_another_library_are_different_messages(
    node: Node, *, together: bool
) -> None:
    leaf, _ = connected(node, None)

    if together:
        node.accept(leaf, [MessageRun(leaf.origin, 1, [b"m"] * 3)])
    else:
        node.accept(leaf, [MessageRun(leaf.origin, at, [b"m"]) for at in (1, 2, 3)])

    assert [node.receive_tagged(0)[1].first for _ in range(3)] == [1, 2, 3]
    assert not leaf.dropped


@clause("BP-16")
def test_repeats_of_another_library_are_dropped_once_each_is_known(
    node_with_filter: Node,
) -> None:
    node = node_with_filter
    leaf, _ = connected(node, None)
    neighbour, _ = connected(node, NEIGHBOUR)

    node.accept(leaf, [MessageRun(leaf.origin, 1, [b"m", b"m", b"n"])])
    node.accept(neighbour, [MessageRun(NEIGHBOUR, 1, [b"n", b"n"])])

    assert [node.receive_tagged(0)[1].bodies[0] for _ in range(4)] == [
        b"m",
        b"n",
        b"n",
        b"n",
    ]
    assert leaf.dropped == {DropReason.REPEAT: 1}
    assert not neighbour.dropped


@clause("BP-16")
def test_of_a_run_only_the_known_messages_are_dropped(
    node: Node,
) -> None:
    first, _ = connected(node, NEIGHBOUR)
    second, _ = connected(node, FAR)
    node.accept(first, [MessageRun(9, 1, [b"1", b"2"])])

    node.accept(second, [MessageRun(9, 2, [b"2", b"3"]), MessageRun(9, 1, [b"1"])])

    assert [node.receive_tagged(0)[1].bodies[0] for _ in range(3)] == [b"1", b"3", b"2"]
    assert second.dropped == {DropReason.DUPLICATE: 2}


@clause("BP-16")
def test_a_message_is_not_sent_to_its_origin_nor_back_to_its_sender(
    node: Node,
) -> None:
    neighbour, to_neighbour = connected(node, NEIGHBOUR)
    _, to_twin = connected(node, NEIGHBOUR)
    _, to_far = connected(node, FAR)
    _, to_third = connected(node, 7)
    node.accept(neighbour, [MessageRun(FAR, 1, [b"m"])])

    forwarded = forward(node)

    assert to_third.put_here == [forwarded]
    assert to_neighbour.put_here == to_twin.put_here == to_far.put_here == []


@clause("BP-1", "BP-16")
def test_the_own_messages_of_a_node_are_dropped_when_they_return(node: Node) -> None:
    neighbour, to_neighbour = connected(node, NEIGHBOUR)
    node.send(b"own")
    [sent] = to_neighbour.put_here
    assert sent == MessageRun(node.id, 1, [b"own"])

    node.accept(neighbour, [sent])

    assert nothing_arrived(node)
    assert neighbour.dropped == {DropReason.DUPLICATE: 1}
