"""Regressions: partial writes, late timers, late events of an ended connection."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import _net
from queuebroker.sockets import SocketOptions, SocketQueueBroker
from queuebroker.sockets.frames import Messages
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.sockets.certificates import identity
from tests.sockets.support import PORT, brokers, ends, folder, meet
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queuebroker._net import Socket

MEDIA = [None, "tcp://127.0.0.1:0", "tls://localhost:0"]
LATE_S = 5.0  # a message in transit comes sooner


class Stingy:
    """A socket that takes only a part of the first data, or none of it."""

    def __init__(self, sound: Socket, most: int) -> None:
        self._sound = sound
        self._most: int | None = most

    def send(self, data: Any, flags: int = 0) -> int:
        most, self._most = self._most, None
        if most == 0:
            raise BlockingIOError
        return self._sound.send(memoryview(data)[:most], flags)

    def sendmsg(self, pieces: Sequence[Any], *rest: Any) -> int:
        most, self._most = self._most, None
        return self._sound.sendmsg(pieces if most is None else [b""], *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sound, name)


@clause("QB-SOCK-1", "QB-SOCK-8")
@pytest.mark.parametrize("listen", MEDIA, ids=["unix", "tcp", "tls"])
@pytest.mark.parametrize("most", [0, 1, 500])
@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_the_driver_writes_the_rest_after_a_partial_socket_write(
    listen: str | None, most: int, several: bool
) -> None:
    """The sender makes no further call, and the peer sends nothing."""
    tls = {"tls": identity("localhost")} if listen and "tls" in listen else {}
    message = bytes(range(250)) * 4
    with ends(listen, tls, tls) as (local, remote):
        ours = local._socket_connection.link
        ours.socket = Stingy(ours.socket, most)  # type: ignore[assignment]
        if several:
            local.send_many([message, message])
            assert remote.receive(timeout=LATE_S) == message
        else:
            local.send(message)
        assert remote.receive(timeout=LATE_S) == message
        until(lambda: not ours.read_owner.blocked, "the driver has no more to write")


@clause("QB-SOCK-9")
def test_the_handshake_timer_does_not_expire_a_peer_that_has_sent_its_port() -> None:
    """The handshake timer is only for peers that have sent no port."""
    with brokers(host={"options": SocketOptions(handshake_s=60.0)}) as (host, guest):
        assert host.address is not None
        inner = host._listener
        assert inner is not None
        with Threads() as threads:
            connecting = threads.start(
                lambda: guest.connect(str(host.address), PORT, required=True)
            )
            until(lambda: bool(inner.waiting), "it waits to be accepted")
            (incoming_connect,) = inner.waiting

            incoming_connect.expire_unknown()

            local = host.accept(PORT, timeout=LATE_S)
            remote = connecting.result()
        incoming_connect.expire_unknown()  # nor does it matter after the accept
        with local, remote:
            remote.send(b"alive")
            assert local.receive(timeout=LATE_S) == b"alive"


@clause("QB-SOCK-9")
def test_descriptors_that_come_after_a_disconnect_are_closed() -> None:
    """No call can receive the message, so it is dropped with its descriptors."""
    options = {"options": SocketOptions(descriptors_max=1)}
    with ends(None, options, options) as (local, _):
        connection = local._socket_connection
        local.disconnect()
        fd = os.open(os.devnull, os.O_RDONLY)
        with connection.lock:
            connection.link._incoming._fds.append(fd)
            connection.on_event_locked(Messages(1, [b"late"], 1))
            with pytest.raises(OSError):
                os.fstat(fd)


@clause("QB-SOCK-2")
@needs_unix_sockets
def test_a_broker_that_closes_leaves_the_file_of_its_successor() -> None:
    """Its own file was removed, and another broker now listens at the path."""
    with folder() as place:
        file, address = place / "x", f"ipc://{place}/x"
        with SocketQueueBroker("guest") as guest:
            former = SocketQueueBroker("former", listen=address)
            file.unlink()
            with SocketQueueBroker("heir", listen=address) as heir:
                former.close()
                assert _net.has_listener(file)
                for end in meet(heir, guest):
                    end.disconnect()
            assert not file.exists()


@clause("QB-SOCK-4")
@pytest.mark.parametrize("how", ["receive", "several", "iteration"])
def test_a_connection_ends_after_the_last_message_of_a_peer_that_left(
    how: str,
) -> None:
    """This end sends its good-bye even if no call disconnects it."""
    with ends() as (local, remote):
        theirs = remote._socket_connection.link
        remote.send(b"last")
        remote.disconnect()
        until(
            lambda: local._socket_connection.closed[1 - local._socket_connection.side],
            "the good-bye has come",
        )
        assert not theirs.closed
        if how == "receive":
            assert local.receive() == b"last"
        elif how == "several":
            assert local.receive_many(9, timeout=0) == [b"last"]
        else:
            with suppress(StopIteration):
                assert next(iter(local)) == b"last"
        until(lambda: theirs.closed, "it is let go", limit_s=LIMIT_S)
