"""Host names in addresses of ``tcp``, ``tcp4`` and ``tcp6`` (BP-3)."""

from __future__ import annotations

import errno
import socket
from functools import partial
from typing import Any, Final

import pytest

from bus.pattern import BusSocket
from specs.clauses import clause
from tests.pattern.nodes import LIMIT_S
from tests.support import until

LOOPBACK: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
# The order of the resolver: a name with both has an IPv6 address first.
HOSTS: Final = {
    "both.test": [socket.AF_INET6, socket.AF_INET],
    "four.test": [socket.AF_INET],
    "six.test": [socket.AF_INET6],
}
FOUR, SIX = "tcp4://127.0.0.1:0", "tcp6://[::1]:0"


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer for the names above in place of the DNS."""
    ask = socket.getaddrinfo

    def answer(
        host: str, port: int, family: int = 0, *args: Any, **options: Any
    ) -> list[Any]:
        if host not in HOSTS:
            return ask(host, port, family, *args, **options)
        found: list[Any] = []
        for each in HOSTS[host]:
            if family in (socket.AF_UNSPEC, each):
                found += ask(LOOPBACK[each], port, each, *args, **options)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found

    monkeypatch.setattr(socket, "getaddrinfo", answer)


@clause("BP-3")
@pytest.mark.parametrize(
    ("at", "scheme", "host"),
    [
        (FOUR, "tcp4", "both.test"),
        (SIX, "tcp6", "both.test"),
        (SIX, "tcp", "both.test"),  # the first one
        (FOUR, "tcp", "four.test"),
        (FOUR, "tcp4", "four.test"),
        (SIX, "tcp6", "six.test"),
    ],
)
def test_the_scheme_selects_among_the_addresses_of_a_host(
    at: str, scheme: str, host: str
) -> None:
    with BusSocket() as listening, BusSocket() as dialling:
        port = listening.listen(at).url.rpartition(":")[2]
        dialling.dial(f"{scheme}://{host}:{port}")
        assert dialling.wait_for_peers(1, LIMIT_S)
    with BusSocket() as listening, BusSocket() as dialling:
        port = listening.listen(f"{scheme}://{host}:0").url.rpartition(":")[2]
        dialling.dial(f"{at.removesuffix(':0')}:{port}")
        assert dialling.wait_for_peers(1, LIMIT_S)


@clause("BP-3")
@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("tcp6://four.test:0", "cannot find an IPv6 address of 'four.test': Name or"),
        ("tcp4://six.test:0", "cannot find an IPv4 address of 'six.test': Name or"),
    ],
)
def test_a_host_without_such_an_address_is_one_clear_error(
    url: str, wanted: str
) -> None:
    with BusSocket() as node:
        with pytest.raises(OSError, match=f"cannot listen at {url}: {wanted}"):
            node.listen(url)
        dialler = node.dial(url.replace(":0", ":7"))
        until(lambda: dialler.error is not None, "the look-up has failed")
        assert wanted in str(dialler.error)


@clause("BP-3")
@pytest.mark.parametrize(
    ("scheme", "reached"),
    [
        ("tcp", {"tcp://127.0.0.1": True, "tcp://[::1]": True}),
        ("tcp4", {"tcp://127.0.0.1": True, "tcp://[::1]": False}),
        ("tcp6", {"tcp://127.0.0.1": False, "tcp://[::1]": True}),
    ],
)
def test_a_star_stands_for_all_addresses_of_the_versions_that_the_scheme_names(
    scheme: str, reached: dict[str, bool]
) -> None:
    for place, reaches in reached.items():
        with BusSocket() as listening, BusSocket() as dialling:
            port = listening.listen(f"{scheme}://*:0").url.rpartition(":")[2]
            dialler = dialling.dial(f"{place}:{port}")
            if not reaches:
                until(partial(getattr, dialler, "error"), "the dial has failed")
                continue
            assert listening.wait_for_peers(1, LIMIT_S)
            [peer] = listening.stats.peers
            # In the form of its own version of IP, not as a mapped one.
            assert peer.url.startswith(f"{place}:")


@clause("BP-3")
@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_star_stands_for_ipv4_alone_where_ipv6_is_switched_off(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = socket.socket

    def refuse(family: int = -1, *rest: Any, **named: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(code, "no IPv6")
        return make(family, *rest, **named)

    monkeypatch.setattr(socket, "socket", refuse)
    with BusSocket() as listening, BusSocket() as dialling:
        port = listening.listen("tcp://*:0").url.rpartition(":")[2]
        dialling.dial(f"tcp://127.0.0.1:{port}")
        assert dialling.wait_for_peers(1, LIMIT_S)
        with pytest.raises(OSError, match="cannot listen at tcp6://"):
            listening.listen("tcp6://*:0")
