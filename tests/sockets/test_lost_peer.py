"""QB-SOCK-4, QB-SOCK-9: peers that leave, are killed or lost, or read no more."""

from __future__ import annotations

import errno
import random
import re
import socket
import struct
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, _net
from queuebroker.sockets import (
    Driver,
    PeerLostError,
    ProtocolError,
    SocketMessageQueue,
    SocketOptions,
    frames,
)
from queuebroker.sockets.frames import Goodbye, Hello
from specs.clauses import clause
from tests import processes
from tests.kit.raw_peer import raw
from tests.kit.systems import needs_fork, needs_unix_sockets
from tests.sockets.raw_peers import accepted_raw, received
from tests.sockets.support import PORT, brokers, ends, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# SO_LINGER: on, for no time at all.
_NO_LINGER = struct.pack("ii", 1, 0)


@clause("QB-SOCK-5")
def test_a_violation_ends_that_connection_with_one_error() -> None:
    """A message that arrived before it is received first."""
    with brokers() as (host, _), raw(host.address) as peer, Threads() as threads:
        accepting = threads.start(host.accept, PORT)
        peer.sendall(frames.encode(Hello("liar", PORT, 100)))
        local = accepting.result()
        peer.sendall(frames.encode_message(1, b"true") + frames.encode_message(3, b""))
        until(lambda: local.remote_disconnected, "the violation is seen")

        assert local.receive() == b"true"
        with pytest.raises(DisconnectedQueueError, match="message 3 arrived") as caught:
            local.receive()
        assert isinstance(caught.value.__cause__, ProtocolError)
        local.disconnect()


@clause("QB-SOCK-4")
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("ends", ["closes", "reads no more"])
@needs_unix_sockets
def test_a_sender_to_a_lost_peer_still_receives_the_arrived_messages(
    ends: str, *, long: bool
) -> None:
    """After any write, with any amount of arrived data: the write fails first."""
    arrived = [bytes(70_000) if long else b"one", b"two"]

    def turned(condition: Callable[[], bool], what: str) -> None:
        until(lambda: driver.poll(0) < 0 or condition(), what)

    with (
        closing(Driver()) as driver,
        brokers(host={"driver": driver}) as (host, _),
        raw(host.address) as peer,
        Threads() as threads,
    ):
        peer.sendall(frames.encode(Hello("gone", PORT, 1 << 21)))
        accepting = threads.start(host.accept, PORT)
        turned(lambda: accepting.done, "it is accepted")
        local = accepting.result()
        said = [frames.encode_message(*each) for each in enumerate(arrived, 1)]
        peer.sendall(b"".join(said))
        peer.close() if ends == "closes" else peer.shutdown(socket.SHUT_RD)

        local.send(bytes(70_000) if long else b"in vain")
        turned(lambda: local.remote_disconnected, "it is noticed")

        assert [local.receive(), local.receive()] == arrived
        with pytest.raises(DisconnectedQueueError) as caught:
            local.receive()
        assert isinstance(caught.value.__cause__, PeerLostError)
        local.disconnect()
        assert local.stats().peer_lost == 1
        host.close()
        turned(lambda: not driver.sockets, "all is closed")


@clause("QB-SOCK-9")
@needs_unix_sockets
def test_a_good_bye_may_not_be_waited_for() -> None:
    """The peer sends no good-bye, and still reads all data sent to it."""
    options = SocketOptions(farewell_s=LIMIT_S)
    with (
        brokers(host={"options": options}) as (host, _),
        raw(host.address) as peer,
        Threads() as threads,
    ):
        local = accepted_raw(host, peer, threads)
        peer.sendall(frames.encode_message(1, b"never received"))
        local.send(b"last")
        local.disconnect()
        said = []
        with suppress(ConnectionResetError):  # for messages that were never received
            while piece := peer.recv(1 << 16):
                said.append(piece)
        assert b"".join(said) == frames.encode_message(1, b"last") + frames.encode(
            Goodbye(0)
        )


@clause("QB-SOCK-9")
@needs_unix_sockets
def test_a_disconnected_link_closes_although_the_peer_does_not_read() -> None:
    """The wait is limited by the option, even if not all data is written."""
    with (
        brokers(host={"options": SocketOptions(farewell_s=0.05)}) as (host, _),
        raw(host.address) as peer,
        Threads() as threads,
    ):
        local = accepted_raw(host, peer, threads)
        local.send(bytes(1 << 21))
        local.disconnect()
        until(lambda: local._socket_connection.link.closed, "it is given up")
        assert len(received(peer)) < 1 << 21


@clause("QB-SOCK-4", "QB-SOCK-9")
def test_a_live_peer_receives_all_messages_and_an_orderly_disconnect() -> None:
    """A live peer receives all messages, even a long one, and an orderly end."""
    options = SocketOptions(farewell_s=LIMIT_S)
    both = {"options": options}
    with brokers(host=both, guest=both) as (host, guest):
        local, remote = meet(host, guest)
        sent = [b"one", bytes(1 << 20), b"two"]
        local.send_many(sent)
        local.disconnect()
        assert list(remote) == sent
        with pytest.raises(DisconnectedQueueError) as caught:
            remote.receive()
        assert caught.value.__cause__ is None
        remote.disconnect()


