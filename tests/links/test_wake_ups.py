"""`CommThread` is woken by whoever has something for it, in every schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.core.actions import HangUp
from bus.core.limits import Limits
from bus.core.wire import Identity, Role
from bus.links.comm_thread import CommThread
from bus.links.lines import Lines
from bus.links.sleep import ParkedSleep
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.links.processes import (
    PATIENT,
)
from tests.threads.station import Station

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.message import Incoming
    from queuebroker.testing import Run


class Asleep:
    """A comm thread that does nothing but sleep, and note what woke it."""

    def __init__(self) -> None:
        station = Station()
        self.comm = CommThread(
            station.exchange,
            Identity(
                bus="bus1",
                machine="here",
                machine_id="here",
                process="p1",
                process_id=1,
                incarnation=1,
                role=Role.MASTER,
            ),
            config=PATIENT,
            limits=Limits.of(PATIENT),
            nonce=lambda: 1,
            listens="here/p1",
            master="master of here",
            sleep=ParkedSleep(),
        )

    def until(self, wanted: set[str]) -> None:
        """Sleep until all of that has been seen to be due."""
        comm, seen = self.comm, set[str]()
        while seen != wanted:
            comm._lines.wait(comm._due, None)
            if comm._nudged:
                comm._nudged = False
                seen.add("nudge")
            if comm._outbox:
                comm._outbox.clear()
                seen.add("link")
            if comm._taken:
                comm._taken.clear()
                seen.add("taken")
            if comm._host.take()[1]:
                seen.add("asked")


@clause("BUS-ROUTE-4")
@pytest.mark.parametrize(
    "wakers",
    [("nudge", "asked"), ("link", "asked"), ("taken", "asked"), ("nudge", "link")],
)
def test_no_wake_up_is_lost(wakers: tuple[str, str]) -> None:
    """Whoever wakes it looks, without a lock, whether it sleeps (BUS-ROUTE-4)."""

    def program(run: Run) -> None:
        asleep = Asleep()
        comm = asleep.comm
        ways: dict[str, Callable[[], object]] = {
            "nudge": comm.nudge,
            "link": lambda: comm.do(HangUp(1)),
            "taken": lambda: comm.taken(_Taken()),  # type: ignore[arg-type]
            "asked": lambda: comm._host.ask(list),
        }
        for each in wakers:
            run.spawn(ways[each], name=each)
        asleep.until(set(wakers))

    explore(program, bound=2, limit=1_000, random=100, seed=1)
    inside = [CommThread.nudge, CommThread._wake, CommThread.do, CommThread.taken]
    explore(
        program, bound=2, limit=500, random=100, seed=1, bytecode=[*inside, Lines.wait]
    )


@clause("BUS-RELAY-9", "BUS-ROUTE-4")
def test_what_is_taken_while_it_wakes_soon_anyway_is_not_forgotten() -> None:
    """Nobody wakes it for that; it looks itself, before it sleeps for long."""

    def program(run: Run) -> None:
        comm, seen = Asleep().comm, list[object]()

        def extracted(messages: Iterable[Incoming], now: float) -> None:
            seen.extend(messages)

        comm.remote.extracted = extracted  # type: ignore[method-assign]
        comm._review_at = _sync.monotonic() + 0.005
        run.spawn(lambda: comm.taken(_Taken()), name="takes")  # type: ignore[arg-type]
        while not seen:
            comm._lines.wait(comm._due, comm._deadline())
            comm._round()

    explore(program, bound=2, limit=1_000, random=100, seed=1)
    inside = [CommThread.taken, CommThread._round, CommThread._deadline]
    explore(program, bound=2, limit=1_000, random=100, seed=1, bytecode=inside)


class _Taken:
    """A message from afar, as far as it matters that a task took it."""

    _receipt = object()
    _to = None
