"""What `queuebroker._net` asks of the kernel for a socket, where that can be seen."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from queuebroker import _net
from tests.support import until


def _sent_bytes(made: _net.Socket) -> int:
    size: int = made.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    return size


@pytest.mark.parametrize(("host", "warm"), [("127.0.0.1", True), ("127.0.0.2", False)])
def test_within_a_machine_what_is_sent_stays_in_the_cache(
    host: str, *, warm: bool
) -> None:
    """Both ends have a small buffer where their addresses are one, else the kernel's.

    To be called at 127.0.0.2 from 127.0.0.1 is how two machines look like.
    """
    with (
        closing(socket.create_server((host, 0))) as listening,
        closing(socket.socket()) as usual,
    ):
        usual.connect(listening.getsockname())
        listening.accept()[0].close()
        listening.setblocking(False)
        with closing(_net.dial_tcp(host, _net.port_of(listening))) as dialled:
            came: list[_net.Socket] = []

            def accepted() -> bool:
                made = _net.accept(listening)
                if made is not None:
                    came.append(made)
                return bool(came)

            until(accepted, "the connection is accepted")
            with closing(came[0]) as other:
                sizes = [_sent_bytes(dialled) < _sent_bytes(usual)]
                sizes.append(_sent_bytes(other) < _sent_bytes(usual))
    assert sizes == [warm, warm]


def test_twice_as_much_as_usual_waits_in_a_unix_socket(tmp_path: Path) -> None:
    """At both ends, and with no right that not every process has."""
    allowed = int(Path("/proc/sys/net/core/wmem_max").read_text())
    size = 2 * min(212_992, allowed)  # the kernel doubles what it is asked for
    path = tmp_path / "socket"
    with (
        closing(_net.listen_ipc(path, mode=0o600, backlog=1)) as listening,
        closing(_net.dial_ipc(path)) as dialled,
    ):
        made = _net.accept(listening)
        assert made is not None
        with closing(made):
            assert [_sent_bytes(dialled), _sent_bytes(made)] == [size, size]
