"""Relays: created once per registration, bounded, informed of extracted messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import pytest

from bus.errors import BusFullError, UnresolvedError
from bus.kernel.peer.relay import RelayState
from bus.kernel.wire import Ack, AddRelay, Batch, Characteristics
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage, errors_of

if TYPE_CHECKING:
    from bus.kernel.peer.relay import Relay
    from bus.model.message import Incoming
    from tests.simulate.process import SimTask


def pair(stage: Stage) -> tuple[SimTask, SimTask]:
    """Return tasks of two slaves, with a relay of one in the process of the other."""
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    stage.send(d, "f")
    stage.soon()
    stage.forget()
    return d, f


@clause("BUS-RELAY-3", "BUS-RELAY-4")
def test_a_relay_is_made_once_for_a_registration() -> None:
    """A repeated ADD_RELAY changes nothing; a new registration gets a new relay."""
    stage = Stage()
    pair(stage)
    here, there = stage.process("s2"), stage.process("s3")
    relay = stage.relays("s2")["f"]
    about = relay.characteristics
    assert isinstance(about, Characteristics)

    for _ in range(2):
        peer = there.remote.topology.peers[here.key]
        peer.session.send_control(AddRelay(task=about))
        there.settle()
        stage.soon()
    assert stage.relays("s2") == {"f": relay}

    there.deregister(there.tasks["f"])
    again = stage.task("f", "s3")
    (command,) = stage.send(here.tasks["d"], "f")
    stage.soon()
    assert command.taken_by == again.id
    assert stage.relays("s2")["f"] is not relay
    assert stage.relays("s2")["f"].entry.id == again.id


@clause("BUS-RELAY-3")
def test_a_task_that_left_keeps_one_relay_for_all_its_queued_messages() -> None:
    """Some messages wait for the window, others have just found their addressee."""
    stage = Stage()
    pair(stage)
    d, f = stage.process("s2").tasks["d"], stage.process("s3").tasks["f"]
    stage.hold(f)
    commands = stage.send(d, "f", 2 * CONFIG.window)
    commands += stage.send(stage.task("x", "s2"), "y") + stage.send(d, "y", 2)
    stage.soon()

    d.process.deregister(d)
    stage.soon()
    y = stage.task("y", "s3")
    stage.soon()
    peer = f.process.remote.topology.peers["m1", "s2"]
    of_d = [each for each in peer.relays.values() if each.entry.id == d.id]
    assert len(of_d) == 1

    stage.release(f)
    stage.soon()
    taken = [each.taken_by for each in commands]
    assert taken == [f.id] * 2 * CONFIG.window + [y.id] * 3


@clause("BUS-RELAY-5")
def test_a_private_task_gets_answers_and_nothing_else() -> None:
    """A lookup by name does not find its relay."""
    stage = Stage()
    p, e = stage.task("p", "s2", private=True), stage.task("e", "s3")
    stage.soon()

    (question,) = stage.send(p, "e", asks=True)
    stage.soon()
    for message in e.kept:
        e.process.answer(message)
    e.process.settle()
    commands = [
        stage.send(stage.task(f"d/{each}", each), "p")[0] for each in ("s1", "s2")
    ]
    commands += stage.send(e, "p")
    stage.soon(6.0)

    assert question.answers == 1
    assert stage.relays("s3")["p"].state is RelayState.UNNAMED
    assert errors_of(commands) == [UnresolvedError] * 3


@clause("BUS-MOVE-5")
@pytest.mark.parametrize("unread", [0, CONFIG.window])
def test_commands_not_sent_yet_go_to_another_task_that_takes_the_name(
    unread: int,
) -> None:
    """Once the former holder has taken the commands under way to it, if any."""
    stage = Stage()
    d, f = pair(stage)
    stage.hold(f)
    early = stage.send(d, "f", unread)
    rest = stage.send(d, "f", 2) if unread else []
    stage.soon()
    stage.process("s1").frozen = True  # so that two tasks have the name
    late = stage.task("f", "s2")
    rest += stage.send(d, "f")
    stage.soon()
    assert [each.taken_by for each in rest] == (
        [None] * len(rest) if unread else [late.id]
    )

    stage.release(f)
    stage.soon()

    assert [each.taken_by for each in early] == [f.id] * unread
    assert [each.taken_by for each in rest] == [late.id] * len(rest)


@clause("BUS-MSG-6", "BUS-MOVE-7")
def test_a_task_that_loses_its_name_before_commands_may_go_to_it_gets_its_answer() -> (
    None
):
    """Commands wait: one for the previous holder of the name is still under way."""
    stage = Stage(slaves=3)
    d, f = pair(stage)
    other = stage.task("e", "s4")
    stage.send(other, "d")
    stage.soon()
    stage.hold(f)
    stage.send(d, "f")
    stage.soon()
    stage.process("s1").frozen = True  # so that several tasks have the name
    late = stage.task("f", "s4")
    stage.send(late, "d")
    stage.soon()
    assert not stage.relays("s2")["f"].opened
    stage.task("f", "s2")
    stage.soon()

    (question,) = stage.send(late, "d", asks=True)
    stage.soon()
    for message in d.kept:
        d.process.answer(message)
    d.process.settle()
    stage.soon()

    assert question.answers == 1


@clause("BUS-MSG-1", "BUS-CHAN-6")
@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_messages_that_several_tasks_send_together_keep_their_senders(
    *, known: bool, asks: bool
) -> None:
    """Even if the peer does not know the senders yet, and one of them sends in between.

    asks: True if each message wants an answer, and so is posted by itself.
    """
    stage = Stage()
    pair(stage)
    f = stage.process("s3").tasks["f"]
    senders = [stage.task(name, "s2") for name in ("a", "b")]
    if known:
        for each in senders:
            stage.send(each, "f")
    stage.soon()
    stage.hold(f)
    sent = [
        each for sender in senders * 2 for each in stage.send(sender, "f", asks=asks)
    ]
    stage.soon()

    assert [each.payload for each in f.items] == [each.number for each in sent]
    assert [each.sender.module for each in f.items] == list("abab")

    # The window is full; the other messages wait until it has room for them.
    assert len(f.items) == CONFIG.window
    stage.send(senders[0], "f", 3)
    stage.send(stage.task("c", "s2"), "f")
    seen, take = list[str](), f.take

    def taking(message: Incoming) -> None:
        seen.append(message.sender.module)
        take(message)

    f.take = taking  # type: ignore[method-assign]
    stage.release(f)
    stage.soon()
    assert seen == list("ababaaac")


@clause("BUS-MSG-1", "BUS-CHAN-6", "BUS-FLOW-7")
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_sender_is_announced_though_others_send_to_more_relays(seed: int) -> None:
    """Two tasks' commands wait for the first link; one has a second relay."""
    stage = Stage(seed=seed)
    stage.task("f", "s3")
    stage.task("g", "s3")
    a, b = stage.task("a", "s2"), stage.task("b", "s2")
    stage.soon()

    sent = stage.send(a, "f") + stage.send(b, "f") + stage.send(a, "g")
    stage.soon()

    assert all(command.taken_by is not None for command in sent)
    topology = stage.process("s2").remote.topology
    assert (topology.counters.posted, topology.counters.taken) == (3, 3)
    for peer in list(topology.peers.values()):
        for _ in range(2):  # the second time, it is gone
            topology.drop_peer(peer, stage.world.now)
    assert not topology.peers
    assert (topology.counters.posted, topology.counters.taken) == (3, 3)


