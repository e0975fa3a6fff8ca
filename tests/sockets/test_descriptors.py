"""QB-SOCK-9: descriptors travel with messages, and none is ever left open."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, SendTimeoutError
from queuebroker.sockets import SocketMessageQueue, SocketOptions, frames
from queuebroker.sockets.frames import Hello
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.sockets.support import PORT, brokers, ends
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

THREE = {"options": SocketOptions(descriptors_max=3)}

pytestmark = needs_unix_sockets


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Yield both ends of a pipe."""
    made = os.pipe()
    yield made
    for fd in made:
        os.close(fd)


@clause("QB-SOCK-9")
def test_descriptors_arrive_with_their_message(pipe: tuple[int, int]) -> None:
    """In order, among messages without any; they are closed on exec."""
    with ends(host=THREE, guest=THREE) as (local, remote):
        local.send(b"before")
        local.send(b"with", fds=pipe)
        local.send_many([b"after", b"all"])

        assert remote.receive_fds() == (b"before", ())
        message, (reading, writing) = remote.receive_fds()
        assert message == b"with"
        assert not os.get_inheritable(reading)
        os.write(writing, b"through")
        assert os.read(pipe[0], 7) == b"through"
        os.close(reading)
        os.close(writing)
        assert [remote.receive(), remote.receive()] == [b"after", b"all"]


@clause("QB-SOCK-9")
def test_a_descriptor_may_be_closed_once_it_was_sent(pipe: tuple[int, int]) -> None:
    """Even if the message still waits for the socket."""
    with ends(host=THREE, guest=THREE) as (local, remote):
        local.send(bytes(4 << 20))
        mine = os.dup(pipe[1])
        local.send(b"with", fds=[mine])
        os.close(mine)

        remote.receive()
        _, (writing,) = remote.receive_fds()
        os.write(writing, b"x")
        assert os.read(pipe[0], 1) == b"x"
        os.close(writing)


@clause("QB-SOCK-9")
@pytest.mark.parametrize("way", ["receive", "many", "into", "unread", "left", "full"])
def test_descriptors_that_no_receiver_takes_are_closed(
    pipe: tuple[int, int], way: str
) -> None:
    """However their message ends; the leak check of each test verifies it."""
    with ends(host={**THREE, "capacity": 1}, guest=THREE) as (local, remote):
        if way == "left":
            remote.disconnect()
            until(lambda: local.closed, "it left")
            with pytest.raises(DisconnectedQueueError):
                local.send(b"m", fds=pipe)
            return
        local.send(b"with", fds=pipe)
        assert local.ping(LIMIT_S)
        if way == "full":
            with pytest.raises(SendTimeoutError):
                local.send(b"with", fds=pipe, timeout=0)
        elif way == "receive":
            assert remote.receive() == b"with"
            assert type(remote.receive) is not None
        elif way == "many":
            assert remote.receive_many() == [b"with"]
        elif way == "into":
            assert remote.receive_into(bytearray(10)) == 4


@clause("QB-SOCK-9")
def test_more_than_both_allow_is_refused(pipe: tuple[int, int]) -> None:
    """TCP allows none; a wrong one raises an error and leaves nothing open."""
    with ends(host=THREE) as (local, _), pytest.raises(ValueError, match="takes 0"):
        local.send(b"m", fds=pipe)
    by_tcp = ends("tcp://127.0.0.1:0", THREE, THREE)
    with by_tcp as (local, _), pytest.raises(ValueError, match="takes 0"):
        local.send(b"m", fds=pipe)
    with ends(host=THREE, guest=THREE) as (local, remote):
        with pytest.raises(ValueError, match="takes 3"):
            local.send(b"m", fds=pipe * 2)
        with pytest.raises(OSError, match="Bad file"):
            local.send(b"m", fds=[pipe[0], 10**6])
        local.send(b"m")
        assert remote.receive_fds() == (b"m", ())


@clause("QB-SOCK-5", "QB-SOCK-9")
def test_descriptors_that_were_promised_and_did_not_come(pipe: tuple[int, int]) -> None:
    """It is a violation; the descriptors that came are closed."""
    with brokers(host=THREE) as (host, _), socket.socket(socket.AF_UNIX) as peer:
        assert host.address is not None
        peer.connect(host.address.removeprefix("ipc://"))
        with Threads() as threads:
            accepting = threads.start(host.accept, PORT)
            peer.sendall(frames.encode(Hello("liar", PORT, 100, descriptors=3)))
            local = accepting.result()
        socket.send_fds(peer, [frames.encode_message(1, b"two", 2)], [pipe[0]])

        with pytest.raises(DisconnectedQueueError, match="fewer arrived"):
            local.receive()

        assert isinstance(local, SocketMessageQueue)
        local.disconnect()
