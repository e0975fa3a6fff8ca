"""QB-SOCK-9, QB-SOCK-4: peers: identity, admission, violations and loss."""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import ssl
import stat
import struct
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import BrokerClosedError, DisconnectedQueueError, _net
from queuebroker.sockets import (
    Driver,
    NotAdmittedError,
    PeerLostError,
    ProtocolError,
    SocketMessageQueue,
    SocketOptions,
    frames,
    listener,
)
from queuebroker.sockets.frames import HEAD, Frame, Goodbye, Hello
from specs.clauses import clause
from tests import processes
from tests.sockets.certificates import identity, stranger
from tests.sockets.support import PORT, brokers, ends, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.sockets import Peer, SocketQueueBroker

TLS = "tls://localhost:0"
# SO_LINGER: on, for no time at all.
_NO_LINGER = struct.pack("ii", 1, 0)


@clause("QB-SOCK-9")
def test_over_unix_the_kernel_identifies_the_peer() -> None:
    """On both sides."""
    with ends() as (near, far):
        for end, name in ((near, "guest"), (far, "host")):
            peer = end.peer
            assert peer is not None
            assert (peer.name, peer.pid) == (name, os.getpid())
            assert (peer.uid, peer.gid) == (os.getuid(), os.getgid())
            assert peer.certificate is None


