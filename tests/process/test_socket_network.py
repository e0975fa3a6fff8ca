"""The addresses that a process dials, and those at which it listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus import BusConfig, Network, Role
from bus.features.machines.authority import Authority
from bus.features.machines.machine_discovery import OtherMachines
from bus.process.socket_network import SocketNetwork
from specs.clauses import clause

if TYPE_CHECKING:
    from pathlib import Path


def network(**given: object) -> SocketNetwork:
    """Return the network of a process of machine ``here``."""
    config = BusConfig()
    outside = OtherMachines("bus1", config, Network(**given))  # type: ignore[arg-type]
    made = SocketNetwork("bus1", Role.AUTO, config, outside)
    made._machine = "here"
    return made


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return the keys of machine ``here``."""
    return Authority.create(tmp_path / "authority").issue("here", tmp_path / "here")


@clause("BUS-SEC-9")
@pytest.mark.parametrize("scheme", ["tcp", "tls", "udp"])
def test_an_address_of_this_machine_is_a_unix_socket(scheme: str) -> None:
    """No process of this machine makes another dial any other place."""
    assert network().addresses_to_dial("here", ["ipc:///run/bus1/Master"])
    assert not network().addresses_to_dial("here", [f"{scheme}://127.0.0.1:7400"])


@clause("BUS-DISC-1")
def test_without_a_network_no_address_of_another_machine_is_dialled() -> None:
    alone = SocketNetwork("bus1", Role.AUTO, BusConfig())

    assert not alone.addresses_to_dial("there", ["tcp://127.0.0.1:7400"])


@clause("BUS-SEC-5")
def test_an_address_of_another_machine_is_no_unix_socket_and_is_secured(
    keys: Path,
) -> None:
    secured = network(keys=keys)

    assert secured.addresses_to_dial("there", ["tls://192.0.2.1:7400"])
    for address in ("ipc:///run/x", "tcp://127.0.0.1:1", "tls://a/b:1", "tls://:1", ""):
        assert not secured.addresses_to_dial("there", [address])


@clause("BUS-SEC-5")
def test_without_keys_other_machines_are_on_the_loopback_interface() -> None:
    plain = network()

    assert plain.addresses_to_dial("there", ["tcp://127.0.0.1:7400"])
    assert plain.addresses_to_dial("there", ["tcp://[::1]:7400"])
    for address in ("tcp://192.0.2.1:7400", "tls://127.0.0.1:7400", "ipc:///run/x"):
        assert not plain.addresses_to_dial("there", [address])