@clause("QB-SOCK-4")
def test_else_a_connection_stays_until_the_peer_is_done() -> None:
    """However long that takes."""
    with brokers() as (host, _), raw(host.address) as peer, Threads() as threads:
        local = accepted_raw(host, peer, threads)
        local.disconnect()
        assert peer.recv(1 << 16) == frames.encode(Goodbye(0))
        peer.settimeout(0.05)
        with pytest.raises(TimeoutError):
            peer.recv(1)
        peer.settimeout(LIMIT_S)
        peer.sendall(frames.encode(Goodbye(0)))
        assert received(peer) == b""


@clause("QB-SOCK-8")
def test_a_receiver_waits_without_a_descriptor_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If none is left the driver reads, as it does if no caller waits."""

    def none_left() -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with ends() as (local, remote), Threads() as threads:
        monkeypatch.setattr(_net, "Sleeper", none_left)
        receiving = threads.start(local.receive)
        remote.send(b"m")
        assert receiving.result() == b"m"


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


@pytest.mark.deep
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
            local = accepting.result()
            assert speaker.stdout is not None
            assert speaker.stdin is not None
            assert speaker.stdout.readline() == "ready\n"
            local.send(b"unread")
            speaker.stdin.write("go\n")
            speaker.stdin.flush()
            received = [local.receive() for _ in range(count)]

            speaker.kill()
            speaker.wait()

            with pytest.raises(DisconnectedQueueError, match="peer") as caught:
                received.extend(iter(local.receive, None))
        assert isinstance(caught.value.__cause__, PeerLostError)
        assert received == [
            b"%d" % n + bytes(n % 7 * 3000) for n in range(len(received))
        ]
        assert (local.stats().sent, local.stats().peer_lost) == (1, 1)
        with pytest.raises(DisconnectedQueueError):
            local.send(b"m")
        local.disconnect()


@clause("QB-SOCK-4")
def test_a_waiting_receiver_gets_the_error_of_the_socket() -> None:
    """The kernel reports the error once, to the waiter, not to a later read."""
    with brokers("tcp://127.0.0.1:0") as (host, _), Threads() as threads:
        assert host.address is not None
        port = int(host.address.rpartition(":")[2])
        accepting = threads.start(host.accept, PORT)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(frames.encode(Hello("rude", PORT, 100)))
            local = accepting.result()
            assert isinstance(local, SocketMessageQueue)
            receiving = threads.start(local.receive)
            until(
                lambda: local._socket_connection.link.read_owner.leased,
                "it waits in the socket",
            )
            # Closed without a frame: the other side only gets a reset.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

        with pytest.raises(DisconnectedQueueError) as caught:
            receiving.result()
        assert isinstance(caught.value.__cause__, PeerLostError)
        assert "reset" in str(caught.value.__cause__)
        local.disconnect()


@clause("QB-SOCK-8")
@pytest.mark.parametrize(
    "send",
    [
        lambda local: [local.send(bytes(60_000)) for _ in range(100)],
        lambda local: local.send(bytes(8 << 20)),
        lambda local: local.send_many([bytes(90_000)] * 90),
        pytest.param(
            lambda local: [local.send(bytes(60_000), fds=[0]) for _ in range(100)],
            marks=needs_unix_sockets,
        ),
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
        with raw(host.address) as peer:
            hello = Hello("write_failed", PORT, 16 << 20, descriptors=1)
            peer.sendall(frames.encode(hello))
            local = accepting.result()
            assert isinstance(local, SocketMessageQueue)
            receiving = threads.start(local.receive)
            until(
                lambda: local._socket_connection.link.read_owner.leased,
                "it waits in the socket",
            )
            peer.sendall(frames.encode_message(1, b"m"))
            assert receiving.result() == b"m"

            threads.start(send, local).result()

            assert local._socket_connection.link.read_owner.blocked
        until(lambda: local.remote_disconnected, "the peer is lost")
        local.disconnect()


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
            local = accepting.result()

            with pytest.raises(DisconnectedQueueError, match="silent for"):
                local.receive()

            local.disconnect()


@pytest.mark.deep  # seconds: a loaded machine may not run a thread for most of one
def test_a_peer_that_answers_keeps_its_lease() -> None:
    """Both sides send no messages for several leases, and stay connected."""
    options = SocketOptions(lease_s=1.0)
    with ends("tcp://127.0.0.1:0", {"options": options}, {"options": options}) as (
        local,
        remote,
    ):
        with Threads() as threads:
            waiting = threads.start(local.receive, timeout=4.0)
            assert isinstance(waiting.error(), TimeoutError)
        remote.send(b"m")
        assert local.receive() == b"m"


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
remote = guest.connect(place, 1, required=True)
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
remote.send(b"parent")
os.write(1, b"parent: %s\n" % ends[0].receive())
host.accept(1).send(b"to the child")
os.waitpid(child, 0)
remote.disconnect()
ends[0].disconnect()
host.close()
"""


@pytest.mark.filterwarnings("ignore")
@needs_fork
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
