"""Listeners and diallers: losses, addresses in use, and closed sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from bus.pattern import BusSocket, SocketConfig
from queuebroker import _net
from queuebroker.errors import BrokerClosedError
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.pattern.nodes import LIMIT_S, all_of, fresh_url
from tests.support import Threads, until

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path


@clause("BP-17")
def test_a_dialler_waits_for_its_listener_and_dials_again_after_a_loss(
    transport: str, tmp_path: Path, stack: ExitStack, *, native: bool
) -> None:
    if transport.startswith("tcp"):
        with BusSocket() as other:  # a port that is free again
            url = other.listen(fresh_url(transport, tmp_path)).url
    else:
        url = fresh_url(transport, tmp_path)
    node = stack.enter_context(BusSocket(native=native))
    dialler = node.dial(url)
    for _ in range(3):
        with BusSocket(native=native) as listener:
            listener.listen(url)
            assert node.wait_for_peers(1, LIMIT_S)
            assert listener.wait_for_peers(1, LIMIT_S)
            assert dialler.is_connected
            node.send(b"there")
            assert all_of(listener, 1) == [b"there"]
        until(lambda: not node.stats.peers, "the connection is lost")
    assert not dialler.is_connected


@pytest.mark.parametrize("mode", [-1, 0o1000])
def test_the_mode_of_an_ipc_file_has_permission_bits_only(
    tmp_path: Path, mode: int
) -> None:
    text = f"^mode must be from 0 to 0o777, got {mode:#o}$"
    with BusSocket() as socket, pytest.raises(ValueError, match=text):
        socket.listen(fresh_url("ipc", tmp_path), mode=mode)
    assert not list(tmp_path.iterdir())


def test_a_look_up_that_runs_out_of_memory_is_an_error_of_the_dialler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr(_net, "resolve", fail)
    with BusSocket() as node:
        dialler = node.dial("tcp://host.example:80")
        until(lambda: dialler.error is not None, "the attempt has failed")
        assert isinstance(dialler.error, MemoryError)


def test_an_address_in_use_is_refused_with_its_name(
    transport: str, tmp_path: Path
) -> None:
    with BusSocket() as first, BusSocket() as second:
        url = first.listen(fresh_url(transport, tmp_path)).url
        with pytest.raises(OSError, match="cannot listen at ") as caught:
            second.listen(url)
        assert url in str(caught.value)
        assert "choose another address" in str(caught.value)


@needs_unix_sockets
def test_a_path_that_is_no_socket_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("of the user")
    with BusSocket() as node, pytest.raises(OSError, match="is no socket: choose"):
        node.listen(f"ipc://{tmp_path}/notes")
    assert (tmp_path / "notes").read_text() == "of the user"


def test_a_wait_for_no_peers_is_refused() -> None:
    text = "^count must be >= 1, got -1$"
    with BusSocket() as node, pytest.raises(ValueError, match=text):
        node.wait_for_peers(-1)


@clause("BP-17")
def test_a_peer_that_sends_too_long_a_message_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = SocketConfig(message_bytes=100)
    with BusSocket(config) as ours, BusSocket() as other:
        url = ours.listen(fresh_url("local", tmp_path)).url
        other.dial(url)
        assert ours.wait_for_peers(1, LIMIT_S)
        assert other.wait_for_peers(1, LIMIT_S)
        other.send(bytes(200))
        text = f"{url}: a peer was disconnected: message has 200 "
        until(lambda: any(each.startswith(text) for each in caplog.messages), text)


def test_a_socket_that_is_closed_ends_every_call(
    transport: str, tmp_path: Path
) -> None:
    node = BusSocket()
    listener = node.listen(fresh_url(transport, tmp_path))
    node.fileno()
    threads = Threads()

    def receives() -> None:
        with pytest.raises(BrokerClosedError, match="cannot receive"):
            node.receive(LIMIT_S)

    waiting = [threads.start(receives) for _ in range(3)]
    until(lambda: len(node._node.inbound.receivers) == 3, "all wait")
    node.close()
    threads.join()
    assert waiting
    assert node.closed
    for call in (
        lambda: node.send(b"x"),
        lambda: node.receive(0),
        lambda: node.listen(listener.url),
        lambda: node.dial(listener.url),
        node.fileno,
    ):
        with pytest.raises(BrokerClosedError, match="this socket is closed"):
            call()
    node.close()
    with BusSocket() as other:  # the address is free again
        other.listen(listener.url)
