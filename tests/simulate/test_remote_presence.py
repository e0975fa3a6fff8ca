"""Watches of tasks whose machine, master or process is lost (BUS-DEREG-2).

Machine m2 hosts one task in each process: its master s1, and its slaves s2 and s3.
Watchers on m1 are in the master s1 and in the slave s2.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from bus.kernel import constants
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulate.task import SimTask

ALL = {"t/s1", "t/s2", "t/s3"}
# The limits for each report: the loss of the link, of the process, and of its tasks.
IN_TIME_S = constants.RELINK_TIMEOUT_S + CONFIG.connect_timeout_s + 0.5
ORDERS = list(permutations(("s1", "s2", "s3")))


def watched_machine(
    *, linked: bool = False, **settings: Any
) -> tuple[Stage, list[SimTask]]:
    """Return two machines, and the watchers on the first of them.

    linked: True if each watcher has sent a command to each task, over a link.
    """
    stage = Stage(machines=2, **settings)
    for name in ("s1", "s2", "s3"):
        stage.task(f"t/{name}", name, "m2")
    watchers = [stage.task(f"w/{name}", name) for name in ("s1", "s2")]
    for each in watchers:
        each.process.watch(each, "ism://m2/t/**")
    stage.soon()
    for each in watchers if linked else ():
        for name in sorted(ALL):
            stage.send(each, f"ism://m2/{name}")
    stage.soon()
    assert seen(watchers) == [ALL, ALL]
    return stage, watchers


def seen(watchers: Iterable[SimTask]) -> list[set[str]]:
    """Return the names that are present for each watcher."""
    return [
        {address.module for address in each.present[watch]}
        for each in watchers
        for watch in each.watches
    ]


def restart(stage: Stage) -> None:
    """Start all processes of m2 again, with their tasks."""
    for name in ("s1", "s2", "s3"):
        stage.world.start("m2", name, master=name == "s1").register(f"t/{name}")


@pytest.mark.deep
@clause("BUS-DEREG-2", "BUS-DEREG-9")
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("gap_s", [0.0, 0.05, 0.8])
@pytest.mark.parametrize("order", ORDERS)
def test_every_watcher_gets_the_departure_of_the_tasks_of_a_dead_machine(
    order: tuple[str, ...], gap_s: float, linked: bool
) -> None:
    """Its processes are killed in any order; later it returns with its tasks."""
    stage, watchers = watched_machine(linked=linked)

    for name in order:
        stage.process(name, "m2").die()
        stage.soon(gap_s)
    stage.soon(IN_TIME_S)
    assert seen(watchers) == [set(), set()]

    restart(stage)
    stage.soon(5.0)
    assert seen(watchers) == [ALL, ALL]


@clause("BUS-DEREG-2", "OPEN-2")
@pytest.mark.parametrize("linked", [False, True])
def test_a_machine_that_was_silent_for_the_lease_has_no_tasks(linked: bool) -> None:
    """Its cable was pulled: no further time is given. Later it is connected again."""
    stage, watchers = watched_machine(linked=linked, keep_alive_s=0.5, lease_s=2.0)
    machine = [stage.process(name, "m2") for name in ("s1", "s2", "s3")]

    for each in machine:
        each.frozen = True
    stage.soon(2.0 + constants.RELINK_TIMEOUT_S + 0.1)
    assert seen(watchers) == [set(), set()]

    for each in machine:
        each.thaw()
    stage.soon(8.0)
    assert seen(watchers) == [ALL, ALL]


@clause("BUS-DEREG-2", "OPEN-2")
def test_tasks_of_a_machine_with_a_killed_master_are_reported_within_the_lease() -> (
    None
):
    """It is shorter here than the time for a link."""
    stage, watchers = watched_machine(keep_alive_s=0.5, lease_s=2.0)
    for name in ("s1", "s2", "s3"):
        stage.process(name, "m2").die()
    stage.soon(2.0 + 0.1)
    assert seen(watchers) == [set(), set()]


@clause("BUS-DEREG-2")
@pytest.mark.parametrize("heir", ["s2", "s3"])
def test_tasks_that_the_next_master_of_their_machine_confirms_never_depart(
    heir: str,
) -> None:
    stage, watchers = watched_machine()
    stage.process("s1", "m2").die()
    stage.soon(0.3)
    assert seen(watchers) == [ALL - {"t/s1"}] * 2
    stage.world.promote(stage.process(heir, "m2"))
    for _ in range(80):
        stage.soon(0.1)
        assert all(ALL - {"t/s1"} <= each for each in seen(watchers))
    assert seen(watchers) == [ALL - {"t/s1"}] * 2


@clause("BUS-DEREG-2")
def test_each_watcher_gets_the_departure_of_a_slave_that_dies_with_its_master() -> None:
    """The next master does not know it, so it announces no departure."""
    stage, watchers = watched_machine()
    for name in ("s1", "s3"):
        stage.process(name, "m2").die()
    stage.soon(0.3)
    stage.world.promote(stage.process("s2", "m2"))
    stage.soon(IN_TIME_S)
    assert seen(watchers) == [{"t/s2"}, {"t/s2"}]


@clause("BUS-DEREG-2", "BUS-ENT-13")
def test_a_linked_process_sees_the_tasks_of_a_machine_without_a_master() -> None:
    """And their departures, which their processes announce on their own links."""
    stage, watchers = watched_machine(linked=True)
    stage.process("s1", "m2").die()
    for _ in range(3):
        stage.soon(CONFIG.connect_timeout_s)
        assert seen(watchers) == [{"t/s2", "t/s3"}] * 2

    leaver = stage.process("s2", "m2")
    leaver.deregister(leaver.tasks["t/s2"])
    stage.soon()
    assert seen(watchers) == [{"t/s3"}] * 2
    stage.process("s3", "m2").die()
    stage.soon(1.0)
    assert seen(watchers) == [set(), set()]


@clause("BUS-DEREG-2", "BUS-ENT-13")
def test_a_slave_that_is_linked_with_a_task_sees_it_though_its_master_does_not() -> (
    None
):
    """Its master announces that the task counts as departed."""
    stage, watchers = watched_machine()
    stage.send(watchers[1], "ism://m2/t/s3")
    stage.soon()
    stage.process("s1", "m2").die()
    stage.soon(3 * CONFIG.connect_timeout_s)
    assert seen(watchers) == [set(), {"t/s3"}]

    stage.process("s3", "m2").die()
    stage.soon(1.0)
    assert seen(watchers) == [set(), set()]


@clause("BUS-DEREG-2")
def test_a_master_that_is_linked_with_a_task_confirms_it_to_its_slaves() -> None:
    """As long as that link lasts: the slave itself has none."""
    stage, watchers = watched_machine()
    stage.send(watchers[0], "ism://m2/t/s3")
    stage.soon()
    stage.process("s1", "m2").die()
    stage.soon(3 * CONFIG.connect_timeout_s)
    assert seen(watchers) == [{"t/s3"}, {"t/s3"}]

    stage.process("s3", "m2").die()
    stage.soon(IN_TIME_S)
    assert seen(watchers) == [set(), set()]


@clause("BUS-DEREG-2", "BUS-DEREG-5")
def test_without_a_master_a_task_is_absent_once_the_link_with_it_is_closed() -> None:
    """No process is left that would announce its departure."""
    stage, watchers = watched_machine(linked=True)
    writer, (other, *_) = watchers[1], watchers
    stage.process("s1", "m2").die()
    stage.soon(IN_TIME_S)
    assert seen([writer]) == [{"t/s2", "t/s3"}]

    late = stage.task("late", "s2")
    late.process.watch(late, "ism://m2/t/**")
    other.process.deregister(other)
    writer.process.deregister(writer)
    stage.soon(1.0 + 2 * IN_TIME_S)
    assert seen([late]) == [set()]


@clause("BUS-DEREG-2", "BUS-RELAY-8")
def test_a_task_learnt_without_a_master_is_absent_once_its_link_is_closed() -> None:
    """Its process has answered a subscription directly."""
    stage = Stage()
    stage.task("n/1", "s3")
    watcher, hearer = stage.task("w", "s2"), stage.task("h", "s2")
    watcher.process.watch(watcher, "n/*")
    hearer.process.subscribe(hearer, "n/*")
    stage.soon()
    stage.process("s1").die()
    stage.soon(1.0)
    stage.task("n/2", "s3")
    stage.soon(2 * IN_TIME_S)
    assert seen([watcher]) == [{"n/1", "n/2"}]

    hearer.process.unsubscribe(hearer)
    stage.soon(1.0 + 2 * IN_TIME_S)
    assert seen([watcher]) == [set()]


@pytest.mark.deep
@clause("BUS-DEREG-2")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ORDERS)
def test_a_slave_gets_the_departure_of_all_other_processes_at_once(
    order: tuple[str, ...], seed: int
) -> None:
    """In order, but the master ends before it can announce the others' departures."""
    stage = Stage(slaves=3, seed=seed)
    for name in order:
        stage.task(f"t/{name}", name)
    watcher = stage.task("w", "s4")
    watcher.process.watch(watcher, "t/**")
    stage.soon()
    assert seen([watcher]) == [ALL]

    def leave(name: str) -> None:
        process = stage.process(name)
        process.deregister(process.tasks[f"t/{name}"], final=True)
        stage.world.at(0.002, process.die)

    for turn, name in enumerate(order):
        stage.world.at(0.001 * turn, partial(leave, name))
    stage.soon(IN_TIME_S)
    assert seen([watcher]) == [set()]


