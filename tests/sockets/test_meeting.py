"""QB-SOCK-2: accept and connect meet through an address, in either order."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    BrokerNameInUseError,
    DisconnectedQueueError,
    RendezvousTimeoutError,
    UnknownBrokerError,
    _files,
    _net,
    current_broker,
)
from queuebroker._net import socket_files
from queuebroker.sockets import SocketOptions, SocketQueueBroker
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.processes import run
from tests.sockets.support import PORT, brokers, folder, meet
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable


@clause("QB-SOCK-2")
def test_connect_before_accept() -> None:
    """It waits at the broker, which lists it, and is matched there."""
    with brokers() as (host, guest), Threads() as threads:
        assert host.address is not None
        connecting = threads.start(guest.connect, host.address, PORT, required=True)
        until(lambda: host.waiting_connects() == {PORT: 1}, "the connect waits")
        assert guest.outgoing() == {(host.address, PORT): 1}

        accepted = host.accept(PORT)

        connected = connecting.result()
        accepted.send(b"to")
        assert connected.receive() == b"to"
        assert (accepted.local_name, accepted.remote_name) == ("host", "guest")
        assert (connected.local_name, connected.remote_name) == ("guest", "host")
        assert (guest.outgoing(), host.waiting_connects()) == ({}, {})
        accepted.disconnect()
        connected.disconnect()


@clause("QB-SOCK-2")
def test_accept_before_connect() -> None:
    """The connect is matched at once."""
    with brokers() as (host, guest), Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        until(lambda: host.waiting_accepts() == {PORT: 1}, "the accept waits")
        assert host.address is not None

        connected = guest.connect(host.address, PORT, required=True)

        connected.send(b"to")
        assert accepting.result().receive() == b"to"
        connected.disconnect()
        accepting.result().disconnect()


@clause("QB-SOCK-2")
def test_callers_from_here_and_from_afar_wait_in_one_line() -> None:
    """Accepts match local and remote callers in order of arrival."""
    with (
        brokers() as (host, guest),
        SocketQueueBroker("near", manager=host.manager) as near,
        Threads() as threads,
    ):
        assert host.address is not None
        waiting = []
        for count, (broker, where) in enumerate(
            [(guest, host.address), (near, "host"), (guest, host.address)], 1
        ):
            waiting.append(threads.start(broker.connect, where, PORT, required=True))
            until(
                lambda count=count: host.waiting_connects() == {PORT: count},  # type: ignore[misc]
                "it waits",
            )

        accepted = [host.accept(PORT) for _ in waiting]

        assert [end.remote_name for end in accepted] == ["guest", "near", "guest"]
        for number, (end, other) in enumerate(zip(accepted, waiting, strict=True)):
            end.send(b"%d" % number)
            assert other.result().receive() == b"%d" % number
            end.disconnect()
            other.result().disconnect()


@clause("QB-SOCK-2")
@pytest.mark.parametrize("kind", ["no file", "left behind", "no folder"])
@needs_unix_sockets
def test_an_address_without_a_listener_is_an_unknown_broker(kind: str) -> None:
    """None, or the error with ``required``, with any timeout."""
    with folder() as place, BrokerManager() as manager:
        address = f"ipc://{place}/x" if kind != "no folder" else f"ipc://{place}/x/y"
        if kind == "left behind":
            _leave_behind(place / "x")
        with SocketQueueBroker("guest", manager=manager) as guest:
            assert guest.connect(address, PORT) is None
            assert guest.connect(address, PORT, timeout=0) is None
            with pytest.raises(UnknownBrokerError, match="ipc://"):
                guest.connect(address, PORT, required=True)


def _leave_behind(path: Path) -> None:
    """Leave the socket file of a killed process behind."""

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@clause("QB-SOCK-2")
@pytest.mark.parametrize("closes", ["host", "guest"])
@needs_unix_sockets
def test_a_broker_that_closes_ends_the_wait(closes: str) -> None:
    """Tested: the listener, which sends a notice, and the caller's own broker."""
    with brokers() as (host, guest), Threads() as threads:
        assert host.address is not None
        connecting = threads.start(guest.connect, host.address, PORT)
        until(lambda: host.waiting_connects() == {PORT: 1}, "the connect waits")

        (host if closes == "host" else guest).close()

        error = connecting.error()
        assert isinstance(error, BrokerClosedError)
        assert "guest" in str(error) if closes == "guest" else "ipc://" in str(error)
        until(lambda: host.waiting_connects() == {}, "nobody waits")


