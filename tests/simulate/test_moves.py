"""Tasks that go on at another machine, and the senders with their former address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import MovedError, UnresolvedError
from bus.kernel.wire import Eliminate, Error, Reason
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.simulate.stage import SOON_S, Stage, errors_of

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action

HERE, NEW = "ism://m1/f", "ism://m2/f"
RESOLVE_S = 5.0  # of all simulated processes


@pytest.mark.deep
@clause("BUS-MOVE-9", "BUS-NAME-3")
@pytest.mark.parametrize("holder", ["s1", "s3"], ids=["master", "slave"])
@pytest.mark.parametrize("seed", range(4))
def test_each_sender_with_the_former_address_is_told_the_new_one(
    holder: str, seed: int
) -> None:
    """On the same machine, and on others; for unread commands, and for later ones."""
    stage = Stage(machines=3, slaves=3, seed=seed)
    senders = [
        stage.task(f"d/{process}", process, machine)
        for machine, process in (
            ("m1", "s1"),
            ("m1", "s2"),
            ("m1", "s3"),
            ("m2", "s2"),
            ("m3", "s1"),
        )
    ]
    f = stage.task("f", holder)
    stage.soon()
    stage.hold(f)
    commands = [
        stage.send(each, HERE if each.process.key[0] != "m1" else "f", 2)
        for each in senders
    ]
    stage.soon()

    f.process.deregister(f, moved_to=NEW)
    stage.soon()
    later = [
        stage.send(each, HERE if each.process.key[0] != "m1" else "f")
        for each in senders
    ]
    stage.soon()

    assert [errors_of(each) for each in commands] == [[MovedError] * 2] * 5
    assert [errors_of(each) for each in later] == [[MovedError]] * 5
    errors = {str(each.reported) for some in commands for each in some}
    assert all(repr(NEW) in each for each in errors)


@clause("BUS-MOVE-9", "BUS-SEC-7")
@pytest.mark.parametrize("holder", ["s1", "s2"], ids=["master", "slave"])
@pytest.mark.parametrize("watched", [False, True])
def test_no_link_is_lost_by_the_departure_of_a_task_that_has_moved(
    holder: str, watched: bool
) -> None:
    """All processes get it, also those of the machine to which the task moves."""
    stage = Stage(machines=3)
    f = stage.task("f", holder)
    g = stage.task("g", "s2", "m2")
    if watched:
        g.process.watch(g, HERE)
    stage.send(g, HERE)
    stage.soon()
    complaints: list[str] = []
    for each in stage.world.processes.values():
        each.remote.topology.complain = complaints.append  # type: ignore[misc]
    wires = stage.world.network.whole()

    f.process.deregister(f, moved_to=NEW)
    stage.soon()

    assert complaints == []
    assert stage.world.network.whole() == wires


@clause("BUS-MOVE-9")
@pytest.mark.parametrize("sender", ["m1/s1", "m1/s2", "m2/s2"])
def test_a_search_that_came_before_the_news_of_the_move_is_answered_too(
    sender: str,
) -> None:
    """It has found no task, and waits at the master."""
    stage = Stage(machines=2)
    machine, process = sender.split("/")
    d = stage.task("d", process, machine)
    commands = stage.send(d, HERE if machine == "m2" else "f")
    stage.soon()
    assert errors_of(commands) == [None]
    master = stage.process("s1")
    former = RegistrationId("m1", "s3", 1)
    departure = Eliminate(id=former, name="f", moved_to=NEW)

    def moved() -> list[Action]:
        master.new_addresses.on_eliminated(departure, True, stage.world.now)
        return master.remote.topology.take_actions()

    master.event(moved)
    stage.soon()

    assert errors_of(commands) == [MovedError]


@clause("BUS-MOVE-9")
def test_a_name_that_is_registered_again_is_found_where_it_is() -> None:
    stage = Stage(machines=2)
    d, f = stage.task("d", "s2", "m2"), stage.task("f", "s3")
    stage.soon()
    f.process.deregister(f, moved_to=NEW)
    stage.soon()
    g = stage.task("f", "s2")
    stage.soon()

    [command] = stage.send(d, HERE)
    stage.soon()

    assert command.taken_by == g.id


@clause("BUS-MOVE-9", "BUS-ENT-17")
def test_the_new_address_is_told_for_a_limited_time() -> None:
    """After it, a command waits for the name, and then fails as any other."""
    stage = Stage(machines=2)
    d, f = stage.task("d", "s2", "m2"), stage.task("f", "s3")
    stage.soon()
    f.process.deregister(f, moved_to=NEW)
    stage.soon(RESOLVE_S + SOON_S)
    master = stage.process("s1")

    commands = stage.send(d, HERE)
    stage.soon(RESOLVE_S + SOON_S)

    assert errors_of(commands) == [UnresolvedError]
    assert master.new_addresses.by_name == {}


@clause("BUS-SEC-7", "BUS-MOVE-9")
@pytest.mark.parametrize("held", [True, False])
def test_a_process_tells_of_its_own_tasks_only_where_they_go_on(held: bool) -> None:
    """Else it could draw the commands for any name to itself, held or not."""
    stage = Stage(machines=2, slaves=3)
    d, g = stage.task("d", "s2", "m2"), stage.task("g", "s3")
    f = stage.task("f", "s2") if held else None
    stage.soon()
    thief = stage.process("s3")
    master = thief.remote.topology.master()
    assert master is not None

    def steal() -> list[Action]:
        frame = Eliminate(id=g.id, name="f", moved_to=NEW)
        master.session.send_control(frame)
        return thief.remote.flush(stage.world.now)

    thief.event(steal)
    stage.soon()
    [command] = stage.send(d, HERE)
    stage.soon()

    assert command.taken_by == (None if f is None else f.id)
    assert command.reported is None


@clause("BUS-WIRE-4", "BUS-MOVE-9")
@pytest.mark.parametrize("address", ["f", "ism://bus1@m2/f", "ism://m1/", "x" * 200])
def test_a_new_address_of_another_form_is_no_frame(address: str) -> None:
    task = RegistrationId("m1", "s1", 1)
    with pytest.raises(ValueError, match="address"):
        Eliminate(id=task, name="f", moved_to=address)
    with pytest.raises(ValueError, match="address"):
        Error(reason=Reason.MOVED, text=address)
