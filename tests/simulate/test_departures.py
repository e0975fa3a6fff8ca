"""Departures: tasks and processes that leave, move or are lost, and their messages."""

from __future__ import annotations

from functools import partial

import pytest

from bus.errors import AddresseeGoneError, InDoubtError, NameTakenError, PeerLostError
from bus.kernel.streams.incoming_streams import Refusal
from bus.kernel.wire import Eliminate, LinkKind, Unrelay
from specs.clauses import clause
from tests.simulate.process import CONFIG
from tests.simulate.stage import Stage, errors_of


@clause("BUS-DEREG-2", "BUS-DEREG-3", "BUS-DEREG-6")
def test_every_process_is_notified_once_of_a_deregistration() -> None:
    """Each process on each machine learns it once; only the relays of that task end."""
    stage = Stage(machines=3)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    g = stage.task("g", "s3")
    stage.soon()
    for to in ("f", "g"):
        stage.send(d, to)
    stage.soon()
    stage.forget()

    f.process.deregister(f)
    stage.soon()

    told_of = [
        receiver.name
        for _, receiver, frame in stage.world.frames or ()
        if isinstance(frame, Eliminate) and frame.id == f.id and receiver is not None
    ]
    others = {each.name for each in stage.world.living()} - {"m1/s3"}
    assert sorted(told_of) == sorted(others)
    assert stage.relays("s2")["g"].entry.id == g.id
    assert set(stage.relays("s2")) == {"g"}


@pytest.mark.deep
@clause("BUS-ENT-17")
def test_however_many_tasks_have_left_nothing_of_them_is_kept() -> None:
    """Each of the tasks has extracted a message from the same process."""
    stage = Stage()
    d = stage.task("d", "s2")
    for number in range(30):
        task = stage.task(f"f{number}", "s3")
        stage.soon()
        [command] = stage.send(d, f"f{number}")
        stage.soon()
        assert command.taken_by is not None
        task.process.deregister(task)
        stage.soon()

    peers = stage.process("s3").remote.topology.peers.values()
    assert [len(each.acks.extracted) for each in peers] == [0] * len(peers)


@pytest.mark.deep
@clause("BUS-DEREG-4", "BUS-DEREG-8", "BUS-MOVE-4")
@pytest.mark.parametrize("to", ["s1", "s2", "s3", "s4"])
@pytest.mark.parametrize("seed", range(5))
def test_unread_commands_follow_the_name_to_its_next_holder(to: str, seed: int) -> None:
    """In order and once each, whether sent or still queued, wherever the name moves."""
    stage = Stage(slaves=3, seed=seed)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    commands = stage.send(d, "f", 2)
    stage.soon()
    stage.hold(f)
    commands += stage.send(d, "f", 3 * CONFIG.window)
    stage.soon()

    f.process.deregister(f)
    commands += stage.send(d, "f", 2)
    stage.soon()
    commands += stage.send(d, "f", 2)
    again = stage.task("f", to)
    stage.soon()

    taken = [command.taken_by for command in commands]
    assert taken == [f.id] * 2 + [again.id] * (len(commands) - 2)


@clause("BUS-DEREG-4")
@pytest.mark.parametrize("late", ["s1", "s2"])
def test_it_does_not_matter_which_news_of_a_departure_comes_first(late: str) -> None:
    """ELIMINATE by the master and UNRELAY on the link may arrive in either order."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    commands = stage.send(d, "f", CONFIG.window)
    stage.soon()
    held = stage.process(late)

    commands += stage.send(d, "f", CONFIG.window)
    stage.soon(0.006)
    held.frozen = True
    f.process.deregister(f)
    stage.soon(0.1)
    held.thaw()
    stage.soon(0.1)
    again = stage.task("f", "s1")
    stage.soon()

    assert {command.taken_by for command in commands} <= {f.id, again.id}
    stage.soon(1.0)
    stage.world.checks.rest()


@clause("BUS-DEREG-4", "BUS-DEREG-8")
def test_two_tasks_that_leave_while_they_exchange_commands_lose_none() -> None:
    """Neither waits for the other to extract messages that it never will."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    stage.hold(d)
    stage.hold(f)
    commands = stage.send(d, "f", 2 * CONFIG.window) + stage.send(
        f, "d", 2 * CONFIG.window
    )
    stage.soon()

    for each in (d, f):
        each.process.deregister(each)
    # No search is made for a departed sender. Commands of other tasks start the
    # search that its unread messages need.
    commands += stage.send(stage.task("x", "s2"), "f")
    commands += stage.send(stage.task("y", "s3"), "d")
    stage.soon()
    home = {"d": stage.task("d", "s1"), "f": stage.task("f", "s1")}
    stage.soon()

    assert [each.taken_by for each in commands] == [
        home[each.to].id for each in commands
    ]
    stage.soon(10.0)
    stage.world.checks.rest()


