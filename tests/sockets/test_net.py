"""Socket options that `queuebroker._net` sets, where their effect is observable."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from queuebroker import _net
from queuebroker._net import sockets
from tests.kit.systems import needs_unix_sockets
from tests.support import until


def _sent_bytes(made: _net.Socket) -> int:
    size: int = made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    return size


@pytest.mark.parametrize(("host", "warm"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_tcp_send_buffers_are_small_only_if_both_ends_have_one_address(
    host: str, *, warm: bool
) -> None:
    """If both ends have the same address, their buffers are small; else the default.

    A connection from 127.0.0.1 to 127.0.0.2 looks like one between two machines.
    """
    with (
        closing(socket.create_server((host, 0))) as listening,
        closing(socket.socket()) as usual,
    ):
        usual.connect(listening.getsockname())
        listening.accept()[0].close()
        listening.setblocking(False)
        with closing(_net.dial((host, _net.port_of(listening)))) as dialled:
            received: list[_net.Socket] = []

            def accepted() -> bool:
                made = _net.accept(listening)
                if made is not None:
                    received.append(made[0])
                return bool(received)

            until(accepted, "the connection is accepted")
            with closing(received[0]) as other:
                sizes = [_sent_bytes(dialled) < _sent_bytes(usual)]
                sizes.append(_sent_bytes(other) < _sent_bytes(usual))
    assert sizes == [warm, warm]


def _sizes_over_ipc(path: Path) -> list[int]:
    """Return the buffer sizes of two sockets connected over UNIX."""
    with (
        closing(_net.listen_ipc(path, mode=0o600, backlog=1)) as listening,
        closing(_net.dial(str(path))) as dialled,
    ):
        made = _net.accept(listening)
        assert made is not None
        with closing(made[0]) as other:
            return [_sent_bytes(dialled), _sent_bytes(other)]


def _usual_bytes() -> int:
    with closing(socket.socket(socket.AF_UNIX)) as usual:
        return _sent_bytes(usual)


@needs_unix_sockets
def test_four_times_as_much_as_usual_waits_in_a_unix_socket(tmp_path: Path) -> None:
    """At both ends, as far as this machine allows, and without privileges."""
    allowed = int(Path("/proc/sys/net/core/wmem_max").read_text())
    size = 2 * min(425_984, allowed)  # the kernel doubles the requested size
    size = max(size, _usual_bytes())
    assert _sizes_over_ipc(tmp_path / "socket") == [size, size]


@needs_unix_sockets
def test_a_unix_socket_that_has_more_room_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator may have raised the default above the requested size."""
    usual = _usual_bytes()
    monkeypatch.setattr(sockets, "_IPC_BYTES", usual // 4)
    assert _sizes_over_ipc(tmp_path / "socket") == [usual, usual]


@pytest.mark.parametrize("error", [ConnectionAbortedError, ConnectionResetError])
def test_a_peer_that_left_before_its_accept_is_no_failure_of_the_listener(
    error: type[OSError],
) -> None:
    """Linux reports the first one, Windows the second one."""

    class Left(socket.socket):
        def accept(self) -> NoReturn:
            raise error

    with Left() as listening:
        assert _net.accept(listening) is None


@pytest.mark.parametrize("datagrams", [False, True])
def test_an_unused_port_can_be_bound(datagrams: bool) -> None:
    port = _net.unused_port("127.0.0.1", datagrams=datagrams)

    kind = socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as made:
        made.bind(("127.0.0.1", port))
        assert port > 0
