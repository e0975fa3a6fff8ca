"""A bound name of any machine: all commands of a process go to one task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import MovedError
from specs.clauses import clause
from tests.simulate.any_machine import LOG, rest
from tests.simulate.stage import Stage, errors_of

if TYPE_CHECKING:
    from tests.simulate.task import SimTask


def bind_name(machines: int) -> tuple[Stage, SimTask, SimTask]:
    """Bind the name in a slave of m1, where a task has sent to it, to a task of m2.

    Returns the stage, the sender and the task.
    """
    stage = Stage(machines=machines, slaves=1)
    sender, task = stage.task("d", "s2", "m1"), stage.task("log", "s2", "m2")
    stage.soon()
    stage.send(sender, LOG)
    stage.soon()
    return stage, sender, task


@clause("BUS-NAME-8")
def test_a_name_stays_bound_although_a_preceding_task_registers() -> None:
    stage, d, log = bind_name(machines=2)

    stage.task("log", "s1", "m1")
    stage.soon()
    (command,) = stage.send(d, LOG)
    stage.soon()

    assert command.taken_by == log.id


@clause("BUS-NAME-8")
@pytest.mark.parametrize("new_place", ["m1", "m3"])
def test_after_a_move_the_next_command_starts_a_search(new_place: str) -> None:
    stage, d, log = bind_name(machines=3)

    heir = stage.task("log", "s2", new_place)
    log.process.deregister(log, moved_to=f"ism://{new_place}/log")
    stage.soon()
    (command,) = stage.send(d, LOG)
    stage.soon()

    assert command.taken_by == heir.id
    rest(stage)


@clause("BUS-NAME-8", "BUS-MOVE-9")
def test_commands_sent_before_a_move_follow_the_full_address() -> None:
    """They fail with the new address, like commands to the full former address."""
    stage, d, log = bind_name(machines=3)
    stage.hold(log)
    (unread,) = stage.send(d, LOG)
    stage.soon()

    stage.task("log", "s2", "m3")
    log.process.deregister(log, moved_to="ism://m3/log")
    stage.soon()

    assert errors_of([unread]) == [MovedError]


@clause("BUS-NAME-8", "BUS-ROUTE-21")
def test_the_search_ignores_a_moved_task_of_an_asked_machine() -> None:
    """The search also asks the machine to which the task has moved."""
    stage = Stage(machines=3, slaves=1)
    d, log = stage.task("d", "s2", "m1"), stage.task("log", "s2", "m2")
    heir = stage.task("log", "s2", "m3")
    log.process.deregister(log, moved_to="ism://m3/log")
    stage.soon()

    (command,) = stage.send(d, LOG)
    stage.soon()

    assert command.taken_by == heir.id


@pytest.mark.deep
@clause("BUS-NAME-8")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("recorded", [False, True])
def test_commands_parked_for_the_search_are_not_overtaken(
    seed: int, recorded: bool
) -> None:
    """Some are parked, some are sent during the binding, some find the name bound."""
    stage = Stage(
        machines=2, slaves=1, seed=seed, recorded=recorded, fast_paths=seed % 2
    )
    senders = [stage.task(name, "s2", "m1") for name in ("d", "d/x")]
    log = stage.task("log", "s2", "m2")
    stage.soon()

    commands = []
    for _ in range(30):
        commands += [stage.send(each, LOG)[0] for each in senders]
        stage.soon(0.0005)
    stage.soon()

    # The world's counters raise for each message that overtakes another one.
    assert [each.taken_by for each in commands] == [log.id] * 60
    rest(stage)


@clause("BUS-NAME-8")
@pytest.mark.parametrize("machines", [1, 2])
def test_a_task_of_the_own_process_ends_the_search(machines: int) -> None:
    stage = Stage(machines=machines)
    d = stage.task("d", "s2")
    commands = stage.send(d, LOG, 2)
    stage.soon()
    assert len(stage.process("s2").remote.resolver.ledger) == 1

    log = stage.task("log", "s2")
    stage.soon(0.1)

    assert [each.taken_by for each in commands] == [log.id] * 2
    assert len(stage.process("s2").remote.resolver.ledger) == 0
    (third,) = stage.send(d, LOG)
    stage.soon()
    assert third.taken_by == log.id
    rest(stage)


@clause("BUS-NAME-8")
def test_without_other_machines_any_machine_is_this_machine() -> None:
    stage = Stage()
    d, log = stage.task("d", "s2"), stage.task("log", "s3")
    stage.soon()
    stage.forget()

    (command,) = stage.send(d, LOG)
    stage.soon()

    assert command.taken_by == log.id
    assert set(stage.relays("s2")) == {"log"}
    rest(stage)


@clause("BUS-NAME-8")
def test_an_idle_relay_ends_the_binding() -> None:
    """Together with all other uses of the task: the next command starts a search."""
    stage, d, log = bind_name(machines=2)
    d.process.deregister(d)
    stage.soon(120.0)
    assert stage.relays("s2") == {}
    assert d.process.manager.table.find(LOG) is None

    other = stage.task("e", "s2", "m1")
    (command,) = stage.send(other, LOG)
    stage.soon()

    assert command.taken_by == log.id
