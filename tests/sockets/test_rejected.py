"""The report of each peer that a listener rejects, and keys that are renewed."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from queuebroker import BrokerClosedError, _net
from queuebroker.sockets import NotAdmittedError, SocketOptions, Tls
from specs.clauses import clause
from tests.kit.raw_peer import raw
from tests.kit.systems import needs_unix_sockets
from tests.sockets.certificates import identity, stranger
from tests.sockets.support import PORT, brokers, meet
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from queuebroker.sockets import SocketQueueBroker

TCP, TLS = "tcp://127.0.0.1:0", "tls://localhost:0"


def refuse(host: SocketQueueBroker, guest: SocketQueueBroker) -> None:
    """Connect, and get no link."""
    assert host.address is not None
    with pytest.raises((ssl.SSLError, BrokerClosedError, NotAdmittedError)):
        guest.connect(host.address, PORT, timeout=LIMIT_S)


@clause("QB-SOCK-9")
def test_a_failed_tls_handshake_is_reported_with_address_and_reason() -> None:
    """A peer of another authority, and one that does not speak TLS."""
    seen: list[str] = []
    options = SocketOptions(on_rejected=seen.append)
    host_tls = {"tls": identity("localhost"), "options": options}
    with brokers(TLS, host_tls, {"tls": stranger()}) as (host, guest):
        refuse(host, guest)
        until(lambda: len(seen) == 1, "the stranger is reported")
        with raw(host.address) as other, suppress(ConnectionResetError):
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            other.recv(4096)
        until(lambda: len(seen) == 2, "the other one, too")

    assert all(each.startswith(("127.0.0.1:", "[::1]:")) for each in seen)
    assert "certificate is not accepted: " in seen[0]
    assert "TLS: http request" in seen[1]


@clause("QB-SOCK-9")
@pytest.mark.parametrize(
    "listen",
    [
        pytest.param(None, marks=needs_unix_sockets, id="unix"),
        pytest.param(TCP, id="tcp"),
    ],
)
def test_each_peer_that_gets_no_link_is_reported_once(listen: str | None) -> None:
    """Silent, gone, of another protocol, one too many, or not admitted."""
    seen: list[str] = []
    options = SocketOptions(
        on_rejected=seen.append,
        handshake_s=0.05,
        unknown_peers_max=1,
    )
    with brokers(listen, {"options": options}) as (host, _):
        with raw(host.address) as silent:
            assert silent.recv(1) == b""
        until(lambda: len(seen) == 1, "a silent peer is reported")
        raw(host.address).close()
        until(lambda: len(seen) == 2, "a peer that left is reported")
        with raw(host.address) as other:
            other.sendall(b"GET / HTTP/1.1\r\n\r\n")
            until(lambda: len(seen) == 3, "another protocol is reported")
        with raw(host.address) as first, raw(host.address):
            assert first.recv(1) == b""
            until(lambda: len(seen) >= 4, "one too many is reported")
            until(lambda: len(seen) == 5, "then the silent one")
    options = SocketOptions(on_rejected=seen.append, admit=lambda _: "no guests today")
    with brokers(listen, {"options": options}) as (host, guest):
        refuse(host, guest)

    source = "a process of this machine: " if listen is None else "127.0.0.1:"
    assert all(each.startswith(source) for each in seen)
    for text, reason in zip(
        seen,
        ("no name within 0.05 s", "", "", "too many peers", "no name", "no guests"),
        strict=True,
    ):
        assert reason in text


@clause("QB-SOCK-9")
def test_an_admitted_peer_is_not_reported_and_a_failing_report_ends_nothing() -> None:
    def fail(_: str) -> None:
        raise LookupError("no log")

    def admit(peer: Any) -> str | None:
        return None if peer.name == "guest" and allowed else "not yet"

    allowed: list[bool] = []
    options = SocketOptions(on_rejected=fail, admit=admit)
    with brokers(host={"options": options}) as (host, guest):
        refuse(host, guest)
        allowed.append(True)
        for end in meet(host, guest):
            end.disconnect()


@pytest.fixture
def renewed(tmp_path: Path) -> Tls:
    """Return the identity of ``localhost``, in files that a test may replace."""
    known = identity("localhost")
    assert known.certificate is not None
    assert known.key is not None
    return attrs.evolve(
        known,
        certificate=shutil.copy(known.certificate, tmp_path / "certificate.pem"),
        key=shutil.copy(known.key, tmp_path / "key.pem"),
    )


@clause("QB-SOCK-9")
def test_a_listener_uses_renewed_keys_for_the_next_peer(renewed: Tls) -> None:
    """Without a new listener; links that exist stay."""
    guest_tls = attrs.evolve(identity("guest"), check_host=False)
    with brokers(TLS, {"tls": renewed}, {"tls": guest_tls}) as (host, guest):
        first = meet(host, guest)
        other = identity("other")
        for name in ("certificate", "key"):
            shutil.copy(getattr(other, name), getattr(renewed, name))
        second = meet(host, guest)
        names = [remote.peer.certificate for _, remote in (first, second)]
        assert names == ["localhost", "other"]
        first[0].send(b"m")
        assert first[1].receive() == b"m"
        for end in (*first, *second):
            end.disconnect()


@clause("QB-SOCK-9")
def test_a_broker_connects_with_renewed_keys_next_time(renewed: Tls) -> None:
    """It reads them again only when they have changed."""
    guest_tls = attrs.evolve(renewed, check_host=False)
    host_tls = {"tls": identity("host")}
    with brokers(TLS, host_tls, {"tls": guest_tls}) as (host, guest):
        ends = [meet(host, guest)]
        first = guest._connects
        assert first is not None
        context = first.get()
        assert first.get() is context
        other = identity("other")
        for name in ("certificate", "key"):
            shutil.copy(getattr(other, name), getattr(renewed, name))
        ends.append(meet(host, guest))
        assert guest._connects is first
        assert first.get() is not context
        names = [accepted.peer.certificate for accepted, _ in ends]
        assert names == ["localhost", "other"]
        for end in (*ends[0], *ends[1]):
            end.disconnect()


@clause("QB-SOCK-9")
def test_while_keys_are_damaged_the_former_ones_stay_in_use(
    renewed: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the middle of a copy; the log names the file, once."""
    guest_tls = attrs.evolve(identity("guest"), check_host=False)
    certificate = Path(str(renewed.certificate))
    with brokers(TLS, {"tls": renewed}, {"tls": guest_tls}) as (host, guest):
        certificate.write_bytes(certificate.read_bytes()[:200])
        for _ in range(2):
            for end in meet(host, guest):
                end.disconnect()

    [line] = [each for each in caplog.messages if "former TLS files" in each]
    assert repr(str(certificate))[1:-1] in line
    assert "must hold a certificate with its key" in line


@clause("QB-SOCK-9")
@pytest.mark.parametrize("kind", ["certificate", "authority"])
@pytest.mark.parametrize("content", [None, b"", b"no PEM"], ids=["none", "empty", "no"])
def test_a_wrong_file_of_tls_is_named(
    renewed: Tls, tmp_path: Path, kind: str, content: bytes | None
) -> None:
    file = tmp_path / "wrong.pem"
    if content is not None:
        file.write_bytes(content)
    given: dict[str, Any] = {kind: file}
    wrong = attrs.evolve(renewed, **given)

    with pytest.raises(OSError, match=r"wrong\.pem"):
        wrong.context(server=True)


@clause("QB-SOCK-9")
def test_nothing_is_left_of_a_peer_that_resets_before_tls_begins() -> None:
    """It is gone when the listener takes its connection."""
    context = identity("localhost").context(server=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.setblocking(False)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        _net.wait_to_read(accepted.fileno(), LIMIT_S)
        number = accepted.fileno()

        with pytest.raises(ConnectionResetError) as caught:
            _net.secure(context, accepted, server=True)

        assert caught.tb is not None  # it would keep a socket that is not closed
        assert accepted.fileno() == -1
        with pytest.raises(OSError):
            os.fstat(number)