@clause("QB-SOCK-2")
@needs_unix_sockets
def test_a_manager_that_closes_takes_the_address_along() -> None:
    """No broker listens afterwards, and the file is removed."""
    with brokers() as (host, guest):
        assert host.address is not None
        path = Path(host.address.removeprefix("ipc://"))
        assert path.exists()

        host.manager.close()

        assert not path.exists()
        assert guest.connect(host.address, PORT) is None


def test_an_accept_does_not_match_an_expired_connect() -> None:
    """The listener gets a notice, and forgets it."""
    with brokers() as (host, guest):
        assert host.address is not None
        with pytest.raises(RendezvousTimeoutError, match=r"within 0\.05 s"):
            guest.connect(host.address, PORT, timeout=0.05)
        until(lambda: host.waiting_connects() == {}, "it was withdrawn")
        with pytest.raises(RendezvousTimeoutError):
            host.accept(PORT, timeout=0)


def test_a_connect_that_shall_not_wait_asks_once() -> None:
    """It gets an answer at once, with an end or without."""
    with brokers() as (host, guest), Threads() as threads:
        assert host.address is not None
        with pytest.raises(RendezvousTimeoutError, match="within 0 s"):
            guest.connect(host.address, PORT, timeout=0)
        accepting = threads.start(host.accept, PORT)
        until(lambda: host.waiting_accepts() == {PORT: 1}, "the accept waits")

        connected = guest.connect(host.address, PORT, timeout=0, required=True)

        connected.disconnect()
        accepting.result().disconnect()


def test_one_listener_has_an_address() -> None:
    """The second raises; file and listener of the first stay."""
    with brokers() as (host, guest), BrokerManager() as manager:
        with pytest.raises(BrokerNameInUseError, match="in use"):
            SocketQueueBroker("second", listen=host.address, manager=manager)
        assert manager.names() == []
        for end in meet(host, guest):
            end.disconnect()


@needs_unix_sockets
def test_a_file_left_behind_is_replaced() -> None:
    """Its process has exited without removing it."""
    with folder() as place, BrokerManager() as manager:
        _leave_behind(place / "x")
        with SocketQueueBroker("a", listen=f"ipc://{place}/x", manager=manager) as made:
            mode = stat.S_IMODE((place / "x").stat().st_mode)
            assert made.address == f"ipc://{place}/x"
            assert mode == 0o600
        assert not (place / "x").exists()


