"""QB-SOCK-9: peers: identity, admission, and the limits on unknown ones."""

from __future__ import annotations

import errno
import os
import socket
import ssl
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from queuebroker import BrokerClosedError, _files, _net
from queuebroker.sockets import (
    Driver,
    NotAdmittedError,
    ProtocolError,
    SocketOptions,
    frames,
    listener,
)
from queuebroker.sockets.address import Address
from queuebroker.sockets.frames import HEAD, Frame, Hello
from specs.clauses import clause
from tests import processes
from tests.kit.raw_peer import raw
from tests.kit.systems import needs_unix_sockets
from tests.sockets.certificates import identity, stranger
from tests.sockets.support import PORT, brokers, ends, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from queuebroker.sockets import Peer

TLS = "tls://localhost:0"


@clause("QB-SOCK-9")
@needs_unix_sockets
def test_over_unix_the_kernel_identifies_the_peer() -> None:
    """On both sides."""
    with ends() as (local, remote):
        for end, name in ((local, "guest"), (remote, "host")):
            peer = end.peer
            assert peer is not None
            assert (peer.name, peer.pid) == (name, os.getpid())
            assert (peer.uid, peer.gid) == (os.getuid(), os.getgid())
            assert peer.certificate is None


@clause("QB-SOCK-9")
@needs_unix_sockets
def test_a_process_in_another_pid_namespace_has_no_pid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel then reports 0, which is the pid of no process."""
    hidden = _net.Credentials(0, os.getuid(), os.getgid())
    monkeypatch.setattr(_net, "credentials_of", lambda _: hidden)
    with ends() as (local, _):
        assert local.peer is not None
        assert (local.peer.pid, local.peer.uid) == (None, os.getuid())


@clause("QB-SOCK-9")
def test_over_tls_the_certificate_identifies_the_peer() -> None:
    """On both sides, since both show one."""
    with ends(TLS, {"tls": identity("host")}, {"tls": identity("guest")}) as (
        local,
        remote,
    ):
        assert local.peer is not None
        assert remote.peer is not None
        assert (local.peer.certificate, remote.peer.certificate) == ("guest", "host")
        assert local.peer.pid is None


@clause("QB-SOCK-9", "QB-SOCK-10")
def test_a_peer_that_ends_after_its_first_frame_has_its_certificate() -> None:
    """Both arrive together, and TLS gives no certificate after an early end."""
    peers: list[Peer] = []
    host_tls = {"tls": identity("host"), "options": SocketOptions(admit=peers.append)}
    with (
        closing(Driver()) as driver,
        brokers(TLS, host_tls | {"driver": driver}) as (host, _),
    ):
        assert host.address is not None
        assert host._listener is not None
        unknown = host._listener.unknown
        address = Address.parse(host.address)
        with _net.secure(
            identity("guest").context(server=False),
            socket.create_connection((address.host, address.port)),
            server=False,
            host="localhost",
        ) as secured:
            secured.setblocking(False)

            def is_secured() -> bool:
                driver.poll(0)
                here = all(each.link._opening is None for each in unknown)
                return _net.do_handshake_once(secured) == 0 and here

            until(is_secured, "the handshake is complete on both sides")
            secured.sendall(frames.encode(Hello("guest", PORT, 100)))
            socket.socket.shutdown(secured, socket.SHUT_WR)  # without an end of TLS

            def has_left() -> bool:
                driver.poll(0)
                return not unknown

            until(has_left, "the peer has left")

        assert [peer.certificate for peer in peers] == ["guest"]
        assert driver.failures == 0
        host.close()
        driver.poll(0)


@clause("QB-SOCK-9")
def test_a_connect_without_the_check_of_the_host_shows_the_uris() -> None:
    """Of a listener whose certificate has a URI, and no host."""
    host, guest = (identity(name, uri=f"x://{name}/") for name in ("porter", "visitor"))
    with brokers(TLS, {"tls": host}, {"tls": guest}) as (listener, other):
        assert listener.address is not None
        with pytest.raises(ssl.SSLCertVerificationError, match=r"Hostname mismatch|IP"):
            other.connect(listener.address, PORT, timeout=LIMIT_S)

    unchecked = attrs.evolve(guest, check_host=False)
    with ends(TLS, {"tls": host}, {"tls": unchecked}) as (local, remote):
        assert local.peer is not None
        assert remote.peer is not None
        assert (local.peer.uris, remote.peer.uris) == (
            ("x://visitor/",),
            ("x://porter/",),
        )


@clause("QB-SOCK-9")
@pytest.mark.parametrize("who", ["guest", "host"])
def test_over_tls_a_stranger_does_not_get_in(who: str) -> None:
    """Neither as a connector nor as a listener."""
    tls = {"host": identity("host"), "guest": identity("guest"), who: stranger()}
    with brokers(TLS, {"tls": tls["host"]}, {"tls": tls["guest"]}) as (host, guest):
        assert host.address is not None
        # It knows the reason, unless the other side disconnected before that came.
        with pytest.raises((ssl.SSLError, BrokerClosedError)) as caught:
            guest.connect(host.address, PORT, timeout=LIMIT_S)
        if who == "host":
            assert isinstance(caught.value, ssl.SSLCertVerificationError)
        assert host.waiting_connects() == {}


@clause("QB-SOCK-9")
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
@needs_unix_sockets
def test_the_socket_file_has_the_mode_that_was_asked_for(mode: int) -> None:
    """Users that the mode permits can connect."""
    with brokers(host={"options": SocketOptions(mode=mode)}) as (host, _):
        assert host.address is not None
        path = Path(host.address.removeprefix("ipc://"))
        assert stat.S_IMODE(path.stat().st_mode) == mode


ANOTHER = """
import os, sys
from queuebroker.sockets import SocketQueueBroker
os.setgid(65534), os.setuid(65534)
with SocketQueueBroker("another") as broker:
    try:
        queue = broker.connect(sys.argv[1], 7, timeout=10)
        print("none" if queue is None else "in")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.deep
