"""A bus for each test that asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus import Role
from bus.testing import memory_bus
from tests.bus.support import There
from tests.kit.buses import socket_bus
from tests.kit.constants import set_constants
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[Bus]:
    """Yield a bus for this test alone; over sockets if its distance requires it."""
    call = getattr(request.node, "callspec", None)
    by_sockets = call is not None and call.params.get("distance") == "by sockets"
    with socket_bus() if by_sockets else memory_bus() as bus:
        yield bus


@pytest.fixture
def near() -> Iterator[Bus]:
    """Yield the master of a bus over sockets."""
    with socket_bus("near", role=Role.MASTER) as bus:
        yield bus


@pytest.fixture
def there(bus: Bus, distance: str) -> Iterator[There]:
    """Yield a place at the distance given by the test's parameter."""
    with There(bus, distance) as there:
        yield there


@pytest.fixture(autouse=True)
def patient(own_run_directory: Path) -> None:  # it restores them
    """Let no link be closed that is unused while the machine is slow."""
    set_constants(LINK_LINGER_S=10 * LIMIT_S)
