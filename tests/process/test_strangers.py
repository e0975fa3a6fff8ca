"""F3: peers that do not even speak the link protocol."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from bus import Role
from bus.kernel import wire
from bus.process.link_helpers import PORT
from queuebroker.sockets import frames
from queuebroker.sockets.frames import HEAD
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.raw_peer import raw
from tests.process.hostile import HELLO, served
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus


@clause("QB-SOCK-5", "QB-SOCK-9", "BUS-SEC-4")
@pytest.mark.parametrize("which", ["Master", "Slave*"])
@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(64),
        HELLO.replace(frames.MAGIC, b"QUEUEBRX"),
        frames.encode(frames.Hello("x", 1, 100, versions=(9, 9))),
        frames.encode_message(1, wire.encode(wire.Ping(number=1))),
        HEAD.pack(frames.Frame.HELLO, 4 * 2**10 + 1) + bytes(100),
        HEAD.pack(frames.Frame.HELLO, 2**32 - 1),
    ],
    ids=["http", "zeros", "magic", "version", "no hello", "long hello", "4 GiB"],
)
def test_a_peer_that_breaks_the_protocol_is_rejected_and_disconnected(
    near: Bus, other: Bus, place: Path, which: str, said: bytes
) -> None:
    """It learns nothing about the bus."""
    [path] = place.glob(which)
    with raw(path) as peer:
        peer.sendall(said)
        answer = peer.recv(2**16)
        assert answer[0] == frames.Frame.REFUSED
        assert b"near" not in answer
        assert peer.recv(1) == b""
        served(near, other)


@clause("BUS-SEC-9")
@pytest.mark.parametrize("which", ["Master", "Slave*"])
def test_a_peer_that_dials_an_unknown_port_is_rejected_at_once(
    near: Bus, other: Bus, place: Path, which: str
) -> None:
    """Links are made at one port; a peer waiting at another one would never greet."""
    [path] = place.glob(which)
    with raw(path) as peer:
        peer.sendall(frames.encode(frames.Hello("x", PORT + 1, 100)))
        assert peer.recv(2**16)[0] == frames.Frame.REFUSED
        assert peer.recv(1) == b""
        served(near, other)


@clause("QB-SOCK-9")
@pytest.mark.parametrize("values", [{"AUTH_TIMEOUT_S": 0.1}], ids=[""])
@pytest.mark.parametrize("said", [b"", HELLO[:1], HELLO[:-1]], ids=[0, 1, "most"])
def test_a_peer_that_does_not_identify_itself_is_disconnected(
    near: Bus, other: Bus, place: Path, said: bytes
) -> None:
    """When its time is up, however much of the greeting was sent."""
    with raw(place / "Master") as peer:
        peer.sendall(said)
        assert peer.recv(1) == b""


@clause("QB-SOCK-9", "BUS-SEC-9")
@pytest.mark.parametrize(
    "values",
    [{"UNAUTHENTICATED_LINKS": 3, "AUTH_TIMEOUT_S": 2 * LIMIT_S}],
    ids=[""],
)
def test_the_number_of_silent_peers_is_limited(
    near: Bus, other: Bus, place: Path
) -> None:
    """One more ends the oldest at once; processes that joined are not affected."""
    with ExitStack() as stack:
        oldest = stack.enter_context(raw(place / "Master"))
        for _ in range(3):
            stack.enter_context(raw(place / "Master"))
        assert oldest.recv(1) == b""
        served(near, other)


@clause("QB-SOCK-9", "BUS-INIT-3")
@pytest.mark.parametrize(
    "values", [{"UNAUTHENTICATED_LINKS": 8, "AUTH_TIMEOUT_S": 0.3}], ids=[""]
)
def test_a_slave_joins_though_hundreds_say_nothing(
    near: Bus, other: Bus, place: Path
) -> None:
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(raw(place / "Master"))
        late = stack.enter_context(socket_bus("late", role=Role.SLAVE))
        assert late.call("echo", 3, timeout=LIMIT_S) == 3


@clause("QB-SOCK-9")
def test_unwanted_descriptors_are_closed(near: Bus, other: Bus, place: Path) -> None:
    """The kernel drops descriptors that a dialling process sends with its data."""
    reading, writing = os.pipe()
    with raw(place / "Master") as peer:
        socket.send_fds(peer, [HELLO], [writing])
        os.close(writing)
        # No other descriptor is open, so this is the end of the pipe.
        assert os.read(reading, 1) == b""
    os.close(reading)
