"""A machine as a whole: joining, announcements of tasks, succession of the master."""

from __future__ import annotations

from random import Random

import pytest

from bus.errors import WireError
from bus.kernel import wire
from bus.kernel.links.link import NEXT, Link, LinkState
from bus.kernel.wire import (
    Eliminate,
    Export,
    FrameType,
    Hello,
    LinkKind,
    Refused,
    Welcome,
)
from bus.model.message import Kind
from specs.clauses import clause
from tests.simulate.stage import Stage


@clause("BUS-INIT-2", "BUS-INIT-4")
def test_both_ends_identify_themselves_before_any_other_frame() -> None:
    stage = Stage(slaves=0)
    world = stage.world
    slave = world.start("m1", "s2")
    slave.register("d")
    stage.soon()

    assert stage.types("s2") == ["HELLO", "OPEN_STREAM", "EXPORT", "PING"]
    assert stage.types("s1") == ["WELCOME", "OPEN_STREAM", "PONG"]
    (hello,) = (each for each in stage.frames() if isinstance(each, Hello))
    (welcome,) = (each for each in stage.frames() if isinstance(each, Welcome))
    assert hello.identity.process == "s2"
    assert hello.identity.incarnation == slave.life
    assert welcome.identity.process == "s1"


@clause("BUS-INIT-3", "BUS-INIT-15")
def test_a_slave_without_a_master_works_and_joins_when_there_is_one() -> None:
    """It may register before, while, or after it joins."""
    stage = Stage(slaves=1)
    stage.process("s1").die()
    stage.soon(2.0)
    e, f = stage.task("e", "s2"), stage.task("f", "s2")
    (command,) = stage.send(e, "f")
    stage.soon()
    assert command.taken_by == f.id

    master = stage.world.start("m1", "s1", master=True)
    stage.soon(0.002)
    stage.task("g", "s2")
    stage.soon()
    stage.task("h", "s2")
    stage.soon()

    owners = master.remote.name_registry.users.owners()
    assert owners == dict.fromkeys("efgh", ("m1", "s2"))


@clause("BUS-INIT-4", "BUS-WIRE-4")
def test_a_link_on_which_something_wrong_comes_is_closed() -> None:
    """A frame before the handshake, or bytes that are no frame; others stay open."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    master = stage.process("s1")
    number = max(master.remote.links.by_number) + 1000
    actions = master.remote.on_link_accepted(number, stage.world.now)
    frame = Export(id=f.id, name="x", registered_ns=1)
    actions += master.remote.receive(number, frame, stage.world.now)

    assert number not in master.remote.links.by_number
    assert "x" not in master.remote.name_registry.users.owners()
    assert [type(each).__name__ for each in actions] == ["Send", "HangUp"]
    link = next(iter(stage.process("s2").remote.links.by_number))
    error = WireError("no frame")
    master_link = stage.process("s2").remote.links.by_number[link]
    assert master_link.state is LinkState.OPEN
    stage.process("s2").do(
        stage.process("s2").remote.on_malformed(link, error, stage.world.now)
    )
    (command,) = stage.send(d, "f")
    stage.soon()
    assert command.taken_by == f.id
    z = stage.task("z", "s3")
    (command,) = stage.send(d, "z")
    stage.soon()
    assert command.taken_by == z.id


@clause("BUS-WIRE-4")
@pytest.mark.parametrize(
    "wrong",
    [
        wire.Run(0, 1, Kind.COMMAND, 0, 1, wire.NO_DEADLINE, 0, [b"\x01"]),
        wire.Run(1, 1, Kind.NOTIFICATION, 0, 1, wire.NO_DEADLINE, 0, [b"\x01"]),
        wire.Run(1, 1, Kind.COMMAND, 0, 1, wire.NO_DEADLINE, 0, [b"\xc1"]),
    ],
    ids=["a command for all", "a notification for one", "no payload"],
)
def test_a_message_that_no_correct_process_sends_closes_its_link(
    wrong: wire.Run,
) -> None:
    """It reaches no task, and other processes continue."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s1")
    stage.send(d, "f")
    stage.soon()
    master = stage.process("s1")
    peer = master.remote.topology.peers["m1", "s2"]
    link = peer.session.link
    assert link is not None
    epoch = peer.session.their_epoch
    assert epoch is not None
    batch = wire.Batch(epoch, master.life, 2, 2, [wrong])

    actions = master.remote.receive(link, batch, stage.world.now)

    assert [type(each).__name__ for each in actions] == ["Send", "HangUp"]
    assert link not in master.remote.links.by_number
    assert not f.items