@clause("QB-SOCK-9")
def test_a_process_in_another_pid_namespace_has_no_pid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel then reports 0, which is the pid of no process."""
    hidden = _net.Credentials(0, os.getuid(), os.getgid())
    monkeypatch.setattr(_net, "credentials_of", lambda _: hidden)
    with ends() as (near, _):
        assert near.peer is not None
        assert (near.peer.pid, near.peer.uid) == (None, os.getuid())


@clause("QB-SOCK-9")
def test_over_tls_the_certificate_identifies_the_peer() -> None:
    """On both sides, since both show one."""
    with ends(TLS, {"tls": identity("host")}, {"tls": identity("guest")}) as (
        near,
        far,
    ):
        assert near.peer is not None
        assert far.peer is not None
        assert (near.peer.certificate, far.peer.certificate) == ("guest", "host")
        assert near.peer.pid is None


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


@clause("QB-SOCK-9")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
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


def raw(host: SocketQueueBroker) -> socket.socket:
    """Connect without any frame of the protocol."""
    assert host.address is not None
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(LIMIT_S)
    made.connect(host.address.removeprefix("ipc://"))
    return made


@clause("QB-SOCK-9")
def test_the_listener_closes_a_silent_peer_after_the_handshake_timeout() -> None:
    """Its connection is closed when the time for the handshake is over."""
    options = SocketOptions(handshake_s=0.05)
    with brokers(host={"options": options}) as (host, _), raw(host) as silent:
        assert silent.recv(1) == b""


@clause("QB-SOCK-9")
def test_the_listener_limits_the_peers_that_have_sent_nothing() -> None:
    """A peer above it is closed at once; peers that have spoken do not count."""
    options = SocketOptions(unknown_peers_max=2)
    with brokers(host={"options": options}) as (host, guest):
        with raw(host) as one, raw(host), raw(host) as third:
            assert third.recv(1) == b""
            one.sendall(frames.encode(Hello("one", 1, 100)))
            until(
                lambda: host.waiting_connects() == {1: 1}, "one has said what it wants"
            )
            with raw(host) as fourth:
                fourth.sendall(frames.encode(Hello("fourth", 1, 100)))
                until(lambda: host.waiting_connects() == {1: 2}, "so did another")
        until(lambda: host.waiting_connects() == {}, "all have left")
        for end in meet(host, guest):
            end.disconnect()


@clause("QB-SOCK-9")
def test_the_listener_limits_the_waiting_peers() -> None:
    """A peer above the limit is rejected with that reason."""
    options = SocketOptions(waiting_peers_max=1)
    with brokers(host={"options": options}) as (host, guest), raw(host) as one:
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
        near, far = meet(host, guest)
        with raw(host) as stranger_:
            stranger_.sendall(said)
            answer = b""
            with suppress(ConnectionResetError):
                while piece := stranger_.recv(4096):
                    answer += piece
            assert answer[0] == Frame.REFUSED
        near.send(b"m")
        assert far.receive() == b"m"
        near.disconnect()
        far.disconnect()


@clause("QB-SOCK-5")
def test_a_violation_ends_that_connection_with_one_error() -> None:
    """A message that arrived before it is received first."""
    with brokers() as (host, _), raw(host) as peer, Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        peer.sendall(frames.encode(Hello("liar", PORT, 100)))
        near = accepting.result()
        peer.sendall(frames.encode_message(1, b"true") + frames.encode_message(3, b""))
        until(lambda: near.remote_disconnected, "the violation is seen")

        assert near.receive() == b"true"
        with pytest.raises(DisconnectedQueueError, match="message 3 arrived") as caught:
            near.receive()
        assert isinstance(caught.value.__cause__, ProtocolError)
        near.disconnect()


@clause("QB-SOCK-4")
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("ends", ["closes", "reads no more"])
def test_a_sender_to_a_lost_peer_still_receives_the_arrived_messages(
    ends: str, *, long: bool
) -> None:
    """After any write, with any amount of arrived data: the write fails first."""
    came = [bytes(70_000) if long else b"one", b"two"]

    def turned(condition: Callable[[], bool], what: str) -> None:
        until(lambda: driver.poll(0) < 0 or condition(), what)

    with (
        closing(Driver()) as driver,
        brokers(host={"driver": driver}) as (host, _),
        raw(host) as peer,
        Threads() as threads,
    ):
        peer.sendall(frames.encode(Hello("gone", PORT, 1 << 21)))
        accepting = threads.start(host.accept, PORT)
        turned(lambda: accepting.done, "it is accepted")
        near = accepting.result()
        said = [frames.encode_message(*each) for each in enumerate(came, 1)]
        peer.sendall(b"".join(said))
        peer.close() if ends == "closes" else peer.shutdown(socket.SHUT_RD)

        near.send(bytes(70_000) if long else b"in vain")
        turned(lambda: near.remote_disconnected, "it is noticed")

        assert [near.receive(), near.receive()] == came
        with pytest.raises(DisconnectedQueueError) as caught:
            near.receive()
        assert isinstance(caught.value.__cause__, PeerLostError)
        near.disconnect()
        assert near.stats().peer_lost == 1
        host.close()
        turned(lambda: not driver.sockets, "all is closed")


def accepted_raw(
    host: SocketQueueBroker, peer: socket.socket, threads: Threads
) -> SocketMessageQueue:
    """Accept a raw connection; return this end."""
    accepting = threads.start(host.accept, PORT)
    peer.sendall(frames.encode(Hello("raw", PORT, 1 << 21)))
    near = accepting.result()
    assert isinstance(near, SocketMessageQueue)
    assert peer.recv(1 << 16)[0] == Frame.WELCOME
    return near


def heard(peer: socket.socket) -> bytes:
    """Return all bytes that arrive before the end of a connection."""
    said = b""
    while piece := peer.recv(1 << 16):
        said += piece
    return said


@clause("QB-SOCK-9")
def test_a_good_bye_may_not_be_waited_for() -> None:
    """The peer sends no good-bye, and still reads all data sent to it."""
    options = SocketOptions(farewell_s=LIMIT_S)
    with (
        brokers(host={"options": options}) as (host, _),
        raw(host) as peer,
        Threads() as threads,
    ):
        near = accepted_raw(host, peer, threads)
        peer.sendall(frames.encode_message(1, b"never received"))
        near.send(b"last")
        near.disconnect()
        said = []
        with suppress(ConnectionResetError):  # for messages that were never received
            while piece := peer.recv(1 << 16):
                said.append(piece)
        assert b"".join(said) == frames.encode_message(1, b"last") + frames.encode(
            Goodbye(0)
        )


@clause("QB-SOCK-9")
def test_a_disconnected_link_closes_although_the_peer_does_not_read() -> None:
    """The wait is limited by the option, even if not all data is written."""
    with (
        brokers(host={"options": SocketOptions(farewell_s=0.05)}) as (host, _),
        raw(host) as peer,
        Threads() as threads,
    ):
        near = accepted_raw(host, peer, threads)
        near.send(bytes(1 << 21))
        near.disconnect()
        until(lambda: near._far.link.closed, "it is given up")
        assert len(heard(peer)) < 1 << 21


@clause("QB-SOCK-4", "QB-SOCK-9")
def test_a_live_peer_receives_all_messages_and_an_orderly_disconnect() -> None:
    """A live peer receives all messages, even a long one, and an orderly end."""
    options = SocketOptions(farewell_s=LIMIT_S)
    both = {"options": options}
    with brokers(host=both, guest=both) as (host, guest):
        near, far = meet(host, guest)
        sent = [b"one", bytes(1 << 20), b"two"]
        near.send_many(sent)
        near.disconnect()
        assert list(far) == sent
        with pytest.raises(DisconnectedQueueError) as caught:
            far.receive()
        assert caught.value.__cause__ is None
        far.disconnect()


@clause("QB-SOCK-4")
def test_else_a_connection_stays_until_the_peer_is_done() -> None:
    """However long that takes."""
    with brokers() as (host, _), raw(host) as peer, Threads() as threads:
        near = accepted_raw(host, peer, threads)
        near.disconnect()
        assert peer.recv(1 << 16) == frames.encode(Goodbye(0))
        peer.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.settimeout(LIMIT_S)
        peer.sendall(frames.encode(Goodbye(0)))
        assert heard(peer) == b""


@clause("QB-SOCK-8")
def test_a_receiver_waits_without_a_descriptor_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If none is left the driver reads, as it does if no caller waits."""

    def none_left() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with ends() as (near, far), Threads() as threads:
        monkeypatch.setattr(_net, "Sleeper", none_left)
        receiving = threads.start(near.receive)
        far.send(b"m")
        assert receiving.result() == b"m"


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
        raw(host) as peer,
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

        def told() -> bool:
            driver.poll(0)
            with suppress(BlockingIOError):
                said.append(peer.recv(1))
            return bool(said)

        until(told, "the waiting peer is heard")
        assert said[0][0] == Frame.REFUSED
        host.close()
        driver.poll(0)


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


