"""``drain`` and ``wait_for_peers``: their conditions, and errors after a close."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

import pytest

from bus.pattern import BusSocket, DropReason, SocketConfig, stream_connection
from bus.pattern.stream_connection import StreamConnection
from queuebroker.errors import BrokerClosedError
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import fresh_url
from tests.pattern.raw_end import HANDSHAKE, RawEnd
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import ExitStack
    from pathlib import Path


@contextmanager
def peer_of(bus: BusSocket) -> Iterator[BinaryIO]:
    """Yield the bytes that arrive at a plain socket connected as a bus socket."""
    url = bus.listen("tcp://127.0.0.1:0").url
    address = ("127.0.0.1", int(url.rpartition(":")[2]))
    with (
        socket.create_connection(address, timeout=LIMIT_S) as peer,
        peer.makefile("rb") as arrived,
    ):
        peer.sendall(HANDSHAKE)
        assert arrived.read(8) == HANDSHAKE
        assert bus.wait_for_peers(1, LIMIT_S)
        yield arrived


@clause("BP-19")
def test_drain_waits_for_the_rest_of_a_message_that_the_system_took_in_part() -> None:
    """A close after `drain` would otherwise cut a message in two."""
    body = b"x" * (32 << 20)  # more than the system buffers for a connection
    with BusSocket() as bus, peer_of(bus) as peer:
        bus.send(body)

        assert not bus.drain(0)
        with Threads() as threads:
            drain = threads.start(bus.drain, LIMIT_S)
            assert int.from_bytes(peer.read(8)) == len(body)
            assert peer.read(len(body)) == body
            assert drain.result() is True


@clause("BP-4")
def test_drain_waits_for_the_accounts_of_native_peers(tmp_path: Path) -> None:
    """Otherwise a close loses the bytes that the system has not sent.

    The account that the peer sends then is data for a closed connection, so the system
    aborts it.
    """
    with BusSocket() as left, BusSocket() as right:
        address = left.listen(fresh_url("local", tmp_path)).url
        right.dial(address)
        assert left.wait_for_peers(1, LIMIT_S)
        [pipe] = left._node.pipes.active
        with right._node.lock, Threads() as threads:  # the peer takes nothing
            left.send(b"x")
            until(lambda: not pipe.carrier.queue, "the system has it")
            assert not left.drain(0)
            drain = threads.start(left.drain)
            until(lambda: len(left._node.outbound.senders) == 1, "it waits")
            right._node.lock.release()
            try:
                assert drain.result() is True
            finally:
                right._node.lock.acquire()
        assert right.receive_nowait() == b"x"


@clause("BP-4")
def test_drain_asks_native_peers_for_their_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_connection, "_REPORT_S", 1e6)
    with BusSocket() as left, BusSocket() as right:
        right.dial(left.listen(fresh_url("local", tmp_path)).url)
        assert left.wait_for_peers(1, LIMIT_S)
        for body in (b"1", b"2"):
            left.send(body)
            assert left.drain(LIMIT_S)
            assert right.receive_nowait() == body


def test_a_message_that_another_thread_writes_ends_a_drain() -> None:
    with BusSocket() as bus, peer_of(bus), Threads() as threads:
        node = bus._node
        [pipe] = node.pipes.active
        carrier = pipe.carrier
        assert isinstance(carrier, StreamConnection)
        with carrier._writer.queue._flush:  # as a thread that is about to write
            bus.send(b"x")
            drain = threads.start(bus.drain)
            until(lambda: len(node.outbound.senders) == 1, "it waits")

        node.outbound.pass_on()

        assert drain.result() is True


def test_a_close_ends_waits_for_peers_and_drains_with_an_error() -> None:
    """As all calls that wait: True would stand for a peer, or for messages sent."""
    left, right = BusSocket(), BusSocket()
    with Threads() as threads:
        end = connect(left, right)
        end.queue.blocked = True
        left.send(b"x")
        waits = [
            threads.start(left.wait_for_peers, 2),
            threads.start(left.drain),
        ]
        until(lambda: len(left._node.outbound.senders) == 2, "both wait")

        left.close()

        for wait in waits:
            assert isinstance(wait.error(), BrokerClosedError)
    with pytest.raises(BrokerClosedError, match="cannot wait for peers"):
        left.wait_for_peers()
    with pytest.raises(BrokerClosedError, match="cannot drain"):
        left.drain()
    right.close()


def test_drain_waits_until_no_message_is_queued(
    tmp_path: Path, stack: ExitStack
) -> None:
    config = SocketConfig(send_messages=10_000)
    sender = stack.enter_context(BusSocket(config))
    url = sender.listen(fresh_url("local", tmp_path)).url
    peer = stack.enter_context(RawEnd.dial(url))
    peer.send(HANDSHAKE)
    assert sender.wait_for_peers(1, LIMIT_S)
    for _ in range(1000):
        sender.send(bytes(4096))
    assert not sender.drain(0.01)
    peer.close()
    assert sender.drain(LIMIT_S)
    lost = sender.stats.dropped[DropReason.LOST]
    assert lost > 0
