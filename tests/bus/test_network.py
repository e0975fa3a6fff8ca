"""`Network`: which addresses it takes, and the file it may come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import DiscoveryScope, Network
from specs.clauses import clause

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("192.0.2.1", "tls://192.0.2.1:7400"),
        ("localhost", "tls://localhost:7400"),
        ("192.0.2.1:9", "tls://192.0.2.1:9"),
        ("2001:db8::1", "tls://[2001:db8::1]:7400"),
        ("[2001:db8::1]:9", "tls://[2001:db8::1]:9"),
        ("[2001:db8::1]", "tls://[2001:db8::1]:7400"),
    ],
)
def test_an_address_is_a_host_and_perhaps_a_port(given: str, address: str) -> None:
    network = Network(peers=[given], listen=given, keys="keys")

    assert network.peer_addresses == (address,)
    assert network.listen_address == address
    assert network.end_process_addresses == (f"{address.rpartition(':')[0]}:0",)


@clause("OPEN-15")
def test_ports_are_those_of_the_other_processes_in_order() -> None:
    network = Network(listen="127.0.0.1:7400", ports=[7401, 7403])

    assert network.end_process_addresses == tuple(
        f"tcp://127.0.0.1:{port}" for port in (7401, 7402, 7403)
    )


def test_a_peer_may_be_a_host_name() -> None:
    network = Network(peers=["cellar.example"], keys="keys")

    assert network.peer_addresses == ("tls://cellar.example:7400",)


def test_without_keys_the_loopback_interface_is_plain() -> None:
    network = Network(peers=["localhost", "::1"], listen="127.0.0.1:0")

    assert network.peer_addresses == ("tcp://localhost:7400", "tcp://[::1]:7400")
    assert network.listen_address == "tcp://127.0.0.1:0"


def test_a_machine_that_only_dials_listens_nowhere() -> None:
    network = Network(peers=["127.0.0.1"])

    assert (network.listen_address, network.end_process_addresses) == (None, ())


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"peers": "10.0.0.1"}, TypeError, "peers must be a sequence of addresses"),
        ({"peers": {"10.0.0.1": 1}}, TypeError, "peers must be a sequence"),
        ({"peers": [1]}, TypeError, "a peer must be a str, got int"),
        ({"peers": [""]}, ValueError, "a peer must be host or host:port, got ''"),
        ({"peers": ["a:b"]}, ValueError, "got 'a:b'"),
        ({"peers": ["a:65536"]}, ValueError, "got 'a:65536'"),
        ({"peers": ["tls://a"]}, ValueError, "got 'tls://a'"),
        ({"peers": ["[::1"]}, ValueError, "a peer must be host or host:port"),
        ({"peers": ["[::1]74"]}, ValueError, "a peer must be host or host:port"),
        ({"peers": ["a..b"], "keys": "k"}, ValueError, "host name"),
        ({"listen": "0.0.0.0", "keys": "k"}, ValueError, "that other machines reach"),
        ({"listen": "[::]:1", "keys": "k"}, ValueError, "that other machines reach"),
        ({"listen": "::0", "keys": "k"}, ValueError, "that other machines reach"),
        ({"listen": "here.example", "keys": "k"}, ValueError, "must be an IP address"),
        ({"listen": "fe80::1%eth0", "keys": "k"}, ValueError, "must be an IP address"),
        ({"listen": "10.0.0.1"}, ValueError, "listen without keys must be on the loop"),
        ({"peers": ["10.0.0.1"]}, ValueError, "'bus keys init' and 'bus keys issue'"),
        ({"ports": "74"}, TypeError, "ports must be the first and the last port"),
        ({"ports": [7401]}, TypeError, "ports must be the first and the last port"),
        ({"ports": [7402, 7401]}, ValueError, "ports must be a range in 1..65535"),
        ({"ports": [0, 7401]}, ValueError, "ports must be a range in 1..65535"),
        ({"ports": [7401, 65536]}, ValueError, "ports must be a range in 1..65535"),
        ({"ports": [7401, "7402"]}, TypeError, "port must be an int"),
        ({"gateway": 1}, TypeError, "gateway must be a bool, got 1"),
        ({"gateway": True, "listen": "[::1]:0"}, ValueError, "port other than 0"),
        ({"discovery": "near"}, ValueError, "one of off, host, lan, wan, got 'near'"),
        ({"discovery": "host"}, ValueError, "discovery 'host' needs listen"),
        (
            {"discovery": "host", "listen": "192.0.2.1", "keys": "k"},
            ValueError,
            "an IPv4 address of the loopback interface for discovery 'host', got '192",
        ),
        (
            {"discovery": "host", "listen": "::1"},
            ValueError,
            "listen must be an IPv4 address of the loopback interface",
        ),
        (
            {"discovery": "lan", "listen": "127.0.0.1"},
            ValueError,
            "an address of an interface to other machines for discovery 'lan', got",
        ),
        (
            {"discovery": "host", "listen": "127.0.0.1", "discovery_port": 0},
            ValueError,
            "discovery_port must be in 1..65535, got 0",
        ),
        (
            {"discovery": "host", "listen": "127.0.0.1", "discovery_port": "74"},
            TypeError,
            "port must be an int",
        ),
        (
            {"advertise": "198.51.100.1", "keys": "k"},
            ValueError,
            "advertise must be an IP address that other machines reach, and needs",
        ),
        (
            {
                "discovery": "wan",
                "listen": "192.0.2.1",
                "keys": "k",
                "advertise": "here.example",
            },
            ValueError,
            "advertise must be an IP address",
        ),
    ],
)
def test_a_wrong_address_is_named(
    given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Network(**given)


def test_a_file_has_the_same_settings(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        'peers = ["192.0.2.7"]\nlisten = "192.0.2.1:9"\nkeys = "my.keys"\n'
        "ports = [7401, 7420]\ngateway = true\n"
        'discovery = "lan"\ndiscovery_port = 74\nadvertise = "198.51.100.1"\n'
    )

    network = Network.read(file)

    keys = tmp_path / "my.keys"
    assert network == Network(
        peers=["192.0.2.7"],
        listen="192.0.2.1:9",
        keys=keys,
        ports=(7401, 7420),
        gateway=True,
        discovery=DiscoveryScope.LAN,
        discovery_port=74,
        advertise="198.51.100.1",
    )


@clause("OPEN-19")
def test_an_advertised_address_has_the_port_of_the_listener_by_default() -> None:
    given: dict[str, Any] = {"listen": "192.0.2.1:75", "keys": "k", "discovery": "lan"}
    for advertise, port in (("198.51.100.1", 75), ("198.51.100.1:76", 76)):
        address = Network(**given, advertise=advertise).advertised_address(75)
        assert str(address) == f"tls://198.51.100.1:{port}"
    assert Network(**given).advertised_address(75) is None
    for wrong in ("0.0.0.0", "127.0.0.1", "198.51.100.1:0", "239.0.0.1"):
        with pytest.raises(ValueError, match="advertise must be an IP address"):
            Network(**given, advertise=wrong)


@clause("BUS-DISC-1")
def test_discovery_is_off_unless_a_scope_is_given() -> None:
    assert Network(listen="127.0.0.1").discovery is DiscoveryScope.OFF
    network = Network(listen="localhost", discovery="host")
    assert network.discovery is DiscoveryScope.HOST
    assert network.has_links


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("peers =", "network.toml: "),
        ("port = 1", "network.toml: no setting is named 'port'"),
        ('listen = "x:y"', "network.toml: listen must be host or host:port"),
        ("# \udcff", "network.toml: 'utf-8' codec"),
        ('peers = "x"', "network.toml: peers must be a sequence"),
        ("keys = 1", "network.toml: keys must be a str, got int"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "network.toml"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")

    with pytest.raises((TypeError, ValueError), match=words):
        Network.read(file)
