"""A hostile host on the network: refused, counted, survived; others join meanwhile."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

from bus.features.machines.announcement import encode_announcement
from bus.features.machines.machine_keys import MACHINE, TRUSTED, MachineKeys
from specs.clauses import clause
from tests.kit.comm_threads import comm_of
from tests.kit.constants import configured
from tests.kit.discovery import announcement
from tests.kit.site import HERE, THERE, Site
from tests.process.processes import linked
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus

BROADCAST = "127.255.255.255"


@pytest.fixture
def near(site: Site, port: int) -> Iterator[Bus]:
    """Yield the master of a machine that can be found."""
    options: dict[str, Any] = {"peers": [], "discovery": "host", "discovery_port": port}
    config = configured(announce_s=0.1, AUTH_TIMEOUT_S=60.0)
    with site.here(network=site.network(HERE, **options), config=config) as bus:
        bus.register("echo", on_command=lambda message: message.payload)
        yield bus


def joins(site: Site, port: int, near: Bus) -> None:
    """Check that another machine finds this one, and the two talk both ways."""
    network = site.network(THERE, peers=[], discovery="host", discovery_port=port)
    with site.there("far", network=network) as far:
        far("counter('echo')")
        assert near.call(f"ism://{THERE}/echo", 1, timeout=LIMIT_S) == 1
        assert far(f"bus.call('ism://{HERE}/echo', 2, timeout=20)") == 2


def rejected(bus: Bus) -> dict[str, int]:
    """Return the number of ignored datagrams, by reason."""
    network: Any = bus._node.network
    return dict(network._outside._discovery.rejected())


def raw(site: Site) -> socket.socket:
    """Connect to the master, and send nothing yet."""
    return socket.create_connection(("127.0.0.1", site.ports[HERE]), timeout=LIMIT_S)


def is_closed(connection: socket.socket) -> bool:
    """Return True if the other end has closed a connection."""
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.deep
@clause("BUS-SEC-9")
def test_500_silent_connections_keep_no_machine_out(
    site: Site, port: int, near: Bus
) -> None:
    """The oldest silent one is closed at the limit; this host ends up with 64."""
    with ExitStack() as stack:
        silent = [stack.enter_context(raw(site)) for _ in range(500)]
        for each in silent:
            each.setblocking(False)
        until(lambda: comm_of(near).rejected_peers >= 436, "the oldest are closed")
        until(lambda: sum(map(is_closed, silent)) >= 436, "they notice it")
        joins(site, port, near)


@pytest.mark.deep
@clause("BUS-SEC-8", "BUS-SEC-9")
@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(70_000),
        os.urandom(4096),
        struct.pack(">I", 2**31) * 1000,
    ],
    ids=["http", "a long TLS record", "noise", "lengths"],
)
def test_bytes_that_are_no_handshake_end_their_connection(
    site: Site, port: int, near: Bus, data: bytes
) -> None:
    with raw(site) as peer, suppress(ConnectionError):
        peer.sendall(data)
        while peer.recv(4096):
            pass
    until(lambda: comm_of(near).rejected_peers > 0, "it is counted")
    joins(site, port, near)


@clause("BUS-SEC-9")
def test_a_member_that_sends_too_much_before_hello_is_closed(
    site: Site, port: int, near: Bus
) -> None:
    """It has a valid certificate, but no link of the bus yet."""
    keys = site.issue("cellar")
    context = ssl.create_default_context(cafile=str(keys / TRUSTED))
    context.check_hostname = False
    context.load_cert_chain(keys / MACHINE)
    with raw(site) as plain, context.wrap_socket(plain) as peer:
        with suppress(OSError):
            for _ in range(64):
                peer.sendall(struct.pack(">I", 1 << 24) + bytes(4092))
        with suppress(OSError):
            while peer.recv(4096):
                pass
    assert linked(near) == set()
    joins(site, port, near)


@pytest.mark.deep
@clause("BUS-DISC-11", "BUS-SEC-6", "OPEN-19")
def test_a_flood_of_datagrams_keeps_no_machine_out(
    site: Site, port: int, near: Bus
) -> None:
    """Forged, repeated and random ones; the rate of one host is bounded."""
    keys = MachineKeys(site.issue("cellar")).group_keys()
    known = encode_announcement(announcement("cellar"), keys)
    forged = encode_announcement(announcement("attic"), [bytes(32)])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.1", 0))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for _ in range(2000):
            for data in (known, forged, os.urandom(200)):
                with suppress(BlockingIOError):
                    sender.sendto(data, (BROADCAST, port))
        until(lambda: sum(rejected(near).values()) > 100, "they are counted")
        counted = rejected(near)
        assert set(counted) <= {
            "malformed",
            "not signed with the group key",
            "repeated",
            "beyond the rate that is read",
        }
        assert counted["not signed with the group key"] > 0
        joins(site, port, near)
