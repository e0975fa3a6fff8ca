"""BUS-SEC-1: a process of another user on the bus, within the system's permissions."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus import AccessList, BusConfig, Grant, Role
from specs.clauses import clause
from tests.kit.buses import socket_bus
from tests.kit.systems import needs_root
from tests.kit.tasks import echo
from tests.processes import start
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import Bus

pytestmark = needs_root

GUEST, GROUP = 4321, 4322

_PROGRAM = f"""
    import os, sys, tempfile
    from bus import AccessList, BusConfig, BusError, Role, open_bus
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        # What is to be imported is, while it can be read.
        config = BusConfig(run_directory=folder)
        with open_bus("rehearsal", config=config) as rehearsal:
            rehearsal.register("a", on_command=lambda message: message.payload)
            rehearsal.call("a", 1)
            rehearsal.listen("a", timeout=1)
            rehearsal.wait_for("a", timeout=1)
    os.setgroups([])
    os.setgid({GROUP})
    os.setuid({GUEST})

    def attempt(act):
        try:
            print(act(), flush=True)
        except BusError as error:
            print(type(error).__name__, error, flush=True)

    access = AccessList(uids=[0], gids=[{GROUP}])
    config = BusConfig(run_directory=sys.argv[1], access=access)
    attempt(lambda: open_bus("bus1", role=Role.MASTER, config=config))
    with open_bus("bus1", process="guest", machine="machine", config=config) as bus:
        own = bus.register("guest/a", on_command=lambda m: m.payload)
        attempt(lambda: own.address.module)
        attempt(lambda: bus.register("f"))
        attempt(lambda: bus.call("open/b", 1, timeout=30))
        attempt(lambda: bus.call("g", 1, timeout=30))
        news = bus.listen("news", timeout=30)
        attempt(lambda: bus.wait_for("news", timeout=30).module)
        attempt(lambda: bus.call("open/notify", timeout=30))
        attempt(lambda: next(iter(news)).payload)
        attempt(lambda: "ready")
        sys.stdin.readline()
"""


@pytest.fixture
def config() -> Iterator[BusConfig]:
    """Yield a configuration with a reachable run directory and an access list."""
    with tempfile.TemporaryDirectory(prefix="qb-") as folder:
        Path(folder).chmod(0o711)
        grant = Grant(
            gids=[GROUP], register="guest/*", command="open/*", subscribe="news"
        )
        access = AccessList(grants=[grant])
        yield BusConfig(run_directory=f"{folder}/run", access=access)


def hosts(bus: Bus) -> None:
    """Register the tasks that the guest uses."""
    news = bus.register("news")
    bus.register("open/b", on_command=echo)
    bus.register("g", on_command=echo)
    bus.register("open/notify", on_command=lambda _: news.notify(7))


@pytest.mark.deep
@clause("BUS-SEC-1", "BUS-SEC-2", "BUS-SEC-3", "BUS-SEC-4", "OPEN-3")
@pytest.mark.parametrize("at", ["the master", "a slave"])
def test_a_guest_of_another_user_acts_within_its_grants(
    config: BusConfig, at: str
) -> None:
    """Processes that it never contacted reach it as well: it has a socket there."""
    assert config.run_directory is not None
    with (
        socket_bus("host", role=Role.MASTER, config=config) as host,
        socket_bus("other", role=Role.SLAVE, config=config) as other,
    ):
        hosts(host if at == "the master" else other)
        with start(_PROGRAM, config.run_directory) as guest:
            assert guest.stdout is not None
            assert guest.stdin is not None
            said = []
            for line in guest.stdout:
                said.append(line.strip())
                if said[-1] == "ready":
                    break
            denied = "access is denied: the access list does not grant it"
            assert said[:1] == [each for each in said[:1] if "can be master" in each]
            assert said[1:] == [
                "guest/a",
                f"AccessDeniedError cannot register 'f': {denied}",
                "1",
                f"AccessDeniedError cannot command 'g': {denied}",
                "news",
                "None",
                "7",
                "ready",
            ], guest.stderr and guest.stderr.read()
            assert other.call("guest/a", 5, timeout=LIMIT_S) == 5
            assert host.call("guest/a", 6, timeout=LIMIT_S) == 6
            guests = Path(config.run_directory, "bus1", "guests")
            assert [each.stat().st_uid for each in guests.iterdir()] == [GUEST]
            guest.communicate("\n", timeout=LIMIT_S)
            assert guest.returncode == 0
        assert list(guests.iterdir()) == []
