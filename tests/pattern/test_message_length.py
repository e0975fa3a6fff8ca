"""The length of a message that is sent: below 4 GiB, in all sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import bus.pattern.bus_socket
from bus.pattern import (
    BusSocket,
    Drop,
    DropReason,
    PairSocket,
    RawBusSocket,
    RawMessage,
    SocketConfig,
    aio,
    native,
)
from bus.pattern.message_run import MessageRun
from queuebroker.errors import MessageTooLargeError
from specs.clauses import clause
from tests.pattern.inproc_pairs import connect
from tests.pattern.nodes import LIMIT_S, all_of, fresh_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = 100_000
WANTED = f"cannot send a message of {MOST + 1} bytes: .* at most {MOST} bytes"


@pytest.fixture
def _lower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "BODY_BYTES_MAX", MOST)
    monkeypatch.setattr(bus.pattern.bus_socket, "BODY_BYTES_MAX", MOST)


def _send(face: Any, message: Any) -> None:
    sending = face.send(message)
    if sending is not None:
        sending.send(None)  # the await, which checks a `RawMessage`


def _raw(data: bytes) -> RawMessage:
    return RawMessage(data, 0, 7, 1)


@clause("BP-4")
@pytest.mark.usefixtures("_lower")
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("face", [lambda socket: socket, aio.wrap], ids=["", "aio"])
@pytest.mark.parametrize(
    ("socket_type", "made"),
    [
        (BusSocket, lambda data: data),
        (PairSocket, lambda data: data),
        (RawBusSocket, lambda data: data),
        (RawBusSocket, RawMessage),
        (RawBusSocket, _raw),
    ],
)
def test_a_longer_message_is_refused_before_it_is_queued(
    socket_type: Callable[[], Any],
    made: Callable[[Any], Any],
    face: Callable[[Any], Any],
    kind: Callable[[bytes], Any],
) -> None:
    with socket_type() as sender, socket_type() as receiver:
        connect(sender, receiver)
        with pytest.raises(MessageTooLargeError, match=WANTED):
            _send(face(sender), made(kind(bytes(MOST + 1))))
        assert sender.stats.sent == 0
        assert not sender.stats.dropped
        sender.send(made(kind(bytes(MOST))))
        assert sender.stats.sent == 1


class _Long(bytes):
    """A message of a length that no test has the memory for."""

    def __len__(self) -> int:
        return 1 << 32


@clause("BP-4")
def test_a_device_drops_a_message_that_has_no_native_frame(tmp_path: Path) -> None:
    """A plain peer may have sent it: its frames have room for such a length."""
    drops: list[Drop] = []
    with RawBusSocket(on_drop=drops.append) as device, BusSocket() as peer:
        peer.dial(device.listen(fresh_url("local", tmp_path)).url)
        assert device.wait_for_peers(1, LIMIT_S)
        node = device._node
        node.forward(MessageRun(3, 1, [_Long(b"too long")]), came_by=0)
        node.forward(MessageRun(3, 2, [b"short"]), came_by=0)
        assert all_of(peer, 1) == [b"short"]
        assert [(drop.reason, drop.count) for drop in drops] == [
            (DropReason.TOO_LONG, 1)
        ]
        assert device.drain(LIMIT_S)
        account = device.stats.peers[0]
        assert (account.sent, account.queued) == (2, 0)


@clause("BP-4")
def test_the_limit_of_incoming_messages_does_not_limit_those_sent(
    tmp_path: Path,
) -> None:
    url = fresh_url("local", tmp_path)
    with BusSocket(SocketConfig(message_bytes=10)) as sender, BusSocket() as receiver:
        receiver.listen(url)
        sender.dial(url)
        assert sender.wait_for_peers(1, LIMIT_S)
        sender.send(bytes(1000))
        assert all_of(receiver, 1) == [bytes(1000)]
