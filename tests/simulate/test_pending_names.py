"""OPEN-3: the verdicts that a slave receives on its names, whoever is master."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.kernel.wire import Export, Ping
from specs.clauses import clause
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.tasks.routing_table import Entry


def awaited(stage: Stage, process: str) -> list[Entry]:
    """Return the tasks of a slave that still await a verdict of its master."""
    return stage.process(process).remote.name_registry.pending_names.tasks()


@clause("OPEN-3")
def test_a_slave_receives_the_verdict_that_its_names_are_free() -> None:
    """One verdict covers each name; a PING follows each EXPORT."""
    stage = Stage()
    a, b = stage.task("a", "s2"), stage.task("b", "s2")
    assert awaited(stage, "s2") == [a.entry, b.entry]

    stage.soon()

    assert (a.confirmed, b.confirmed) == (True, True)
    said = [type(each) for each in stage.frames("s2", "s1")]
    assert [each for each in said if each in {Export, Ping}] == 2 * [Export, Ping]
    assert awaited(stage, "s2") == []


@clause("OPEN-3")
def test_neither_a_master_nor_a_private_task_requests_a_verdict() -> None:
    stage = Stage()
    stage.soon()
    stage.forget()

    stage.task("a", "s1")
    stage.process("s2").register("b", private=True)
    stage.soon()

    assert awaited(stage, "s1") == awaited(stage, "s2") == []
    assert not any(isinstance(each, Ping) for each in stage.frames())


@clause("OPEN-3", "BUS-MOVE-7")
def test_the_objection_of_the_master_to_a_name_arrives_before_its_verdict() -> None:
    stage = Stage()
    first = stage.task("a", "s3")
    stage.soon()
    late, other = stage.task("a", "s2"), stage.task("b", "s2")

    stage.soon()

    assert (late.here, late.confirmed) == (False, False)
    assert (first.here, first.confirmed, other.confirmed) == (True, True, True)
    assert awaited(stage, "s2") == []


@clause("OPEN-3")
def test_a_verdict_that_was_lost_with_a_link_is_asked_for_again() -> None:
    stage = Stage()
    stage.soon()
    task = stage.task("a", "s2")
    stage.cut("s1", "s2")

    stage.soon()

    assert task.confirmed
    pings = [each for each in stage.frames("s2", "s1") if isinstance(each, Ping)]
    assert len(pings) == 2


@clause("OPEN-3", "OPEN-1")
def test_another_master_gives_the_verdict_that_the_first_one_owes() -> None:
    stage = Stage()
    stage.soon()
    master = stage.process("s1")
    master.frozen = True
    task = stage.task("a", "s2")
    other = stage.task("b", "s3")
    stage.soon()
    assert not task.confirmed

    master.die()
    stage.world.promote(other.process)
    stage.soon(2.0)

    assert (task.confirmed, other.confirmed) == (True, True)
    assert awaited(stage, "s2") == awaited(stage, "s3") == []


@clause("OPEN-3", "OPEN-1")
@pytest.mark.parametrize("process", ["s2", "s4"])
def test_a_new_master_grants_no_name_that_a_slave_has_yet_to_announce(
    process: str,
) -> None:
    """Neither to a task of its own nor to one of a slave that has joined it."""
    stage = Stage(slaves=3)
    holder = stage.task("a", "s3")
    stage.soon()
    holder.process.frozen = True
    stage.process("s1").die()
    stage.world.promote(stage.process("s2"))
    late = stage.task("a", process)
    other = stage.task("b", process)
    stage.soon(0.9)
    assert (late.confirmed, other.confirmed) == (False, False)

    holder.process.thaw()
    stage.soon()

    assert (late.here, holder.here) == (False, True)
    assert (late.confirmed, other.confirmed) == (False, True)


@clause("OPEN-3", "OPEN-1")
@pytest.mark.parametrize("process", ["s2", "s4"])
def test_a_new_master_waits_a_second_for_a_slave_that_does_not_join(
    process: str,
) -> None:
    stage = Stage(slaves=3)
    stage.process("s3").frozen = True
    stage.process("s1").die()
    stage.world.promote(stage.process("s2"))
    task = stage.task("a", process)
    assert task.process.manager.awaits_verdict(task.entry)
    stage.soon(0.9)
    assert not task.confirmed

    stage.soon(0.2)

    assert task.confirmed


@clause("OPEN-3", "OPEN-1")
def test_a_new_master_decides_once_all_slaves_have_announced_their_tasks() -> None:
    stage = Stage(slaves=3)
    stage.process("s1").die()
    stage.world.promote(stage.process("s2"))
    task = stage.task("a", "s2")
    waits = not task.confirmed

    stage.soon(0.3)

    assert waits
    assert task.confirmed
    stage.task("b", "s2")
    assert awaited(stage, "s2") == []


@clause("OPEN-3", "OPEN-1")
def test_a_new_master_does_not_wait_for_a_slave_that_joins_and_is_lost() -> None:
    """The slave stops before it has announced its tasks."""
    stage = Stage(RELINK_TIMEOUT_S=0.2)
    stage.soon()
    stage.process("s1").die()
    master, slave = stage.process("s2"), stage.process("s3")
    stage.world.promote(master)
    while slave.key not in {each.key for each in master.remote.topology.joined()}:
        stage.soon(0.0005)
    task = stage.task("a", "s2")
    slave.die()
    assert not task.confirmed

    stage.soon(0.5)

    assert task.confirmed


@clause("OPEN-3", "OPEN-1")
def test_a_master_that_replaces_another_one_at_its_start_knows_its_slaves() -> None:
    stage = Stage()
    holder = stage.task("a", "s2")
    stage.soon()
    stage.process("s1").die()
    stage.world.start("m1", "s9", master=True)

    late = stage.task("a", "s9")
    stage.soon(1.5)

    assert (late.here, late.confirmed, holder.here) == (False, False, True)


@clause("OPEN-3", "BUS-INIT-3")
def test_a_slave_without_a_master_expects_a_verdict_for_two_seconds() -> None:
    """After that, a registration has no verdict to wait for; it gets one later."""
    stage = Stage()
    stage.process("s1").die()
    stage.soon(1.9)
    early = stage.task("a", "s2")
    assert early.process.manager.awaits_verdict(early.entry)
    stage.soon(0.2)
    late = stage.task("b", "s2")
    assert not late.process.manager.awaits_verdict(late.entry)
    assert awaited(stage, "s2") == [early.entry, late.entry]

    stage.world.promote(stage.process("s3"))
    stage.soon(2.0)

    assert (early.confirmed, late.confirmed) == (True, True)


@clause("OPEN-3", "BUS-ENT-17")
def test_a_task_that_deregisters_awaits_no_verdict() -> None:
    stage = Stage()
    stage.soon()
    stage.process("s1").frozen = True
    task = stage.task("a", "s2")
    assert awaited(stage, "s2") == [task.entry]

    task.process.deregister(task)

    assert awaited(stage, "s2") == []
