"""Fixtures: the frames on links, a bus for a hostile process, and two machines."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from bus import Role
from bus.features.memory.link_memory import LinkMemory
from bus.kernel import fast_path
from bus.kernel.hooks import Bodies
from bus.kernel.wire import decode, encode_single, pieces
from queuebroker._net import unused_port
from tests.features.memory.memory_ends import Owner, Recipient
from tests.kit.buses import socket_bus
from tests.kit.constants import configured, set_constants
from tests.kit.site import THERE, Site
from tests.kit.tasks import echo
from tests.process import real  # noqa: F401 # starts its server before any test
from tests.process.hostile import is_known, served
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus, BusConfig
    from bus.kernel.wire import Frame


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[Frame]:
    """Return the list of all frames that are put on links from now on."""
    seen: list[Frame] = []

    def tapped(_: Bodies, __: int, frame: Frame) -> tuple[bytes, ...]:
        seen.append(frame)
        return pieces(frame)

    def tapped_alone(*fields: Any) -> bytes:
        data = encode_single(*fields)
        frame = decode(data)
        assert frame is not None
        seen.append(frame)
        return data

    for each in (Bodies, LinkMemory):
        monkeypatch.setattr(each, "pieces", tapped)
    monkeypatch.setattr(fast_path, "encode_single", tapped_alone)
    return seen


@pytest.fixture
def owner() -> Owner:
    """Return an owner of shared memory with one recipient; see `memory_ends`."""
    made = Owner()
    made.link(1, Recipient())
    return made


@pytest.fixture
def place(own_run_directory: Path) -> Path:
    """Return the run directory of the bus."""
    return own_run_directory / "bus1"


@pytest.fixture
def site(tmp_path: Path, own_run_directory: Path) -> Iterator[Site]:
    """Yield two machines with keys of one authority."""
    yield Site(tmp_path)
    shutil.rmtree(f"{own_run_directory}-{THERE}", ignore_errors=True)


@pytest.fixture
def port() -> int:
    """Return a UDP port for the announcements of machines, free at present."""
    return unused_port(datagrams=True)


@pytest.fixture
def values() -> dict[str, Any]:
    """Return the settings and constants of the master; a test may override them."""
    return {}


@pytest.fixture
def config(values: dict[str, Any]) -> BusConfig:
    """Return the configuration of the master; a test may override it."""
    return configured(**values)


@pytest.fixture(autouse=True)
def patient(own_run_directory: Path) -> None:  # it restores them
    """Let no link be closed that is unused while the machine is slow."""
    set_constants(LINK_LINGER_S=10 * LIMIT_S)


@pytest.fixture
def near(config: BusConfig) -> Iterator[Bus]:
    """Yield the master of a bus."""
    with socket_bus("near", role=Role.MASTER, config=config) as bus:
        yield bus


@pytest.fixture
def other(near: Bus) -> Iterator[Bus]:
    """Yield a slave, with a task ``far``; the master has ``echo``.

    At the end no trace of a peer is left.
    """
    near.register("echo", on_command=echo)
    with socket_bus("other", role=Role.SLAVE) as bus:
        bus.register("far", on_command=echo)
        served(near, bus)
        yield bus
        served(near, bus)
        until(lambda: not is_known(near), "the hostile one is forgotten")