SPEAKER = """
import sys
from queuebroker.sockets import SocketQueueBroker
broker = SocketQueueBroker("speaker")
queue = broker.connect(sys.argv[1], 7, required=True)
print("ready", flush=True)
sys.stdin.readline()
number = 0
while True:
    try:
        queue.send(b"%d" % number + bytes(number % 7 * 3000))
    except ConnectionError:
        break
    number += 1
"""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"], ids=["unix", "tcp"])
@clause("QB-SOCK-4")
def test_a_killed_peer_is_lost_after_its_arrived_messages(
    listen: str | None, seed: int
) -> None:
    """A prefix of its messages, each whole, then one error with a cause."""
    count = random.Random(seed).choice([0, 1, 5, 64, 200, 1000])
    with brokers(listen) as (host, _), Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        assert host.address is not None
        with processes.start(SPEAKER, host.address) as speaker:
            near = accepting.result()
            assert speaker.stdout is not None
            assert speaker.stdin is not None
            assert speaker.stdout.readline() == "ready\n"
            near.send(b"unread")
            speaker.stdin.write("go\n")
            speaker.stdin.flush()
            received = [near.receive() for _ in range(count)]

            speaker.kill()
            speaker.wait()

            with pytest.raises(DisconnectedQueueError, match="peer") as caught:
                received.extend(iter(near.receive, None))
        assert isinstance(caught.value.__cause__, PeerLostError)
        assert received == [
            b"%d" % n + bytes(n % 7 * 3000) for n in range(len(received))
        ]
        assert (near.stats().sent, near.stats().peer_lost) == (1, 1)
        with pytest.raises(DisconnectedQueueError):
            near.send(b"m")
        near.disconnect()


@clause("QB-SOCK-4")
def test_a_waiting_receiver_gets_the_error_of_the_socket() -> None:
    """The kernel reports the error once, to the waiter, not to a later read."""
    with brokers("tcp://127.0.0.1:0") as (host, _), Threads() as threads:
        assert host.address is not None
        port = int(host.address.rpartition(":")[2])
        accepting = threads.start(host.accept, PORT)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(frames.encode(Hello("rude", PORT, 100)))
            near = accepting.result()
            assert isinstance(near, SocketMessageQueue)
            receiving = threads.start(near.receive)
            until(lambda: near._far.link.read_owner.leased, "it waits in the socket")
            # Closed without a frame: the other side only gets a reset.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

        with pytest.raises(DisconnectedQueueError) as caught:
            receiving.result()
        assert isinstance(caught.value.__cause__, PeerLostError)
        assert "reset" in str(caught.value.__cause__)
        near.disconnect()


