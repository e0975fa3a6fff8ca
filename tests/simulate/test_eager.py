"""Masters that create relays of all public tasks before any message is sent to them."""

from __future__ import annotations

import pytest

from specs.clauses import clause
from tests.simulate.stage import Stage


@clause("BUS-INIT-13")
@pytest.mark.parametrize("eager", [True, False])
def test_a_master_has_relays_of_all_public_tasks_at_once_if_it_is_to(
    eager: bool,
) -> None:
    """Messages and answers are the same; with such relays no search is made."""
    stage = Stage(eager_relays=eager)
    tasks = {name: stage.task(name, "s2") for name in ("d", "d/x")}
    tasks |= {name: stage.task(name, "s3") for name in ("f", "g")}
    stage.task("p", "s3", private=True)
    a = stage.task("a", "s1")
    stage.soon()
    assert set(stage.relays("s1")) == (set(tasks) if eager else set())
    stage.forget()

    commands = [stage.send(a, name, 2, asks=True) for name in tasks]
    stage.soon()
    for task in tasks.values():
        for message in task.kept:
            task.process.answer(message)
        task.process.settle()
    stage.soon()

    assert stage.types("s1").count("SEARCH") == (0 if eager else len(tasks))
    for name, sent in zip(tasks, commands, strict=True):
        assert [each.taken_by for each in sent] == [tasks[name].id] * 2
        assert [each.answers for each in sent] == [1, 1]


@clause("BUS-INIT-13", "BUS-INIT-15")
def test_a_new_master_has_relays_of_the_tasks_registered_before() -> None:
    stage = Stage(eager_relays=True)
    stage.task("f", "s3")
    stage.soon()
    stage.process("s1").die()
    stage.soon()

    stage.world.promote(stage.process("s2"))
    stage.soon(2.0)

    assert set(stage.relays("s2")) == {"f"}


@clause("BUS-INIT-14", "BUS-ENT-13")
def test_the_eager_relays_of_a_master_serve_its_own_tasks_only() -> None:
    """The host answers other processes, whose messages then bypass the master."""
    stage = Stage(eager_relays=True)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    stage.forget()

    (command,) = stage.send(d, "f")
    stage.soon()

    assert stage.types("s2", "s1") == ["SEARCH"]
    assert stage.types("s1", "s3") == ["SEARCH"]
    assert stage.links("s2", "s3") == 1
    assert command.taken_by == f.id
    stage.process("s1").frozen = True
    commands = stage.send(d, "f", 10) + stage.send(f, "d", 10)
    stage.soon()
    assert [each.taken_by for each in commands] == [f.id] * 10 + [d.id] * 10


@clause("BUS-INIT-13", "BUS-MOVE-7")
def test_a_master_never_routes_to_a_later_claimant_of_a_name() -> None:
    """Not even before the later claimant is evicted."""
    stage = Stage(eager_relays=True)
    a, f = stage.task("a", "s1"), stage.task("f", "s3")
    stage.soon()

    stage.task("f", "s2")
    commands = []
    for _ in range(20):
        commands += stage.send(a, "f")
        found = stage.process("s1").manager.table.find("f")
        assert found is not None
        assert found.id == f.id
        stage.soon(0.001)
    stage.soon()

    assert [each.taken_by for each in commands] == [f.id] * len(commands)
    assert set(stage.relays("s1")) == {"f"}
