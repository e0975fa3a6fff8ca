"""Messages that a connection has not written whole are queued, then lost (BP-4)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from bus.pattern import BusSocket, DropReason, native
from bus.pattern.framing import whole_frames
from bus.pattern.message_run import MessageRun
from bus.pattern.send_queue import SendQueue
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S, fresh_url
from tests.pattern.raw_end import HANDSHAKE, RawEnd, frame
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NATIVE = bytes.fromhex("00535000f0700000")


class Peer:
    """A peer of one node that reads nothing until `reached`."""

    def __init__(self, node: BusSocket, url: str, *, is_native: bool) -> None:
        self._is_ipc = url.startswith("ipc")
        self._is_native = is_native
        self.end = RawEnd.dial(node.listen(url).url)
        handshake = NATIVE if is_native else HANDSHAKE
        self.end.send(handshake)
        assert self.end.read(8) == handshake
        if is_native:
            hello = native.encode(native.Hello(7))
            self.end.send(frame(hello, is_ipc=self._is_ipc))
        assert node.wait_for_peers(1, LIMIT_S)

    def break_a_rule(self) -> None:
        """Send a frame that ends the connection."""
        self.end.send(b"\2" * 9)

    def reached(self) -> int:
        """Return how many messages arrive before the end of the connection."""
        bodies = list(self._frames(self.end.read_to_end()))
        if not self._is_native:
            return len(bodies)
        received = [native.decode(body) for body in bodies]
        return sum(
            len(each.bodies) for each in received if isinstance(each, MessageRun)
        )

    def _frames(self, data: bytes) -> Iterator[bytes]:
        head = struct.Struct("!BQ" if self._is_ipc else "!Q")
        while len(data) >= head.size:
            end = head.size + head.unpack_from(data)[-1]
            if end > len(data):
                return
            yield data[head.size : end]
            data = data[end:]


@pytest.mark.deep
@clause("BP-4")
@pytest.mark.parametrize("ends", ["by a fault of the peer", "by a close"])
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
@pytest.mark.parametrize("is_native", [True, False], ids=["native", "plain"])
@pytest.mark.parametrize(("count", "size"), [(1, 100_000), (1, 30_000), (100, 300)])
def test_each_message_has_reached_the_system_or_is_counted(
    *, tmp_path: Path, ends: str, transport: str, is_native: bool, count: int, size: int
) -> None:
    with BusSocket() as node:
        url = fresh_url(transport, tmp_path)
        peer = Peer(node, url, is_native=is_native)
        with peer.end:
            connection: Any = node._node.pipes.active[0].carrier
            while not connection._writer.awaits_room:
                run = MessageRun(0, 0, [bytes(size)] * count)
                node._node.forward(run, came_by=0)
            stats = node.stats
            account = stats.peers[0]
            assert not account.dropped
            assert account.queued
            if ends == "by a close":
                node.close()  # the peer may still get some of them
            else:
                peer.break_a_rule()
                until(lambda: not node.stats.peers, "the connection has ended")
                assert node.stats.dropped == {DropReason.LOST: account.queued}
            reached = peer.reached()
        until(
            lambda: sum(node.stats.dropped.values()) == stats.sent - reached,
            "all others are counted",
        )


@clause("BP-4")
def test_messages_in_hand_are_dropped_once_no_write_can_complete() -> None:
    closed: list[bool] = []
    queue: SendQueue[bytes] = SendQueue(10, 100, lambda: False, in_hand=lambda: 3)
    queue.put(MessageRun(7, 1, [b"one", b"two"]), lambda run: b"".join(run.bodies))
    assert len(queue) == 5
    assert queue.discard() == 2
    assert len(queue) == 3
    queue.stop(lambda: closed.append(True))
    assert closed == [True]
    assert queue.discard() == 3
    assert queue.discard() == len(queue) == 0


@pytest.mark.parametrize("is_ipc", [True, False])
def test_whole_frames(*, is_ipc: bool) -> None:
    frames = [frame(b"x" * size, is_ipc=is_ipc) for size in (3, 0, 300)]
    data = b"".join(frames)
    first, second = len(frames[0]), len(frames[0] + frames[1])
    for size in range(len(data) + 1):
        wanted = (size >= first) + (size >= second) + (size == len(data))
        assert whole_frames(data, size, is_ipc=is_ipc) == wanted
    head, body = frames[2][:-300], frames[2][-300:]
    for size in range(len(frames[2]) + 1):
        wanted = int(size == len(frames[2]))
        assert whole_frames((head, body), size, is_ipc=is_ipc) == wanted
