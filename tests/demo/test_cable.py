"""The cable between two machines: it forwards everything, or nothing, in its order."""

from __future__ import annotations

import hashlib
import socket
from contextlib import contextmanager, suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from bus.demo.cable import LOOPBACK, Cable
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from collections.abc import Iterator

SILENCE_S = 0.2
MUCH = 8 << 20  # more than all buffers on the way hold


@contextmanager
def connected() -> Iterator[tuple[Cable, socket.socket, socket.socket]]:
    """Give a cable, and both ends of a connection that it forwards."""
    with Cable() as cable, socket.create_server((LOOPBACK, 0)) as server:
        port = cable.lead_to(server.getsockname()[1])
        near = socket.create_connection((LOOPBACK, port), LIMIT_S)
        server.settimeout(LIMIT_S)
        far, _ = server.accept()
        far.settimeout(LIMIT_S)
        with near, far:
            yield cable, near, far


def read(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = end.recv(size - len(data))
        assert more, f"the connection ended after {len(data)} bytes"
        data += more
    return data


def test_it_forwards_in_both_directions() -> None:
    with connected() as (_, near, far):
        near.sendall(b"question")
        assert read(far, 8) == b"question"
        far.sendall(b"answer")
        assert read(near, 6) == b"answer"


def test_it_forwards_more_than_buffers_hold_both_ways_at_once() -> None:
    data = Random(1).randbytes(MUCH)
    with connected() as (_, near, far), Threads() as threads:
        for end in (near, far):
            threads.start(end.sendall, data)
        got = [threads.start(read, end, MUCH) for end in (far, near)]

        digests = {hashlib.sha256(each.result()).digest() for each in got}

    assert digests == {hashlib.sha256(data).digest()}


def test_while_it_is_cut_nothing_passes_and_afterwards_all_of_it() -> None:
    with connected() as (cable, near, far):
        near.sendall(b"before")
        assert read(far, 6) == b"before"

        cable.cut()
        near.sendall(b"one")
        far.sendall(b"two")
        for end in (near, far):
            end.settimeout(SILENCE_S)
            with pytest.raises(TimeoutError):
                end.recv(1)
            end.settimeout(LIMIT_S)
        cable.heal()

        assert (read(far, 3), read(near, 3)) == (b"one", b"two")


def test_a_connection_that_is_made_while_it_is_cut_works_afterwards() -> None:
    with Cable() as cable, socket.create_server((LOOPBACK, 0)) as server:
        port = cable.lead_to(server.getsockname()[1])
        cable.cut()
        with socket.create_connection((LOOPBACK, port), LIMIT_S) as near:
            near.sendall(b"patience")
            server.settimeout(SILENCE_S)
            with pytest.raises(TimeoutError):
                server.accept()

            cable.heal()

            server.settimeout(LIMIT_S)
            far, _ = server.accept()
            with far:
                assert read(far, 8) == b"patience"


def test_the_end_of_one_direction_leaves_the_other_one() -> None:
    with connected() as (_, near, far):
        near.sendall(b"last")
        near.shutdown(socket.SHUT_WR)
        assert read(far, 4) == b"last"
        assert far.recv(1) == b""

        far.sendall(b"still here")
        assert read(near, 10) == b"still here"
        far.close()
        assert near.recv(1) == b""


def test_a_reset_of_one_side_ends_the_other() -> None:
    with connected() as (_, near, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()

        with suppress(ConnectionError):  # an end in order is as good
            assert near.recv(1) == b""


def test_a_connection_to_a_port_without_a_listener_is_closed() -> None:
    with Cable() as cable, socket.create_server((LOOPBACK, 0)) as server:
        port = cable.lead_to(server.getsockname()[1])
        server.close()

        with socket.create_connection((LOOPBACK, port), LIMIT_S) as near:
            assert near.recv(1) == b""


def test_its_ports_are_closed_with_it() -> None:
    with Cable() as cable:
        port = cable.lead_to(1)

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), LIMIT_S)