@needs_unix_sockets
def test_a_listener_does_not_replace_a_file_that_is_no_socket() -> None:
    """A regular file stays unchanged."""
    with folder() as place, BrokerManager() as manager:
        (place / "x").write_text("mine")
        with pytest.raises(BrokerNameInUseError):
            SocketQueueBroker("a", listen=f"ipc://{place}/x", manager=manager)
        assert (place / "x").read_text() == "mine"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: b.connect("udp://x:1", 1), ValueError, "must begin with"),
        (
            lambda b: b.connect("ipc://relative", 1),
            ValueError,
            "begin with /" if _net.HAS_UNIX else "no UNIX sockets; use a tcp address",
        ),
        (
            lambda b: b.connect("ipc:///" + "x" * 107, 1),
            ValueError,
            f"at most {_net.PATH_BYTES_MAX}",
        ),
        (lambda b: b.connect("tcp://host", 1), ValueError, "host:port"),
        (lambda b: b.connect("tcp://host:70000", 1), ValueError, "host:port"),
        (lambda b: b.connect("tcp://host/path:1", 1), ValueError, "host:port"),
        (lambda b: b.connect("tls://[host]:1", 1), ValueError, "IPv6 in brackets"),
        (lambda b: b.connect("tcp://:1", 1), ValueError, "must have a host"),
        (lambda b: b.connect("tls://localhost:1", 1), ValueError, "tls is not given"),
        (lambda b: b.connect("ipc:///x", -1), ValueError, "port must be"),
        (lambda b: b.connect("ipc:///x", 1, timeout=-1), ValueError, "timeout"),
        (lambda b: b.connect(1, 1), TypeError, "name of a broker"),
        (lambda b: SocketQueueBroker("é" * 2049), ValueError, "at most 4096 bytes"),
        (lambda b: SocketQueueBroker("x", driver=1), TypeError, "driver"),  # type: ignore[arg-type]
        (lambda b: SocketQueueBroker("x", options=1), TypeError, "options"),  # type: ignore[arg-type]
        (lambda b: b.accept(1, capacity=2**32), ValueError, "capacity must be at most"),
        (lambda _: SocketQueueBroker("x", capacity=2**32), ValueError, "at most 42949"),
        (lambda b: _another(b, max_message_size=0), ValueError, "must be >= 1, got 0"),
        (lambda b: _another(b, name=b._broker), TypeError, "a str, got Broker"),
        (lambda _: SocketOptions(message_bytes_max=2**32), ValueError, "at most 42949"),
        (lambda _: SocketOptions(ports={-1}), ValueError, "port must be in"),
        (lambda _: SocketOptions(ports=7), TypeError, "ports must be ints"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_found_at_the_call(
    call: Callable[[SocketQueueBroker], object], error: type[Exception], text: str
) -> None:
    """Nothing is opened, nothing is registered."""
    with BrokerManager() as manager:
        guest = SocketQueueBroker("guest", manager=manager)
        with pytest.raises(error, match=text):
            call(guest)
        assert guest.outgoing() == {}
        assert manager.names() == ["guest"]


def _another(
    broker: SocketQueueBroker, name: Any = "x", **limits: Any
) -> SocketQueueBroker:
    return SocketQueueBroker(name, manager=broker.manager, **limits)


def test_it_is_the_current_broker_itself_which_connects_to_addresses() -> None:
    with brokers() as (_, guest), guest.as_current():
        assert guest.get_broker() is current_broker() is guest


def test_a_connection_outlives_its_brokers() -> None:
    """It belongs to its ends."""
    with brokers() as (host, guest):
        accepted, connected = meet(host, guest)
        host.close()
        guest.close()

        connected.send(b"still")
        assert accepted.receive() == b"still"

        accepted.disconnect()
        with pytest.raises(DisconnectedQueueError):
            connected.receive()


@clause("QB-SOCK-2")
@needs_unix_sockets
def test_a_folder_that_somebody_keeps_locked_is_an_error_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock's owner may be a process that was stopped just before it listened."""
    monkeypatch.setattr(socket_files, "_LOCK_TRIES", 3)
    address = f"ipc://{tmp_path / 'wire'}"
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        _files.lock(held)
        with pytest.raises(TimeoutError, match="another process keeps it locked"):
            SocketQueueBroker("late", listen=address)
    finally:
        os.close(held)
    with SocketQueueBroker("late", listen=address) as broker:
        assert broker.address == address


_STRANGER = """
    import os, sys
    from queuebroker.sockets import SocketQueueBroker
    SocketQueueBroker("warm").connect(sys.argv[1] + "/nobody", 1)
    os.setgroups([])
    os.setgid(4321)
    os.setuid(4321)
    for required in (False, True):
        try:
            SocketQueueBroker(f"stranger{required}").connect(
                sys.argv[1], 1, timeout=30, required=required
            )
        except PermissionError as error:
            print(error)
"""


@clause("QB-SOCK-2")
@pytest.mark.skipif(
    _files.user_id() != 0 or not _files.HAS_USERS,
    reason="only root can become another user",
)
def test_a_connect_without_permission_raises_the_permission_error() -> None:
    """A broker may listen there; reporting "no broker" would be a guess."""
    with brokers() as (host, _):
        address = str(host.address)

        code, answer, complaints = run(_STRANGER, address)

        assert code == 0, complaints
        denied = f"[Errno 13] Permission denied: {address!r}"
        assert answer.splitlines() == [denied, denied]
