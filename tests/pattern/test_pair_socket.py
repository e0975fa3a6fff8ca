"""`PairSocket`: one peer at a time, and waiting for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pattern import BusSocket, PairSocket, SocketConfig
from queuebroker.errors import SendTimeoutError
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.support import Threads, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


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
