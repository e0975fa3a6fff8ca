"""`PairSocket`: one peer at a time, and waiting for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket, PairSocket, SocketConfig
from queuebroker.errors import ReceiveTimeoutError, SendTimeoutError
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.support import Threads, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@pytest.mark.parametrize("version", [0, 1])
def test_messages_go_both_ways(
    transport: str, tmp_path: Path, stack: ExitStack, version: int
) -> None:
    first, second = (stack.enter_context(PairSocket(version=version)) for _ in range(2))
    second.dial(first.listen(fresh_url(transport, tmp_path)).url)
    for size in (0, 1, 70_000):
        first.send(bytes(size), LIMIT_S)
        assert second.receive(LIMIT_S) == bytes(size)
        second.send(bytes(size), LIMIT_S)
        assert first.receive(LIMIT_S) == bytes(size)
    with pytest.raises(ReceiveTimeoutError):
        first.receive_nowait()


def test_sending_waits_for_a_peer(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    first, second = (stack.enter_context(PairSocket()) for _ in range(2))
    with pytest.raises(SendTimeoutError, match="no peer is connected"):
        first.send_nowait(b"x")
    threads = Threads()
    threads.start(lambda: first.send(b"at last", LIMIT_S))
    until(lambda: bool(len(first._node.outbound.senders)), "it waits")
    second.dial(first.listen(fresh_url(transport, tmp_path)).url)
    assert second.receive(LIMIT_S) == b"at last"
    threads.join()


def test_sending_waits_for_room(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    """Nothing is lost, if the receiver blocks, too."""
    config = SocketConfig(send_messages=4, receive_messages=4)
    first, second = (stack.enter_context(PairSocket(config)) for _ in range(2))
    second.dial(first.listen(fresh_url(transport, tmp_path)).url)
    assert first.wait_for_peers(1, LIMIT_S)
    threads = Threads()

    def sends() -> None:
        for number in range(500):
            first.send(number.to_bytes(4096), LIMIT_S)

    threads.start(sends)
    until(lambda: bool(len(first._node.outbound.senders)), "it waits for room")
    received = [int.from_bytes(second.receive(LIMIT_S)) for _ in range(500)]
    threads.join()
    assert received == [*range(500)]
    with pytest.raises(SendTimeoutError, match="its queue is full"):  # noqa: PT012
        for _ in range(1000):
            first.send_nowait(bytes(4096))


def test_a_second_peer_is_rejected_until_the_first_leaves(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    config = SocketConfig(redial_max_s=0.02)
    pair = stack.enter_context(PairSocket())
    url = pair.listen(fresh_url(transport, tmp_path)).url
    first, second = (stack.enter_context(PairSocket(config)) for _ in range(2))
    first.dial(url)
    assert first.wait_for_peers(1, LIMIT_S)
    assert pair.wait_for_peers(1, LIMIT_S)
    dialler = second.dial(url)
    until(lambda: dialler.error is not None, "it was rejected")
    pair.send(b"to the first", LIMIT_S)
    assert first.receive(LIMIT_S) == b"to the first"
    [before] = pair.stats.peers
    first.close()

    def has_joined() -> bool:
        return {peer.pipe for peer in pair.stats.peers} not in ({before.pipe}, set())

    until(has_joined, "the second one has joined")
    pair.send(b"to the second", LIMIT_S)
    assert second.receive(LIMIT_S) == b"to the second"


def test_sockets_of_different_kinds_do_not_connect(
    transport: str, tmp_path: Path, stack: ExitStack
) -> None:
    config = SocketConfig(redial_max_s=0.02)
    pair = stack.enter_context(PairSocket())
    other = stack.enter_context(PairSocket(config, version=1))
    node = stack.enter_context(BusSocket(config))
    url = pair.listen(fresh_url(transport, tmp_path)).url
    diallers = [other.dial(url), node.dial(url)]
    until(lambda: all(each.error for each in diallers), "both were rejected")
    assert not pair.stats.peers
    with pytest.raises(ValueError, match="must be 0 or 1, got 2"):
        PairSocket(version=2)
    with pytest.raises(TypeError, match=r"^version must be an int, got "):
        PairSocket(version=True)