@pytest.mark.deep
@clause("BUS-WIRE-2")
@pytest.mark.parametrize("kind", list(FrameType))
@pytest.mark.parametrize("state", list(LinkState))
@pytest.mark.parametrize("use", list(LinkKind))
def test_each_type_may_come_in_some_states_only(
    kind: FrameType, state: LinkState, use: LinkKind
) -> None:
    """The table lists the states of each type; in others it changes nothing."""
    link = Link(1, use, 0.0)
    link.state = state
    greetings = {
        LinkState.DIALLED: {FrameType.WELCOME, FrameType.REFUSED},
        LinkState.ACCEPTED: {FrameType.HELLO},
        LinkState.OPENING: {FrameType.OPEN_STREAM, FrameType.REFUSED},
    }
    of_managers = {
        *(FrameType.EXPORT, FrameType.UNEXPORT, FrameType.SEARCH, FrameType.CANCEL),
        *(FrameType.ELIMINATE, FrameType.SUBSCRIBE, FrameType.UNSUBSCRIBE),
    }
    late = set(FrameType) - set().union(*greetings.values())
    allowed = greetings.get(state, late)
    if use is LinkKind.DATA:
        allowed = allowed - of_managers

    if kind in allowed:
        link.step(kind)
        assert link.state is (NEXT[state, kind] or state)
    else:
        with pytest.raises(WireError, match=kind.name):
            link.step(kind)
        assert link.state is state


@clause("BUS-INIT-6")
def test_a_process_has_one_link_to_its_master() -> None:
    """A second link of the same life is refused; bus and process name identify both."""
    stage = Stage()
    master, slave = stage.process("s1"), stage.process("s2")
    links = list(master.remote.links.by_number.values())
    assert sorted(each.identity.process for each in links if each.identity) == [
        *("s2", "s3")
    ]
    assert {each.kind for each in links} == {LinkKind.SIGNALLING}

    kind, nobody = LinkKind.SIGNALLING, ("m1", "")
    stage.world.network.dial(slave, kind, nobody, "m1/Master")
    stage.soon()

    assert any(isinstance(each, Refused) for each in stage.frames("s1"))
    assert len(master.remote.links.by_number) == 2


@clause("BUS-INIT-11", "BUS-INIT-12")
@pytest.mark.parametrize("seed", range(5))
def test_the_master_knows_all_public_tasks_of_its_machine(seed: int) -> None:
    """With the process of each; private tasks are not announced to it."""
    stage = Stage(slaves=3, seed=seed)
    random = Random(seed)
    public: dict[str, tuple[str, str]] = {}
    for number in range(40):
        process = stage.process(f"s{random.randrange(1, 5)}")
        name = f"t/{random.randrange(15)}"
        if name in public:
            owner = stage.world.processes[public.pop(name)]
            owner.deregister(owner.tasks[name])
        elif number % 5 == 0:
            process.register(f"p/{number}", private=True)
        else:
            process.register(name)
            public[name] = process.key
        stage.soon(0.05)

    stage.soon()

    assert stage.process("s1").remote.name_registry.users.owners() == public
    exported = [each.name for each in stage.frames() if isinstance(each, Export)]
    assert not any(name.startswith("p/") for name in exported)


@clause("BUS-ENT-12")
def test_managers_speak_of_others_on_signalling_links_alone() -> None:
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    d.process.subscribe(d, "**")
    stage.send(d, "f")
    stage.soon()
    f.process.deregister(f)
    stage.soon()

    between = set(stage.types("s2", "s3")) | set(stage.types("s3", "s2"))
    assert between <= {
        *("HELLO", "WELCOME", "OPEN_STREAM", "ADD_RELAY", "UNRELAY", "MSG", "BYE")
    }
    assert "MSG" in between


@clause("BUS-ENT-13")
def test_linked_processes_need_no_master() -> None:
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    stage.process("s1").frozen = True

    commands = stage.send(d, "f", 50) + stage.send(f, "d", 50)
    stage.soon(2.0)

    assert [each.taken_by for each in commands] == [f.id] * 50 + [d.id] * 50


@clause("BUS-SEC-7")
def test_a_process_speaks_for_its_own_tasks_only() -> None:
    """If a slave exports or removes a task of another, only its own link is closed."""
    stage = Stage()
    f = stage.task("f", "s3")
    stage.soon()
    rogue = stage.process("s2")
    for frame in (
        Export(id=f.id, name="x", registered_ns=1),
        Eliminate(id=f.id, name="f"),
    ):
        master = rogue.remote.topology.master()
        assert master is not None
        links = set(rogue.remote.links.by_number)
        master.session.send_control(frame)
        rogue.settle()
        stage.soon(0.05)
        assert set(rogue.remote.links.by_number) != links
        rogue.die()
        rogue = stage.world.start("m1", "s2")
        stage.soon(1.0)

    assert stage.process("s1").remote.name_registry.users.owners() == {
        "f": ("m1", "s3")
    }
    sender = stage.task("d", "s2")
    (command,) = stage.send(sender, "f")
    stage.soon()
    assert command.taken_by == f.id
