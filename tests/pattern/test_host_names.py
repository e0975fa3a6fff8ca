"""Host names in addresses of ``tcp``, ``tcp4`` and ``tcp6`` (BP-3)."""

from __future__ import annotations

import socket
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