@clause("BUS-RELAY-2", "BUS-CHAN-6")
def test_messages_for_several_tasks_that_arrive_together_reach_each_task() -> None:
    stage = Stage()
    pair(stage)
    d, f = stage.process("s2").tasks["d"], stage.process("s3").tasks["f"]
    g = stage.task("g", "s3")
    stage.send(d, "g")
    stage.soon()
    stage.hold(f)
    stage.hold(g)

    commands = [(to, stage.send(d, to)) for to in ("f", "g", "f", "f", "g")]
    stage.soon()

    for task in (f, g):
        sent = [command.number for to, [command] in commands if to == task.name]
        assert [each.payload for each in task.items] == sent


@clause("BUS-RELAY-9", "BUS-RELAY-11")
def test_unread_messages_fill_the_window_and_no_more() -> None:
    """Acknowledged when extracted, not on arrival; other tasks continue."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    g = stage.task("g", "s3")
    stage.hold(f)
    stage.soon()

    commands = stage.send(d, "f", 3 * CONFIG.window)
    stage.soon()
    relay = stage.relays("s2")["f"]
    assert len(relay.unacked) == CONFIG.window
    assert len(f.items) == CONFIG.window
    assert len(relay.queue) == 2 * CONFIG.window
    others = stage.send(d, "g", 3 * CONFIG.window)
    stage.soon()
    assert [each.taken_by for each in others] == [g.id] * len(others)

    stage.release(f)
    stage.soon()
    assert [each.taken_by for each in commands] == [f.id] * len(commands)
    assert not relay.unacked


@clause("BUS-RELAY-9")
def test_one_acknowledgement_covers_many_extracted_messages() -> None:
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s1")
    stage.send(d, "f")
    stage.soon()
    stage.forget()
    stage.world.reading = 0.0

    stage.send(d, "f", CONFIG.window)
    stage.soon()

    acks = [each for each in stage.frames("s1") if isinstance(each, Ack)]
    assert f.items == type(f.items)()
    assert len(acks) < CONFIG.window
    assert acks[-1].extracted[0][1] == CONFIG.window + 1


@pytest.mark.deep
@clause("BUS-RELAY-10", "BUS-MOVE-8")
@pytest.mark.parametrize("seed", range(20))
def test_a_link_that_is_lost_loses_nothing(seed: int) -> None:
    """Both processes live: traffic resumes on the next link, in order and once."""
    stage = Stage(seed=seed)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    commands = stage.send(d, "f")
    stage.soon()
    for round_ in range(4):
        commands += stage.send(d, "f", 5) + stage.send(f, "d", 2)
        stage.soon(0.004 * round_)
        stage.cut("s2", "s3")
        stage.soon(0.12)

    stage.soon()

    assert all(command.taken_by for command in commands)
    assert errors_of(commands) == [None] * len(commands)
    assert stage.links("s2", "s3") == 1


@clause("BUS-RELAY-10")
def test_numbers_go_on_from_link_to_link() -> None:
    stage = Stage()
    pair(stage)
    stage.cut("s2", "s3")
    stage.soon()
    d = stage.process("s2").tasks["d"]

    stage.send(d, "f")
    stage.soon()

    batches = [each for each in stage.frames("s2", "s3") if isinstance(each, Batch)]
    assert [(each.first, each.count) for each in batches] == [(2, 1)]


@clause("BUS-RELAY-12")
def test_a_task_that_needed_no_search_is_announced_before_its_first_message() -> None:
    stage = Stage()
    pair(stage)
    other = stage.task("other", "s2")
    stage.soon()
    stage.forget()

    (command,) = stage.send(other, "f", asks=True)
    stage.soon()

    assert stage.types("s2", "s3")[:2] == ["ADD_RELAY", "MSG"]
    assert command.taken_by is not None


@clause("BUS-FLOW-1", "BUS-FLOW-2")
def test_messages_queued_in_a_relay_are_bounded() -> None:
    """Messages beyond the bound are refused; all accepted messages arrive."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.hold(f)
    stage.send(d, "f")
    stage.soon()

    fits = CONFIG.window - 1 + CONFIG.task_fifo_messages
    commands = stage.send(d, "f", fits + 2)
    stage.soon()
    assert errors_of(commands) == [None] * fits + [BusFullError] * 2

    stage.release(f)
    stage.soon(2.0)
    assert all(each.taken_by == f.id for each in commands[:fits])


