"""An interrupted send keeps no room at its receiver."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import bus
from bus import BusFullError
from bus.process.thread_manager import ThreadManager
from specs.clauses import clause
from tests.bus.support import POLICIES
from tests.kit.station import Station, run_due
from tests.process.tasks.reading import named, several
from tests.strikes import everywhere

if TYPE_CHECKING:
    from bus import Overflow
    from tests.strikes import Blow

CAPACITY = 3


@clause("BUS-FLOW-1", "BUS-FLOW-7")
@pytest.mark.parametrize("unread", range(CAPACITY + 1))
@pytest.mark.parametrize(
    "overflow", [each for each in POLICIES if each != "disconnect"]
)
@pytest.mark.parametrize("way", ["in its thread", "from another thread", "from a link"])
def test_an_interrupted_send_leaves_no_room_taken(
    way: str, overflow: Overflow, unread: int
) -> None:
    """Wherever the interrupt comes, in a task with room and in a full one."""

    def case(interrupted: Blow) -> None:
        station = Station()
        station.home.adopt()
        host = station.home if way == "in its thread" else ThreadManager("other")
        clerk, entry = station.register("c", host, capacity=CAPACITY, overflow=overflow)
        for _ in range(unread):
            station.send("c", "before")

        def send() -> None:
            if way != "from a link":
                with suppress(BusFullError):
                    station.router.send(station.message("c", "this"), at_once=True)
                return
            run = several(station, entry, *named(2))
            host.inbox.offer_inbound_run(run, clerk.account, host)

        interrupted(send)

        host.adopt()
        run_due(host)
        account = clerk.account
        assert (account.unread, account.unread_bytes) == (0, 0)
        assert account.accepted == len(clerk.read) + account.dropped

    everywhere(case, packages=(bus,))


@clause("BUS-FLOW-3")
def test_an_interrupted_send_reports_the_command_that_it_drops_to_its_sender() -> None:
    def case(interrupted: Blow) -> None:
        station = Station()
        host = ThreadManager("other")
        clerk, _ = station.register("c", host, capacity=1, overflow="drop-oldest")
        station.send("c", "before")

        interrupted(lambda: station.send("c", "this"))

        assert len(station.sender.dropped) == clerk.account.dropped

    everywhere(case, packages=(bus,))