@clause("BUS-DEREG-8")
def test_unread_commands_of_a_final_deregistration_fail_at_every_sender() -> None:
    stage = Stage()
    senders = [stage.task(f"d/{each}", each) for each in ("s1", "s2", "s3")]
    f = stage.task("f", "s3")
    stage.hold(f)
    stage.soon()
    commands = [stage.send(each, "f", 2) for each in senders]
    stage.soon()

    f.process.deregister(f, final=True)
    stage.soon()

    assert [errors_of(each) for each in commands] == [[AddresseeGoneError] * 2] * 3


@clause("BUS-DEREG-7")
def test_late_news_of_a_departure_concern_no_newer_registration() -> None:
    """A repeated report, after the name was registered again, changes nothing."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    number = f.entry.relay
    f.process.deregister(f)
    again = stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    relay = stage.relays("s2")["f"]

    for peer in f.process.remote.topology.peers.values():
        peer.session.send_control(Unrelay(relay=number, extracted=0))
        if peer.joined:
            peer.session.send_control(Eliminate(id=f.id, name="f"))
    f.process.settle()
    stage.soon()

    assert stage.relays("s2")["f"] is relay
    assert relay.entry.id == again.id
    users = stage.process("s1").remote.name_registry.users
    assert users.owners()["f"] == ("m1", "s3")


@clause("BUS-DEREG-9", "BUS-MOVE-8")
def test_commands_sent_to_a_lost_process_are_in_doubt() -> None:
    """Messages in doubt are never sent again; queued ones wait for the next holder."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    asked = stage.send(d, "f")
    asked[0].asks = True
    f.process.event(list)
    stage.soon()
    stage.hold(f)
    commands = stage.send(d, "f", CONFIG.window + 2)
    stage.soon()

    f.process.die()
    stage.soon(1.0)
    assert errors_of(commands[: CONFIG.window]) == [InDoubtError] * CONFIG.window
    assert stage.relays("s2") == {}
    assert stage.process("s1").remote.name_registry.users.owners() == {
        "d": ("m1", "s2")
    }
    again = stage.task("f", "s1")
    stage.soon()

    assert [each.taken_by for each in commands[CONFIG.window :]] == [again.id] * 2
    assert all(each.taken_by is None for each in commands[: CONFIG.window])


@clause("AMO-21")
def test_of_a_process_that_is_lost_nothing_is_remembered_for_ever() -> None:
    """Its streams are remembered only while its messages may be under way."""
    stage = Stage(ENDED_STREAM_S=5.0)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.send(f, "d")
    stage.soon()
    streams = d.process.remote.inbound_messages._streams

    f.process.die()
    stage.soon(4.0)
    assert streams.accept("m1/s3", 1, d.process.life, 1, [], 1) is Refusal.NOT_OPEN
    assert set(streams._senders) == {"m1/s1", "m1/s3"}
    stage.soon(4.0)

    assert set(streams._senders) == {"m1/s1"}


@clause("BUS-DEREG-9")
def test_an_asker_that_awaits_an_answer_of_a_lost_process_receives_an_error() -> None:
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    failed: list[tuple[int, type[Exception]]] = []
    counters = stage.world.counters
    note = counters.reported

    def told_too(number: int, error: Exception) -> None:
        failed.append((number, type(error)))
        note(number, error)  # type: ignore[arg-type]  # unchanged

    counters.reported = told_too  # type: ignore[method-assign]  # records the errors
    while not f.kept:
        stage.send(d, "f", asks=True)
        stage.soon()
    waiting = {message.payload for message in f.kept}

    f.process.die()
    stage.soon(1.0)

    assert {number for number, kind in failed if kind is PeerLostError} == waiting


@clause("BUS-DEREG-4", "BUS-FLOW-5")
def test_a_question_to_a_task_that_left_is_forgotten_at_its_deadline() -> None:
    """Also while messages of that task still wait, so that its relay stays."""
    stage = Stage()
    d, g = stage.task("d", "s2"), stage.task("g", "s2")
    f = stage.task("f", "s3")
    stage.soon()
    while not f.kept:
        d.process.command(d, "f", asks=True, timeout=5.0)
        stage.soon()
    stage.hold(g)
    stage.send(f, "g", 3 * CONFIG.window)
    stage.soon()
    relay = stage.relays("s2")["f"]
    assert relay.asked

    f.process.deregister(f)
    stage.soon()
    assert stage.relays("s2")["f"] is relay
    assert relay.asked
    stage.soon(10.0)
    assert not relay.asked

    stage.release(g)
    stage.soon()
    assert "f" not in stage.relays("s2")


