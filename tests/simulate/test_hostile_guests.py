"""BUS-SEC-1, BUS-SEC-7: guests that lie about tasks and about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from msgspec.structs import replace

from bus.features.subscriptions.frames import Subscribe
from bus.kernel.peer.peer import characteristics
from bus.kernel.searches import own_searches
from bus.kernel.tasks.actions import Answer
from bus.kernel.tasks.runs import OutboundRun
from bus.kernel.wire import (
    AddRelay,
    Characteristics,
    ControlFrame,
    Export,
    LinkKind,
    Reason,
    Refused,
    Unrelay,
)
from bus.model.message import Kind
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.simulate.process import SimProcess
from tests.simulate.test_rights import GUEST, RIGHTS
from tests.simulate.test_rights import stage_of as stage_for

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from tests.simulate.stage import Stage


def stage_of() -> Stage:
    """Return a stage where a process may send false statements."""
    stage = stage_for()
    stage.world.checks.answer = lambda *_: None  # type: ignore[method-assign]
    stage.world.trace_sink.step = lambda *_: None  # type: ignore[method-assign]
    return stage


def tell(stage: Stage, process: str, *frames: ControlFrame) -> None:
    """Let the guest send control frames to a process that it has a link with."""
    rogue = stage.process(GUEST)
    for frame in frames:
        rogue.remote.topology.peers["m1", process].session.send_control(frame)
    rogue.settle()


def task_of(
    stage: Stage, name: str, *, number: int = 5, relay: int = 50, process: str = GUEST
) -> Characteristics:
    """Return the characteristics of a task that the guest invents."""
    return Characteristics(
        relay=relay,
        id=RegistrationId("m1", process, number),
        name=name,
        incarnation=stage.process(process).life,
    )


@clause("BUS-SEC-1", "BUS-WIRE-4")
@pytest.mark.parametrize("host", ["s1", "s2"])
def test_a_guest_that_gives_one_registration_two_names_ends_no_task(host: str) -> None:
    stage = stage_of()
    guest, other = stage.task("guest/z", GUEST), stage.task("open", host)
    stage.send(guest, "open")
    stage.soon()

    tell(
        stage,
        host,
        AddRelay(task=task_of(stage, "guest/a", relay=50)),
        AddRelay(task=task_of(stage, "guest/b", relay=51)),
        Unrelay(relay=50, extracted=0),
        Unrelay(relay=51, extracted=0),
    )
    stage.soon()

    (command,) = stage.send(guest, "open")
    stage.soon()
    assert command.taken_by == other.id


@clause("BUS-SEC-1", "BUS-SEC-7")
@pytest.mark.parametrize(
    ("received", "process", "name", "addresses"),
    [
        ("**", GUEST, "guest/a", ()),  # no address to dial
        ("anything", GUEST, "guest/a", ("m1/s3",)),  # does not match the subscription
        ("anything", "s4", "anything", ("m1/s3",)),  # a task of another process
    ],
)
def test_an_answer_that_a_guest_makes_up_costs_it_its_link(
    received: str, process: str, name: str, addresses: tuple[str, ...]
) -> None:
    """No other process is affected."""
    stage = stage_of()
    real = stage.task("anything", "s2")
    hearer = stage.task("d", "s4")
    hearer.process.subscribe(hearer, received)
    stage.soon()
    (asked,) = [
        each for each in stage.frames("s1", GUEST) if isinstance(each, Subscribe)
    ]
    before = stage.links("s4", "s1"), stage.links(GUEST, "s1")
    stage.forget()

    about = task_of(stage, name, process=process)
    tell(stage, "s1", AddRelay(task=about, search=asked.id, addresses=addresses))
    stage.soon()

    (command,) = stage.send(hearer, "anything")
    stage.soon()
    assert command.taken_by == real.id
    assert (stage.links("s4", "s1"), before) == (1, (1, 1))
    assert "ERROR" in stage.types("s1", GUEST)
    assert "ERROR" not in stage.types("s4")


@clause("BUS-SEC-1")
@pytest.mark.parametrize("host", ["s1", "s2"])
def test_a_searching_guest_cannot_claim_the_name_of_another_task(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_of()
    real, caller = stage.task("secret", "s4"), stage.task("c", host)
    stage.task("open", host)
    guest = stage.task("guest/a", GUEST)
    stage.soon()

    def lies(task: Entry, incarnation: int) -> Characteristics:
        about = characteristics(task, incarnation)
        return replace(about, name="secret") if task is guest.entry else about

    monkeypatch.setattr(own_searches, "characteristics", lies)
    stage.send(guest, "open")
    stage.soon()

    commands = stage.send(caller, "secret", 2)
    stage.soon()
    assert [each.taken_by for each in commands] == [real.id] * 2


@clause("BUS-SEC-1")
def test_a_guest_does_not_answer_for_others() -> None:
    stage = stage_of()
    oracle, asker = stage.task("oracle", "s4"), stage.task("c", "s2")
    stage.task("open", "s2")
    guest = stage.task("guest/a", GUEST)
    stage.hold(oracle)
    (question,) = stage.send(asker, "oracle", asks=True)
    stage.send(guest, "open")
    stage.soon()
    handed_on: list[Answer] = []
    process = stage.process("s2")
    act = process.performer.act

    def notes(action: Action) -> list[Action]:
        if isinstance(action, Answer):
            handed_on.append(action)
            return []
        return act(action)

    process.performer.act = notes  # type: ignore[method-assign]
    fake = OutboundRun(
        kind=Kind.COMMAND_RESPONSE,
        source=guest.entry,
        relay=guest.entry.relay,
        id=question.number,
        flags=0,
        turn=10**6,
        deadline=None,
        bodies=(b"\xa4fake",),
        size=5,
    )
    rogue = stage.process(GUEST)
    for number in range(1, 4):  # the asker's relay number is among these
        rogue.remote.topology.peers["m1", "s2"].session.send(number, [fake])
    rogue.settle()
    stage.soon()

    assert handed_on == []
    assert process.remote.inbound_messages.strays > 0


@clause("BUS-SEC-1", "BUS-INIT-5")
@pytest.mark.parametrize(
    ("machine", "reason"), [("m9", Reason.ACCESS), ("m1", Reason.DUPLICATE)]
)
def test_a_guest_is_master_of_nothing(machine: str, reason: Reason) -> None:
    """Not even of another machine, since a master speaks for other processes, too."""
    stage = stage_of()
    rogue = SimProcess(stage.world, machine, "evil", master=True, life=7)
    rogue.guest = True
    stage.world.processes[machine, "evil"] = rogue
    stage.world.guests = attrs.evolve(
        stage.world.guests,
        rights=lambda who, _by: RIGHTS if who == "evil" else None,
    )
    stage.forget()

    stage.world.network.dial(rogue, LinkKind.SIGNALLING, ("m1", ""), "m1/Master")
    stage.soon()

    said = stage.frames("s1", "evil")
    assert [each.reason for each in said if isinstance(each, Refused)] == [reason]
    joined = stage.process("s1").remote.topology.joined()
    assert "evil" not in {each.key[1] for each in joined}


@clause("BUS-SEC-1", "OPEN-3")
def test_no_guest_can_claim_an_earlier_registration_than_the_holder() -> None:
    stage = stage_of()
    owner = stage.task("guest/a", "s2")
    stage.soon()

    about = RegistrationId("m1", GUEST, 5)
    tell(stage, "s1", Export(id=about, name="guest/a", registered_ns=0))
    stage.soon()

    assert owner.here
    owners = stage.process("s1").remote.name_registry.users.owners()
    assert owners["guest/a"] == ("m1", "s2")


@clause("BUS-SEC-1", "BUS-ROUTE-11")
def test_a_process_directed_to_a_wrong_process_does_not_dial_it_repeatedly() -> None:
    stage = stage_of()
    stage.task("f", "s2")
    caller = stage.task("d", "s4")
    stage.send(caller, "f")
    caller.process.subscribe(caller, "guest/a")
    stage.soon()
    (asked,) = [
        each for each in stage.frames("s1", GUEST) if isinstance(each, Subscribe)
    ]
    stage.forget()

    about = task_of(stage, "guest/a")
    tell(stage, "s1", AddRelay(task=about, search=asked.id, addresses=("m1/s2",)))
    stage.soon(2.0)

    assert stage.types("s4", "s2").count("HELLO") <= 2
    assert stage.links("s4", "s2") == 1


@clause("BUS-SEC-1", "BUS-SEC-2")
@pytest.mark.parametrize("later", [0, 1], ids=["the same life", "a later one"])
@pytest.mark.parametrize("known", [False, True], ids=["first", "told of the real one"])
def test_an_impostor_of_an_unmet_process_receives_no_commands(
    later: int, *, known: bool
) -> None:
    """The master has reported the real owner; the impostor is dropped or rejected."""
    stage = stage_of()
    real, caller = stage.task("secret", "s2"), stage.task("d", "s4")
    stage.soon()
    stage.world.guests = attrs.evolve(
        stage.world.guests, rights=lambda _who, _by: RIGHTS
    )
    rogue = SimProcess(
        stage.world, "m1", "s2", master=False, life=real.process.life + later
    )
    rogue.guest = True
    commands = stage.send(caller, "secret", int(known))
    while known and ("m1", "s2") not in caller.process.remote.topology.peers:
        stage.soon(0.0001)

    stage.world.network.dial(rogue, LinkKind.DATA, ("m1", "s4"), "m1/s4")
    stage.soon()
    rogue.frozen = True  # it takes no message from now on
    commands += stage.send(caller, "secret", 2)
    stage.soon(3.0)

    assert [each.taken_by for each in commands] == [real.id] * len(commands)
