"""OPEN-3: the verdicts that a slave receives on its names, whoever is master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.core.wire import Export, Ping
from specs.clauses import clause
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.core.local.routing_table import Entry


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


@clause("OPEN-3", "BUS-ENT-17")
def test_a_task_that_deregisters_awaits_no_verdict() -> None:
    stage = Stage()
    stage.soon()
    stage.process("s1").frozen = True
    task = stage.task("a", "s2")
    assert awaited(stage, "s2") == [task.entry]

    task.process.deregister(task)

    assert awaited(stage, "s2") == []