@clause("QB-SOCK-8")
@pytest.mark.parametrize(
    "send",
    [
        lambda near: [near.send(bytes(60_000)) for _ in range(100)],
        lambda near: near.send(bytes(8 << 20)),
        lambda near: near.send_many([bytes(90_000)] * 90),
        lambda near: [near.send(bytes(60_000), fds=[0]) for _ in range(100)],
    ],
    ids=["short", "long", "several", "descriptors"],
)
def test_a_socket_that_was_waited_in_is_not_waited_for_by_a_send(
    send: Callable[[SocketMessageQueue], object],
) -> None:
    """Even if its peer reads nothing, and the kernel takes no more data."""
    settings = {"options": SocketOptions(descriptors_max=1), "capacity": 128}
    with brokers(host=settings) as (host, _), Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        with raw(host) as peer:
            hello = Hello("write_failed", PORT, 16 << 20, descriptors=1)
            peer.sendall(frames.encode(hello))
            near = accepting.result()
            assert isinstance(near, SocketMessageQueue)
            receiving = threads.start(near.receive)
            until(lambda: near._far.link.read_owner.leased, "it waits in the socket")
            peer.sendall(frames.encode_message(1, b"m"))
            assert receiving.result() == b"m"

            threads.start(send, near).result()

            assert near._far.link.read_owner.blocked
        until(lambda: near.remote_disconnected, "the peer is lost")
        near.disconnect()


@clause("QB-SOCK-4")
def test_a_peer_that_is_killed_while_it_waits_is_forgotten() -> None:
    """No accept matches it."""
    with brokers() as (host, _):
        assert host.address is not None
        with processes.start(SPEAKER, host.address) as speaker:
            until(lambda: host.waiting_connects() == {PORT: 1}, "it waits")
            speaker.kill()
            until(lambda: host.waiting_connects() == {}, "it is forgotten")


@clause("QB-SOCK-4")
def test_silence_over_tcp_is_a_lost_peer() -> None:
    """A machine that is down sends nothing at all."""
    options = SocketOptions(lease_s=0.2)
    with brokers("tcp://127.0.0.1:0", {"options": options}) as (host, _):
        assert host.address is not None
        port = int(host.address.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port)) as silent,
            Threads() as threads,
        ):
            accepting = threads.start(host.accept, PORT)
            silent.sendall(frames.encode(Hello("silent", PORT, 100)))
            near = accepting.result()

            with pytest.raises(DisconnectedQueueError, match="silent for"):
                near.receive()

            near.disconnect()


def test_a_peer_that_answers_keeps_its_lease() -> None:
    """Both sides send no messages for several leases, and stay connected."""
    options = SocketOptions(lease_s=0.1)
    with ends("tcp://127.0.0.1:0", {"options": options}, {"options": options}) as (
        near,
        far,
    ):
        with Threads() as threads:
            waiting = threads.start(near.receive, timeout=0.5)
            assert isinstance(waiting.error(), TimeoutError)
        far.send(b"m")
        assert near.receive() == b"m"


# The interpreter's own warning, and right: the driver is a thread
# (docs/explanation/sockets.md).
FORK_WARNING = (
    r".*DeprecationWarning: This process \(pid=\d+\) is multi-threaded, use of fork\(\)"
    r" may lead to deadlocks in the child\.\n( .*\n)?"
)

FORKER = r"""
import os, sys
from queuebroker import BrokerManager, DisconnectedQueueError
from queuebroker.sockets import SocketQueueBroker
import threading
place = sys.argv[1]
host = SocketQueueBroker("host", listen=place, manager=BrokerManager())
guest = SocketQueueBroker("guest", manager=BrokerManager())
ends = []
thread = threading.Thread(target=lambda: ends.append(host.accept(1)))
thread.start()
far = guest.connect(place, 1, required=True)
thread.join()
child = os.fork()
if not child:
    try:
        ends[0].receive()
    except DisconnectedQueueError as error:
        other = SocketQueueBroker("other")
        os.write(1, b"child: %s\n" % error.reason.encode())
        queue = other.connect(place, 1, timeout=5, required=True)
        os.write(1, b"child: %s\n" % queue.receive())
    os._exit(0)
far.send(b"parent")
os.write(1, b"parent: %s\n" % ends[0].receive())
host.accept(1).send(b"to the child")
os.waitpid(child, 0)
far.disconnect()
ends[0].disconnect()
host.close()
"""


@pytest.mark.filterwarnings("ignore")
def test_a_fork_leaves_the_parents_connections_to_the_parent(tmp_path: Path) -> None:
    """In the child they are lost; it can create its own."""
    code, answer, complaints = processes.run(FORKER, f"ipc://{tmp_path}/host"[:100])

    assert code == 0
    assert re.fullmatch(FORK_WARNING if sys.version_info >= (3, 12) else "", complaints)
    assert sorted(answer.splitlines()) == [
        "child: its driver is closed, or in another process",
        "child: to the child",
        "parent: parent",
    ]