@clause("BUS-MOVE-6")
def test_messages_for_a_task_that_comes_home_take_no_link() -> None:
    """The relay hands its messages over to the local task, and the link is closed."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.hold(f)
    stage.soon()
    commands = stage.send(d, "f", 3 * CONFIG.window)
    stage.soon()

    f.process.deregister(f)
    stage.soon(0.02)
    home = stage.task("f", "s2")
    commands += stage.send(d, "f", 2)
    stage.forget()
    stage.soon()

    assert [each.taken_by for each in commands] == [home.id] * len(commands)
    assert stage.types("s2", "s3").count("MSG") == 0
    stage.soon(3.0)
    assert stage.links("s2", "s3") == 0


@clause("BUS-MOVE-7", "BUS-NAME-7")
def test_a_name_that_is_taken_elsewhere_is_not_taken_again() -> None:
    """The later task is evicted and informed; the earlier one is not affected."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()

    stage.task("f", "s2")
    stage.soon()
    assert "f" not in stage.process("s2").tasks
    assert stage.process("s1").register("f") is None
    (command,) = stage.send(d, "f")
    stage.soon()

    assert command.taken_by == f.id
    stage.process("s3").die()
    stage.soon(1.0)
    assert stage.process("s1").register("f") is not None
    with pytest.raises(NameTakenError):
        stage.process("s1").remote.task_announcer.claim("d")


@clause("BUS-MOVE-7", "BUS-DEREG-4")
def test_a_name_that_is_claimed_again_and_again_loses_no_message() -> None:
    """Each claim is made while messages to the holder are still under way."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.send(d, "f")
    stage.soon()
    stage.hold(f)
    commands = stage.send(d, "f", CONFIG.window)
    stage.soon()

    for _ in range(3):
        stage.task("f", "s2")
        stage.soon()
        assert "f" not in stage.process("s2").tasks
        commands += stage.send(d, "f")
        stage.soon()
    stage.release(f)
    stage.soon()

    assert [each.taken_by for each in commands] == [f.id] * len(commands)
    f.process.deregister(f)
    stage.soon(2.0)
    stage.world.checks.rest()


@pytest.mark.deep
@clause("BUS-MOVE-8")
@pytest.mark.parametrize("after", [0.001 * number for number in range(0, 40, 2)])
def test_nothing_is_delivered_twice_wherever_a_process_is_lost(after: float) -> None:
    """Killed at any point: each message is taken, in doubt, or reported unsent."""
    stage = Stage()
    d = stage.task("d", "s2")
    stage.task("f", "s3")
    stage.soon()
    commands = stage.send(d, "f", 2 * CONFIG.window)

    stage.soon(after)
    stage.process("s3").die()
    stage.soon(8.0)

    assert all(each.taken_by or each.reported for each in commands)


@clause("BUS-DEREG-4", "BUS-FLOW-7")
def test_messages_under_way_wait_for_the_process_of_their_addressee() -> None:
    """An ELIMINATE that arrives first does not decide.

    The relay is still provisional: its task has extracted no message yet.
    """
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.hold(f)
    (command,) = stage.send(d, "f")
    stage.soon()
    (relay,) = stage.relays("s2").values()
    assert relay.provisional
    assert relay.unacked

    stage.cut("s2", "s3")
    f.process.deregister(f)
    stage.soon(2.0)
    again = stage.task("f", "s1")
    stage.soon()
    assert command.taken_by == again.id


@clause("BUS-DEREG-7", "BUS-ROUTE-12")
def test_a_dial_that_failed_gives_up_the_life_that_was_dialled() -> None:
    """By then a search has found a later life, which must be kept."""
    stage = Stage()
    d = stage.task("d", "s2")
    stage.task("f", "s3")
    stage.soon()
    stage.process("s3").die()
    (command,) = stage.send(d, "f")
    stage.soon(0.004)
    again = stage.world.start("m1", "s3")
    remote = stage.process("s2").remote
    peer = remote.relays.peer_for(again.key, again.life, stage.world.now)
    assert peer is not None
    late = partial(remote.on_dial_failed, LinkKind.DATA, again.key, stage.world.now)
    stage.process("s2").event(late)
    assert remote.topology.peers[again.key] is peer

    stage.soon(1.0)
    task = stage.task("f", "s3")
    stage.soon()
    assert command.taken_by == task.id
