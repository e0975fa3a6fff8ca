"""OPEN-3: processes that register one name at the same time, in every order of events.

A registration returns a task once the process no longer waits for a verdict on it. From
then on, the task must keep its name.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bus.kernel.wire import Ack, decode
from specs.clauses import clause
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulate.network import Wire
    from tests.simulate.task import SimTask

STEP_S = 0.002  # longer than the delay of a flush
WAIT_S = 0.06  # shorter than any delay between two dials


class Race:
    """Processes of one machine that register a name; a test chooses each next event.

    An event is one of ``acts``, or the arrival of the next frames on a link, which were
    flushed together. Acknowledgements arrive by themselves, since no verdict depends on
    them.

    acts: the remaining events besides, by name, in any order.
    tasks: the tasks that were registered, by process.
    """

    def __init__(self, slaves: int, *processes: str, seed: int = 1) -> None:
        self.stage = Stage(slaves=slaves, seed=seed)
        self.acts: dict[str, Callable[[], object]] = {
            f"{each} registers": partial(self._register, each) for each in processes
        }
        self.tasks: dict[str, SimTask] = {}
        self._returned: set[SimTask] = set()
        # By link and end: the frames on it, by flush, and the time of the last flush.
        self._in_flight: dict[tuple[Wire, int], deque[list[bytes | None]]] = {}
        self._flushed_at: dict[tuple[Wire, int], float] = {}
        network = self.stage.world.network
        self._slow, network.slow = network.slow, 0.0
        self._arrive = network._arrive
        network._arrive = self._hold  # type: ignore[method-assign]

    def _register(self, process: str) -> None:
        task = self.stage.process(process).register("f")
        if task is not None:
            self.tasks[process] = task

    def cut(self) -> None:
        """Cut the link of the first slave; from now on time passes."""
        self.stage.cut("s1", "s2")
        self._release()

    def replace_master(self) -> None:
        """Let the master die, and the first slave take its place; time passes."""
        self.stage.process("s1").die()
        self.stage.world.promote(self.stage.process("s2"))
        self._release()

    def _release(self, waits: int = 5) -> None:
        """Let frames arrive by themselves, as the seed has it."""
        network = self.stage.world.network
        network._arrive = self._arrive  # type: ignore[method-assign]
        network.slow = self._slow
        for way, flushes in self._in_flight.items():
            while flushes:
                self._deliver(*way)
        self._let_wait(waits)

    def _let_wait(self, times: int) -> None:
        """Let the test choose between the other acts and some time without any."""

        def wait() -> None:
            self.stage.soon(WAIT_S)
            self._let_wait(times - 1)

        if times and self.acts:
            self.acts["wait"] = wait

    def _hold(self, wire: Wire, end: int, data: bytes | None) -> None:
        if data is not None and isinstance(decode(data), Ack):
            self._arrive(wire, end, data)
            return
        way, now = (wire, end), self.stage.world.now
        flushes = self._in_flight.setdefault(way, deque())
        if self._flushed_at.get(way) != now:
            flushes.append([])
        flushes[-1].append(data)
        self._flushed_at[way] = now

    def choices(self) -> list[Callable[[], object]]:
        """Return the events that may come next."""
        arrivals = [
            partial(self._deliver, *way)
            for way, flushes in self._in_flight.items()
            if flushes and not way[0].cut
        ]
        return [*(partial(self._act, each) for each in self.acts), *arrivals]

    def _act(self, name: str) -> None:
        self.acts.pop(name)()

    def _deliver(self, wire: Wire, end: int) -> None:
        for data in self._in_flight[wire, end].popleft():
            self._arrive(wire, end, data)

    def do(self, event: Callable[[], object]) -> None:
        """Let one event happen, and check that no task has lost its name to another."""
        event()
        self.stage.soon(STEP_S)
        self.check()

    def check(self) -> None:
        """Check that a task that a registration returned has kept its name."""
        for task in self.tasks.values():
            if task.here and not task.process.manager.awaits_verdict(task.entry):
                self._returned.add(task)
        assert all(task.here for task in self._returned)
        assert len(self._returned) <= 1

    def finish(self, seconds: float = 0.1) -> None:
        """Run all other events as the seed has it, and check that one task is left."""
        self._release(waits=0)
        for _ in range(round(seconds / 0.1)):
            self.do(lambda: self.stage.soon(0.1))
        [returned] = self._returned
        assert [each for each in self.tasks.values() if each.here] == [returned]


def every_order(make: Callable[[], Race]) -> Iterator[Race]:
    """Yield a race after each order of its events; all orders, one after another."""
    path: list[int] = []
    while True:
        race, widths = make(), list[int]()
        while choices := race.choices():
            if len(path) == len(widths):
                path.append(0)
            race.do(choices[path[len(widths)]])
            widths.append(len(choices))
        yield race
        while path and path[-1] + 1 == widths[len(path) - 1]:
            path.pop()
        if not path:
            return
        path[-1] += 1


@pytest.mark.deep
@clause("OPEN-3", "BUS-MOVE-7")
@pytest.mark.parametrize(
    ("processes", "at_least"),
    [(("s1", "s2"), 4), (("s2", "s3"), 20), (("s1", "s2", "s3"), 140)],
)
def test_one_of_several_registrations_returns_a_task(
    processes: tuple[str, ...], at_least: int
) -> None:
    """Among them the master, ``s1``, which decides on its own name at once."""
    count = 0
    for race in every_order(lambda: Race(2, *processes)):
        race.finish()
        count += 1
    assert count >= at_least


@pytest.mark.deep
@clause("OPEN-3")
@pytest.mark.parametrize("processes", [("s1", "s2"), ("s2", "s3")], ids="-".join)
def test_one_registration_returns_a_task_if_a_link_is_lost_meanwhile(
    processes: tuple[str, ...],
) -> None:
    def make() -> Race:
        race = Race(2, *processes)
        race.acts["cut"] = race.cut
        return race

    for race in every_order(make):
        race.finish(1.0)


@pytest.mark.deep
@clause("OPEN-3", "OPEN-1")
@pytest.mark.parametrize("processes", [("s2", "s3"), ("s3", "s4")], ids="-".join)
def test_one_registration_returns_a_task_if_the_master_is_replaced_meanwhile(
    processes: tuple[str, ...],
) -> None:
    """The new master is ``s2``; the others join it at different times."""

    def make() -> Race:
        race = Race(3, *processes)
        race.acts["replace the master"] = race.replace_master
        return race

    for race in every_order(make):
        race.finish(3.0)