@clause("QB-SOCK-9")
@pytest.mark.skipif(
    not _files.HAS_USERS or _files.user_id() != 0,
    reason="only root can become another user",
)
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_another_user_is_known_and_refused(mode: int) -> None:
    """By the file's mode, or by the `admit` callback."""
    seen: list[int | None] = []

    def admit(peer: Peer) -> str | None:
        seen.append(peer.uid)
        return "not you" if peer.uid == 65534 else None

    options = SocketOptions(mode=mode, admit=admit)
    with brokers(host={"options": options}) as (host, guest):
        assert host.address is not None
        Path(host.address.removeprefix("ipc://")).parent.chmod(0o755)

        code, answer, complaints = processes.run(ANOTHER, host.address)

        assert code == 0, complaints
        if mode == 0o600:
            assert answer.startswith("PermissionError")
            assert seen == []
        else:
            assert answer.startswith("NotAdmittedError")
            assert "not you" in answer
            assert seen == [65534]
        for end in meet(host, guest):
            end.disconnect()
        assert seen[-1] == os.getuid()


@clause("QB-SOCK-9")
def test_an_exception_in_admit_rejects_the_connect() -> None:
    """The listener goes on."""
    answers: list[Any] = [LookupError("no book"), None]

    def admit(_: Peer) -> str | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return None

    with brokers(host={"options": SocketOptions(admit=admit)}) as (host, guest):
        assert host.address is not None
        with pytest.raises(NotAdmittedError, match="LookupError: no book"):
            guest.connect(host.address, PORT)
        for end in meet(host, guest):
            end.disconnect()


@clause("QB-SOCK-9")
def test_the_listener_closes_a_silent_peer_after_the_handshake_timeout() -> None:
    """Its connection is closed when the time for the handshake is over."""
    options = SocketOptions(handshake_s=0.05)
    with brokers(host={"options": options}) as (host, _), raw(host.address) as silent:
        assert silent.recv(1) == b""