def kept(relay: Relay) -> int:
    """Count everything that a relay holds, in whatever field."""
    fields = [getattr(relay, each) for each in relay.__slots__]
    return sum(len(each) for each in fields if isinstance(each, Collection))


@clause("BUS-ENT-17", "BUS-FLOW-1", "BUS-FLOW-5")
@pytest.mark.parametrize("leaves", [False, True])
def test_of_an_answer_that_is_too_late_nothing_is_kept(*, leaves: bool) -> None:
    """Though another message to the host is under way, or the asker has left."""
    stage = Stage()
    other, f = stage.task("other", "s2"), stage.task("f", "s3")
    d = stage.task("d", "s2") if leaves else other
    stage.send(other, "f")
    stage.soon()
    relay = stage.relays("s2")["f"]
    before = kept(relay)

    commands = [d.process.command(d, "f", asks=True, timeout=2.0) for _ in range(60)]
    stage.soon(1.5)
    late = [each for each in commands if not each.answers]
    assert [each.payload for each in f.kept] == [each.number for each in late]
    assert len(relay.asked) == len(late) >= 10
    stage.soon(1.0)
    assert not relay.asked
    stage.hold(f)
    stage.send(other, "f")
    stage.soon()
    for question in f.kept:
        f.process.answer(question)
    f.process.settle()
    stage.soon()
    assert len(relay.unacked) == 1
    stage.release(f)
    stage.soon(1.0)  # until the last extraction is acknowledged
    if leaves:
        d.process.deregister(d)
        stage.soon()

    assert kept(relay) == before


@clause("BUS-ENT-17", "BUS-DEREG-1")
def test_a_relay_keeps_no_question_of_a_deregistered_task() -> None:
    """The question is under way when its asker leaves, and is extracted afterwards."""
    stage = Stage()
    d, other, f = stage.task("d", "s2"), stage.task("o", "s2"), stage.task("f", "s3")
    stage.send(other, "f")
    stage.soon()
    relay = stage.relays("s2")["f"]
    before = kept(relay)
    stage.hold(f)
    stage.send(d, "f", 2, asks=True)
    stage.soon()
    assert len(relay.unacked) == 2

    d.process.deregister(d)
    stage.release(f)
    stage.soon()

    assert not relay.unacked
    assert kept(relay) == before


@clause("BUS-MSG-6", "BUS-MSG-7", "BUS-FLOW-4")
@pytest.mark.parametrize("where", ["s1", "s2", "s3"])
def test_an_answer_goes_back_however_much_waits(where: str) -> None:
    """At once or later, over any path of the question, and once for each."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", where)
    stage.soon()
    commands = stage.send(d, "f", 30, asks=True)
    stage.soon(1.0)
    stage.hold(d)
    for message in f.kept:
        f.process.answer(message)
    f.process.settle()
    stage.soon()

    assert [each.answers for each in commands] == [1] * 30
