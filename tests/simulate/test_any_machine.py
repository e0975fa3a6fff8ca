"""Names of any machine: ``ism://*/log`` among simulated machines."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import UnresolvedError
from bus.kernel.wire import AddRelay
from bus.model.address import Address
from bus.model.rights import Rights
from bus.model.specification import Specification
from specs.clauses import clause
from tests.simulate import run as simulation
from tests.simulate.any_machine import LOG, absences, rest, searches
from tests.simulate.guests import Guests
from tests.simulate.process import SimProcess
from tests.simulate.stage import Stage, errors_of
from tests.simulate.world import World

if TYPE_CHECKING:
    from tests.simulate.counters import Command
    from tests.simulate.task import SimTask

ALL = (Specification("**"),)
GUESTS = Guests(("s2",), lambda who, _by: Rights(register=ALL, command=ALL))


# The search.


@clause("BUS-NAME-8", "BUS-ROUTE-21")
def test_a_slave_finds_the_only_task_of_a_name_on_any_machine() -> None:
    """Its master asks all others; the two end processes exchange the messages."""
    stage = Stage(machines=3)
    d, f = stage.task("d", "s2", "m1"), stage.task("log", "s3", "m3")
    stage.soon()
    stage.forget()

    (sent_command,) = stage.send(d, LOG, asks=True)
    stage.soon()

    assert sent_command.taken_by == f.id
    assert searches(stage)[:2] == [
        ("m1/s2", "m1/s1", True),
        ("m1/s1", "m1/s3", False),
    ]
    assert set(searches(stage)[2:]) == {
        ("m1/s1", "m2/s1", True),
        ("m1/s1", "m3/s1", True),
        ("m2/s1", "m2/s2", False),
        ("m2/s1", "m2/s3", False),
        ("m3/s1", "m3/s3", False),
    }
    assert absences(stage) == [("m2/s1", "m1/s1")]
    assert set(stage.relays("s2")) == {"ism://m3/log"}

    stage.forget()
    stage.send(d, LOG)
    stage.soon()
    assert searches(stage) == []
    rest(stage)


@clause("BUS-NAME-8", "BUS-ROUTE-21")
@pytest.mark.parametrize("sender", ["s1", "s2", "s3"])
@pytest.mark.parametrize("holder", ["s1", "s3"])
def test_the_machine_of_the_sender_precedes_all_others(
    sender: str, holder: str
) -> None:
    """No other machine is asked, even one with a smaller name."""
    stage = Stage(machines=3)
    d = stage.task("d", sender, "m2")
    stage.task("log", "s1", "m1")
    own = stage.task("log", holder, "m2")
    stage.soon()
    stage.forget()

    commands = stage.send(d, LOG, 2)
    stage.soon()

    assert [each.taken_by for each in commands] == [own.id] * 2
    assert not any(away.startswith(("m1", "m3")) for _, away, _ in searches(stage))
    rest(stage)


@pytest.mark.deep
@clause("BUS-NAME-8")
@pytest.mark.parametrize("sender", ["s1", "s2"])
@pytest.mark.parametrize("seed", range(8))
def test_among_other_machines_the_smallest_name_counts(sender: str, seed: int) -> None:
    """The order of the answers makes no difference."""
    stage = Stage(machines=4, slaves=1, seed=seed)
    d = stage.task("d", sender, "m4")
    holders = [stage.task("log", "s2", each) for each in ("m3", "m2")]
    stage.soon()

    commands = stage.send(d, LOG, 3)
    stage.soon()

    assert [each.taken_by for each in commands] == [holders[1].id] * 3
    rest(stage)


@clause("BUS-ROUTE-21", "BUS-ROUTE-18")
@pytest.mark.parametrize("machine", ["m1", "m2", "m3"])
@pytest.mark.parametrize("process", ["s1", "s2"])
def test_a_task_that_takes_the_name_later_answers(machine: str, process: str) -> None:
    stage = Stage(machines=3, slaves=1)
    senders = [stage.task("c", "s1", "m1"), stage.task("d", "s2", "m1")]
    commands = [
        sent_command for each in senders for sent_command in stage.send(each, LOG, 2)
    ]
    stage.soon()
    assert not any(each.taken_by for each in commands)

    log = stage.task("log", process, machine)
    stage.soon()

    assert [each.taken_by for each in commands] == [log.id] * 4
    rest(stage)


@clause("BUS-ROUTE-21")
def test_a_machine_that_is_linked_later_is_asked_too() -> None:
    stage = Stage(slaves=1)
    d = stage.task("d", "s2")
    (sent_command,) = stage.send(d, LOG)
    stage.soon()

    stage.world.start("m2", "s1", master=True)
    log = stage.task("log", "s1", "m2")
    stage.soon()

    assert sent_command.taken_by == log.id
    rest(stage)


@clause("BUS-ROUTE-21", "BUS-ROUTE-19")
def test_a_name_that_no_machine_has_fails_clearly() -> None:
    stage = Stage(machines=2)
    d = stage.task("d", "s2")
    commands = stage.send(d, LOG, 2)

    stage.soon(6.0)

    assert errors_of(commands) == [UnresolvedError] * 2
    assert "neither this machine nor any that it is linked with" in str(
        commands[0].reported
    )
    rest(stage)


@clause("BUS-ROUTE-21", "BUS-RELAY-12")
def test_a_master_whose_task_is_not_chosen_can_send_to_the_searching_task() -> None:
    """It assumes that its answer has created a relay for its task."""
    stage = Stage(machines=3, slaves=0)
    d = stage.task("d", "s1", "m3")
    stage.task("log", "s1", "m1")
    other = stage.task("log", "s1", "m2")
    stage.soon()
    stage.send(d, LOG)
    stage.soon()

    commands = stage.send(other, "ism://m3/d", 2, asks=True)
    stage.soon()

    assert [each.taken_by for each in commands] == [d.id] * 2


# Rights, and the departure of senders.


@clause("BUS-ROUTE-21", "BUS-SEC-1")
def test_a_guest_searches_its_own_machine_only() -> None:
    stage = Stage(machines=2, slaves=2, guests=GUESTS)
    d = stage.task("d", "s2", "m1")
    stage.task("log", "s1", "m2")
    stage.soon()
    stage.forget()

    commands = stage.send(d, LOG)
    stage.soon(6.0)

    assert errors_of(commands) == [UnresolvedError]
    assert not any(away.startswith("m2") for _, away, _ in searches(stage))


@clause("BUS-DEREG-11", "BUS-ROUTE-21")
def test_the_search_of_a_departed_sender_is_cancelled_on_all_machines() -> None:
    stage = Stage(machines=2, slaves=1)
    d = stage.task("d", "s2")
    stage.send(d, LOG)
    stage.soon()
    assert len(stage.process("s1", "m2").remote.resolver.ledger) == 1

    d.process.deregister(d)
    stage.soon()

    assert len(stage.process("s1", "m2").remote.resolver.ledger) == 0
    assert len(stage.process("s1").remote.resolver.ledger) == 0
    rest(stage)


@clause("BUS-ROUTE-21", "OPEN-1")
def test_a_slave_that_becomes_master_continues_its_search() -> None:
    stage = Stage(machines=2, slaves=1)
    d = stage.task("d", "s2")
    (sent_command,) = stage.send(d, LOG)
    stage.soon(0.1)

    stage.process("s1").die()
    heir = stage.process("s2")
    stage.world.promote(heir)
    stage.soon(1.0)
    log = stage.task("log", "s2", "m2")
    stage.soon()

    assert sent_command.taken_by == log.id


@clause("BUS-ROUTE-10", "BUS-ROUTE-21")
def test_only_the_answer_that_counts_makes_a_relay_at_the_sender() -> None:
    stage = Stage(machines=3, slaves=1)
    d = stage.task("d", "s2", "m3")
    for machine in ("m1", "m2"):
        stage.task("log", "s2", machine)
    stage.soon()
    stage.forget()

    stage.send(d, LOG)
    stage.soon()

    answers = [
        frame
        for _, receiver, frame in stage.world.frames or ()
        if isinstance(frame, AddRelay)
        and frame.search is not None
        and receiver is d.process
    ]
    assert [each.task.id.machine for each in answers] == ["m1"]
    assert set(stage.relays("s2", "m3")) == {"ism://m1/log"}
    rest(stage)


@pytest.mark.deep
@clause("BUS-NAME-8", "BUS-ROUTE-21")
@pytest.mark.parametrize("seed", range(1, 21))
def test_runs_with_faults_and_many_commands_to_any_machine(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each command has one outcome, and no table keeps a search or a relay."""
    command = SimProcess.command

    def send(self: SimProcess, task: SimTask, to: str, **options: Any) -> Command:
        """Send the commands to some names, drawn for each sender, to any machine.

        All commands of a sender to one name: those to two names of one task could
        overtake one another.
        """
        module = Address.parse(to).module
        drawn = Random(f"{seed} {task.id} {module}").random()
        if task.name != "probe" and drawn < 0.6:
            to = f"ism://*/{module}"
        return command(self, task, to, **options)

    class Unordered(World):
        """After a departure, later commands may go to another machine."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options | {"ordered": False})

    monkeypatch.setattr(SimProcess, "command", send)
    monkeypatch.setattr(simulation, "World", Unordered)

    failure = simulation.run(seed, machines=3, processes=2)

    assert failure is None, failure.error