@clause("QB-SOCK-9")
def test_the_listener_limits_the_peers_that_have_sent_nothing() -> None:
    """Above it the oldest is closed; peers that have spoken do not count."""
    options = SocketOptions(unknown_peers_max=2)
    with brokers(host={"options": options}) as (host, guest):
        with raw(host.address) as first, raw(host.address) as one, raw(host.address):
            assert first.recv(1) == b""
            one.sendall(frames.encode(Hello("one", 1, 100)))
            until(
                lambda: host.waiting_connects() == {1: 1}, "one has said what it wants"
            )
            with raw(host.address) as fourth:
                fourth.sendall(frames.encode(Hello("fourth", 1, 100)))
                until(lambda: host.waiting_connects() == {1: 2}, "so did another")
        until(lambda: host.waiting_connects() == {}, "all have left")
        for end in meet(host, guest):
            end.disconnect()


@clause("QB-SOCK-9")
def test_the_listener_limits_the_waiting_peers() -> None:
    """A peer above the limit is rejected with that reason."""
    options = SocketOptions(waiting_peers_max=1)
    with brokers(host={"options": options}) as (host, guest), raw(host.address) as one:
        one.sendall(frames.encode(Hello("one", 1, 100)))
        until(lambda: host.waiting_connects() == {1: 1}, "it waits")
        assert host.address is not None
        with pytest.raises(NotAdmittedError, match="too many"):
            guest.connect(host.address, PORT)


@clause("QB-SOCK-5", "QB-SOCK-9")
@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEAD.pack(Frame.HELLO, 101) + bytes(101),
        HEAD.pack(Frame.HELLO, 2**32 - 1),
        frames.encode_message(1, b"m"),
        bytes(64),
    ],
    ids=["http", "long", "huge", "message", "zeros"],
)
def test_the_listener_rejects_a_peer_that_speaks_another_protocol(said: bytes) -> None:
    """Other connections are not affected."""
    options = SocketOptions(first_frame_bytes_max=100)
    with brokers(host={"options": options}) as (host, guest):
        local, remote = meet(host, guest)
        with raw(host.address) as stranger_:
            stranger_.sendall(said)
            answer = b""
            with suppress(ConnectionResetError):
                while piece := stranger_.recv(4096):
                    answer += piece
            assert answer[0] == Frame.REFUSED
        local.send(b"m")
        assert remote.receive() == b"m"
        local.disconnect()
        remote.disconnect()


@clause("QB-SOCK-9")
def test_a_new_peer_waits_while_no_descriptor_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listener does not poll meanwhile for a free descriptor."""
    tries: list[None] = []

    def none_left(_: object) -> None:
        tries.append(None)
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(listener, "_PAUSE_S", 1e6)
    with (
        closing(Driver()) as driver,
        brokers(host={"driver": driver}) as (host, _),
        raw(host.address) as peer,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(_net, "accept", none_left)
            for _ in range(20):
                driver.poll(0)
        assert len(tries) == 1
        assert host._listener is not None
        host._listener._resume()
        peer.sendall(bytes(64))
        peer.setblocking(False)
        said: list[bytes] = []

        def reported() -> bool:
            driver.poll(0)
            with suppress(BlockingIOError):
                said.append(peer.recv(1))
            return bool(said)

        until(reported, "the waiting peer is reported")
        assert said[0][0] == Frame.REFUSED
        host.close()
        driver.poll(0)


@needs_unix_sockets
def test_a_connect_to_a_service_that_is_no_broker_raises_a_protocol_error() -> None:
    """The connect raises with the bytes that came instead of an answer."""
    with brokers() as (host, guest), socket.socket(socket.AF_UNIX) as other:
        assert host.address is not None
        address = f"{host.address}-other"
        other.bind(address.removeprefix("ipc://"))
        other.listen()
        with Threads() as threads:
            connecting = threads.start(guest.connect, address, PORT)
            made, _ = other.accept()
            with made:
                made.sendall(b"220 mail.example\r\n")
                error = connecting.error()
                assert isinstance(error, ProtocolError)
                assert "the service there is not a broker: frame of" in str(error)
                assert address in str(error)
