"""A peer that sends arbitrary frames at any time: only its link is closed."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from bus.features.subscriptions.frames import Subscribe, Unexport, Unsubscribe
from bus.kernel import wire
from bus.model.message import Kind
from bus.model.registration import RegistrationId
from specs.clauses import clause
from tests.kernel.golden import FRAMES
from tests.simulate.stage import Stage

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action
    from bus.kernel.wire import Frame
    from tests.simulate.process import SimProcess

ROUNDS = 30


def plausible(random: Random, me: SimProcess) -> list[Frame]:
    """Return nearly valid frames, about tasks of this peer or of others."""
    machine, name = random.choice((("m1", "s2"), ("m1", "s3"), ("m2", "s1")))
    number = random.choice((1, 2, 10**9 + 3, 10**9 + 5))
    id_ = RegistrationId(machine, name, number)
    task = wire.Characteristics(
        relay=random.randrange(3),
        id=id_,
        name=random.choice("dfz"),
        incarnation=random.choice((1, 10**9 + 1, 10**9 + 4, 2**60)),
    )
    request = wire.RequestId(machine=machine, process=name, number=number)
    words = wire.Run(
        to=random.randrange(3),
        source=random.randrange(3),
        kind=random.choice(list(Kind)),
        flags=random.choice((*range(4), wire.RAW, wire.RAW | wire.WANTS_REPLY)),
        id=1,
        milliseconds_left=random.choice((0, wire.NO_DEADLINE)),
        hop=0,
        bodies=[b"\x01"] * random.randint(1, 2),
    )
    epoch = random.choice((1, 10**9, 10**9 + 1, 10**9 + 4))
    first = random.randrange(1, 4)
    return [
        wire.AddRelay(task=task, search=random.choice((None, request))),
        wire.AddRelay(task=task, search=request, addresses=("m1/s9",)),
        wire.Unrelay(relay=task.relay, extracted=random.randrange(4)),
        wire.Dismiss(relay=task.relay),
        wire.Dismissed(relay=task.relay),
        wire.Gap(relay=task.relay, count=number),
        wire.Search(id=request, machine="m1", name="f", sender=task, hops=3),
        wire.Cancel(id=request),
        wire.Export(id=id_, name=task.name, registered_ns=number),
        Unexport(id=id_),
        wire.Eliminate(id=id_, name=task.name),
        Subscribe(id=request, specification="**", subscriber=task, hops=3),
        Unsubscribe(id=request),
        wire.Ack(epoch=epoch, incarnation=me.life, last=first, controls=first),
        wire.Ack(epoch=epoch, incarnation=1, last=0, extracted=((0, 1), (1, 2))),
        wire.Batch(epoch, me.life, first, first, [words] * random.randrange(3)),
        wire.OpenStream(
            epoch=epoch, nonce=1, incarnation=me.life, first=1, window=8, controls=first
        ),
    ]


@pytest.mark.deep
@clause("BUS-WIRE-4")
@pytest.mark.parametrize("greeted", [False, True], ids=["unknown", "known"])
@pytest.mark.parametrize("seed", range(150))
def test_whatever_a_peer_says_the_process_goes_on(seed: int, greeted: bool) -> None:
    """Before and after the handshake; two other processes are not affected."""
    random = Random(seed)
    stage = Stage(slaves=3, seed=seed)
    d, f = stage.task("d", "s3"), stage.task("f", "s4")
    stage.send(d, "f")
    stage.soon()
    me = stage.process("s1")
    if greeted:
        number = me.remote.topology.peers["m1", "s2"].session.link
        assert number is not None
    else:
        number = 10**6
        me.do(_quiet(me.remote.on_link_accepted(number, stage.world.now)))
    hello = FRAMES["HELLO"]
    assert isinstance(hello, wire.Hello)
    rogue = replace(
        hello.identity, bus="bus1", machine="m1", machine_id="m1", process="s2"
    )
    handshake = replace(hello, identity=rogue, versions=wire.VERSIONS)

    for _ in range(ROUNDS):
        frames = [*FRAMES.values(), handshake] + 3 * plausible(random, me)
        frame = random.choice(frames)
        sent = wire.decode(wire.encode(frame))
        me.do(_quiet(me.remote.receive(number, sent, stage.world.now)))
        me.do(_quiet(me.remote.flush(stage.world.now)))
        stage.world.checks.step(me)

    (command,) = stage.send(d, "f")
    stage.soon()
    assert command.taken_by == f.id


def _quiet(actions: list[Action]) -> list[Action]:
    """Drop the actions for the simulated peer, which no process plays here."""
    kept = {"Open", "Vacate"}
    return [each for each in actions if type(each).__name__ in kept]