@clause("BUS-DEREG-2")
def test_the_loss_of_one_master_after_another_delays_no_report() -> None:
    stage = Stage(slaves=5)
    for name in ("s2", "s3", "s4", "s5"):
        stage.task(f"t/{name}", name)
    watcher = stage.task("w", "s6")
    watcher.process.watch(watcher, "t/**")
    stage.soon()

    stage.process("s2").die()
    stage.process("s1").die()
    for heir in ("s3", "s4"):
        stage.world.promote(stage.process(heir))
        stage.soon(2.0)
        stage.process(heir).die()
    stage.world.promote(stage.process("s5"))
    stage.soon(IN_TIME_S - 4.0)
    assert seen([watcher]) == [{"t/s5"}]


@clause("BUS-DEREG-2")
def test_a_watcher_gets_departures_when_its_own_machine_has_no_master() -> None:
    """The tasks are of another machine; they are here again with the next master."""
    stage, watchers = watched_machine()
    stage.process("s1").die()
    stage.soon(IN_TIME_S)
    assert seen(watchers[1:]) == [set()]

    stage.world.promote(stage.process("s3"))
    stage.soon(5.0)
    assert seen(watchers[1:]) == [ALL]


@clause("BUS-DEREG-2")
@pytest.mark.parametrize(
    ("specification", "names"),
    [("ism://m2/t/s1", {"t/s1"}), ("ism://m2/u/*", set()), ("t/*", set())],
    ids=["one task", "another name", "another machine"],
)
def test_a_late_watch_reports_the_known_tasks_that_it_matches_and_no_other(
    specification: str, names: set[str]
) -> None:
    stage, _ = watched_machine()
    late = stage.task("late", "s1")

    late.process.watch(late, specification)

    assert seen([late]) == [names]
