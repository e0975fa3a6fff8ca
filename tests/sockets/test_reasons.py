"""QB-SOCK-2: connect distinguishes a local error, another service, and no listener."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from queuebroker import BrokerClosedError, UnknownBrokerError, _files, _net
from queuebroker.sockets import (
    ProtocolError,
    SocketMessageQueue,
    SocketOptions,
    SocketQueueBroker,
)
from queuebroker.sockets.frames import Hello, encode
from specs.clauses import clause
from tests.kit.raw_peer import raw
from tests.kit.self_connect import self_connecting_port
from tests.kit.systems import needs_resource_limits
from tests.sockets.certificates import identity
from tests.sockets.support import PORT, brokers, meet
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL", "EINVAL")
NOWHERE = ("ECONNREFUSED", "ENOENT", "EHOSTUNREACH", "ENETUNREACH", "ETIMEDOUT")


@pytest.fixture
def guest() -> Iterator[SocketQueueBroker]:
    """Yield a broker that does not listen."""
    with SocketQueueBroker("guest") as made:
        yield made


def failing(name: str) -> Any:
    code = getattr(errno, name)

    def dial(*_: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return dial


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Make this process unable to open a descriptor."""
    soft, hard = _files.resource.getrlimit(_files.resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir("/proc/self/fd")))
    held = []
    try:
        _files.resource.setrlimit(_files.resource.RLIMIT_NOFILE, (top + 1, hard))
        with suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        _files.resource.setrlimit(_files.resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            os.close(each)


@clause("QB-SOCK-2")
@pytest.mark.parametrize("required", [True, False])
@needs_resource_limits
def test_without_a_descriptor_connect_raises_the_system_error(required: bool) -> None:
    """A broker listens there: "no broker listens" would be wrong."""
    with brokers() as (host, guest):
        assert host.address is not None
        with no_descriptor_left(), pytest.raises(OSError, match="open files") as caught:
            guest.connect(host.address, PORT, required=required)
        assert caught.value.errno == errno.EMFILE
        for end in meet(host, guest):
            end.disconnect()


@clause("QB-SOCK-2")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("scheme", ["ipc", "tcp"])
def test_an_error_of_this_machine_is_raised_as_it_is(
    scheme: str,
    name: str,
    required: bool,
    guest: SocketQueueBroker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_net, "dial", failing(name))
    address = "ipc:///nowhere" if scheme == "ipc" else "tcp://127.0.0.1:1"
    with pytest.raises(OSError, match="Errno") as caught:
        guest.connect(address, PORT, required=required)
    assert caught.value.errno == getattr(errno, name)
    assert str(caught.value).endswith(f": {address!r}")
    assert not isinstance(caught.value, UnknownBrokerError)


@clause("QB-SOCK-2")
@pytest.mark.parametrize("call", ["dial", "check_connected"], ids=["at once", "late"])
@pytest.mark.parametrize("name", [*NOWHERE, *OWN])
def test_the_error_of_a_connect_that_took_its_time_is_the_same(
    name: str, call: str, guest: SocketQueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TCP the system may report at once or later that there is no route."""
    code = getattr(errno, name)
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setattr(_net, call, failing(name))
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises((OSError, UnknownBrokerError)) as caught:
            guest.connect(address, PORT, required=True)
        if name in NOWHERE:
            assert isinstance(caught.value, UnknownBrokerError)
            assert str(caught.value) == (
                f"cannot connect to {address!r} port {PORT}: no broker listens there:"
                f" {_net.error_text(code).lower()}"
            )
            cause = caught.value.__cause__
            assert isinstance(cause, OSError)
            assert cause.errno == code
            assert guest.connect(address, PORT) is None
        else:
            assert isinstance(caught.value, OSError)
            assert caught.value.errno == code


@clause("QB-SOCK-2")
def test_a_socket_that_connects_to_itself_has_found_no_broker(
    guest: SocketQueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would read its own name as that of another caller."""
    address = f"tcp://127.0.0.1:{self_connecting_port(monkeypatch)}"
    with pytest.raises(UnknownBrokerError) as caught:
        guest.connect(address, PORT, timeout=LIMIT_S, required=True)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


@clause("QB-SOCK-2")
def test_a_host_that_does_not_resolve_raises_the_system_error(
    guest: SocketQueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(socket.gaierror, match=r"not known: 'tcp://nobody\.invalid:1'"):
        guest.connect("tcp://nobody.invalid:1", PORT)


@clause("QB-SOCK-2")
def test_a_name_in_the_place_of_an_address_gets_the_remedy(
    guest: SocketQueueBroker,
) -> None:
    """The error explains that a name means a broker of the same process."""
    with pytest.raises(UnknownBrokerError) as caught:
        guest.connect("server", PORT, required=True)

    assert str(caught.value) == (
        f"cannot connect to 'server' port {PORT}: no live broker of that name offers"
        " queues in this process; give the address of a broker in another one, such as"
        " ipc:///path or tcp://host:port"
    )
    assert guest.connect("server", PORT) is None


def test_an_address_that_cannot_be_listened_at_is_named() -> None:
    with pytest.raises(OSError, match=r": 'tcp://192\.0\.2\.1:1'$"):
        SocketQueueBroker("host", listen="tcp://192.0.2.1:1")


@pytest.mark.parametrize("host", [".x", "a..b", "x" * 64])
def test_a_host_that_is_no_name_is_found_at_the_call(
    host: str, guest: SocketQueueBroker
) -> None:
    with pytest.raises(ValueError, match="host of an address must be a host name"):
        guest.connect(f"tcp://{host}:1", PORT)


@clause("QB-SOCK-2")
@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_service_that_is_not_a_broker_is_a_protocol_error(scheme: str) -> None:
    """It may be a mail server; over TLS its answer is not even TLS."""
    with (
        SocketQueueBroker("guest", tls=identity("guest")) as guest,
        socket.create_server(("127.0.0.1", 0)) as other,
        Threads() as threads,
    ):
        address = f"{scheme}://localhost:{other.getsockname()[1]}"
        connecting = threads.start(guest.connect, address, PORT, timeout=LIMIT_S)
        made, _ = other.accept()
        with made:
            made.sendall(b"220 mail.example\r\n")
            error = connecting.error()
    assert isinstance(error, ProtocolError)
    assert f"connect to {address!r}: the service there is not a broker" in str(error)
    assert error.__cause__ is not None


@clause("QB-SOCK-2")
def test_a_silent_hang_up_is_reported_with_its_cause(
    guest: SocketQueueBroker,
) -> None:
    """It may have been a broker that closed just then."""
    with socket.create_server(("127.0.0.1", 0)) as other, Threads() as threads:
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        connecting = threads.start(guest.connect, address, PORT, timeout=LIMIT_S)
        made, _ = other.accept()
        made.close()
        error = connecting.error()
    assert isinstance(error, BrokerClosedError)
    assert error.__cause__ is not None


@clause("QB-SOCK-9")
def test_a_peer_over_tcp_takes_no_descriptors_whatever_it_says() -> None:
    """A send of some would have ended the connection."""
    options = {"options": SocketOptions(descriptors_max=1)}
    with brokers("tcp://127.0.0.1:0", options) as (host, _), raw(host.address) as peer:
        peer.sendall(encode(Hello("liar", PORT, 100, descriptors=1)))
        local = host.accept(PORT, timeout=LIMIT_S)
        assert isinstance(local, SocketMessageQueue)
        with local, pytest.raises(ValueError, match="takes 0 descriptors here, got 1"):
            local.send(b"m", fds=[0])
