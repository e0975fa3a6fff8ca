"""Cases 3, 4 and 5: how a task of another process is found and reached."""

from __future__ import annotations

import pytest

from bus.errors import UnreachableError, UnresolvedError
from bus.kernel.wire import AddRelay, Batch, Cancel, Search
from specs.clauses import clause
from tests.simulate.stage import SOON_S, Stage, errors_of


@clause("BUS-ROUTE-6", "BUS-RELAY-1", "BUS-RELAY-12")
def test_a_slave_finds_a_task_of_its_master() -> None:
    """One search, one answer, then messages: the search has introduced the asker."""
    stage = Stage()
    c, d = stage.task("c", "s1"), stage.task("d", "s2")
    stage.soon()
    stage.forget()

    commands = stage.send(d, "c", asks=True)
    stage.soon()

    assert stage.types("s2", "s1") == ["SEARCH", "MSG"]
    assert stage.types("s1", "s2")[:1] == ["ADD_RELAY"]
    assert stage.types("s1", "s3") == []
    (search,) = (each for each in stage.frames("s2") if isinstance(each, Search))
    assert (search.name, search.sender.id) == ("c", d.id)
    (answer,) = (each for each in stage.frames("s1") if isinstance(each, AddRelay))
    assert (answer.task.id, answer.search, answer.addresses) == (c.id, search.id, ())
    assert commands[0].taken_by == c.id
    assert set(stage.relays("s2")) == {"c"}
    assert set(stage.relays("s1")) == {"d"}

    stage.forget()
    stage.send(d, "c")
    stage.soon()
    assert stage.types("s2") == ["MSG"]


@clause("BUS-ROUTE-7")
def test_a_name_is_searched_for_once_at_a_time() -> None:
    stage = Stage()
    senders = [stage.task(name, "s2") for name in ("d", "d/x", "d/y")]
    stage.task("c", "s1")
    stage.soon()
    stage.forget()

    commands = [command for each in senders for command in stage.send(each, "c", 9)]
    stage.soon()

    assert stage.types("s2").count("SEARCH") == 1
    assert all(command.taken_by for command in commands)


@clause("BUS-ROUTE-8")
def test_a_master_finds_a_task_of_a_slave() -> None:
    """Over the existing link: no other one is made."""
    stage = Stage()
    a, e = stage.task("a", "s1"), stage.task("e", "s3")
    stage.soon()
    stage.forget()

    commands = stage.send(a, "e")
    stage.soon()

    assert stage.types("s1", "s3") == ["SEARCH", "MSG"]
    assert stage.types("s3", "s1") == ["ADD_RELAY"]
    assert commands[0].taken_by == e.id
    assert stage.links("s1", "s3") == 1


@clause("BUS-ROUTE-9", "BUS-RELAY-1")
def test_a_slave_finds_a_task_of_another_slave() -> None:
    """The master forwards search and answer, but no message."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    stage.forget()

    commands = stage.send(d, "f", 3)
    stage.soon()

    assert stage.types("s1", "s3") == ["SEARCH"]
    assert stage.types("s1", "s2") == ["ADD_RELAY"]
    answers = [each for each in stage.frames() if isinstance(each, AddRelay)]
    assert answers[0].addresses == answers[1].addresses == ("m1/s3",)
    assert stage.types("s2", "s3") == ["HELLO", "OPEN_STREAM", "ADD_RELAY", "MSG"]
    assert stage.types("s3", "s2") == ["WELCOME", "OPEN_STREAM"]
    assert [each.taken_by for each in commands] == [f.id] * 3
    assert stage.relays("s1") == {}
    assert (set(stage.relays("s2")), set(stage.relays("s3"))) == ({"f"}, {"d"})
    assert stage.links("s2", "s3") == 1


@clause("BUS-ROUTE-10")
def test_only_the_host_of_a_public_task_answers() -> None:
    """Neither does a relay of it, nor a private task of that name."""
    stage = Stage(slaves=3)
    f = stage.task("f", "s3")
    near, far = stage.task("a", "s1"), stage.task("d", "s2")
    stage.task("f", "s4", private=True)
    stage.send(near, "f")
    stage.soon()
    assert "f" in stage.relays("s1")
    stage.forget()

    (command,) = stage.send(far, "f")
    stage.soon()

    answers = [
        sender.key[1]
        for sender, _, frame in stage.world.frames or ()
        if isinstance(frame, AddRelay) and frame.search is not None
    ]
    assert answers == ["s3", "s1"]  # s1 forwards
    assert command.taken_by == f.id


@pytest.mark.deep
@clause("BUS-ROUTE-11")
@pytest.mark.parametrize("seed", range(40))
def test_two_processes_that_find_one_another_at_once_share_one_link(seed: int) -> None:
    """Whichever dials first; each message arrives once, in order."""
    stage = Stage(seed=seed)
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()

    stage.forget()
    commands = stage.send(d, "f", 3) + stage.send(f, "d", 3)
    stage.soon()

    assert stage.links("s2", "s3") == 1
    assert stage.types().count("HELLO") <= 2
    assert [each.taken_by for each in commands] == [f.id] * 3 + [d.id] * 3


@clause("BUS-ROUTE-11")
def test_all_pairs_of_tasks_of_two_processes_share_one_link() -> None:
    stage = Stage()
    here = [stage.task(name, "s2") for name in ("d", "d/x")]
    there = [stage.task(name, "s3") for name in ("f", "g")]

    for one in here:
        for other in there:
            stage.send(one, other.name)
            stage.send(other, one.name)
            stage.soon()

    assert stage.links("s2", "s3") == 1


@clause("BUS-ROUTE-12")
def test_a_task_that_was_searched_for_can_send_before_there_is_a_link() -> None:
    """The relay of the searcher exists as soon as its search is answered."""
    stage = Stage()
    d, f = stage.task("d", "s2"), stage.task("f", "s3")
    stage.soon()
    stage.world.network.slow = 0.2

    stage.send(d, "f")
    while "d" not in stage.relays("s3"):
        stage.soon(0.01)
    assert stage.links("s2", "s3") == 0
    (command,) = stage.send(f, "d")
    assert not command.decided
    stage.soon(2.0)

    assert command.taken_by == d.id
    assert stage.links("s2", "s3") == 1


@clause("BUS-ROUTE-12")
def test_messages_that_wait_for_an_impossible_link_fail() -> None:
    stage = Stage()
    d = stage.task("d", "s2")
    stage.task("f", "s3")
    stage.soon()

    commands = stage.send(d, "f", 2)
    while "f" not in stage.relays("s2"):
        stage.soon(0.0005)
    stage.process("s3").die()
    stage.soon(1.0)

    assert errors_of(commands) == [UnreachableError] * 2


@clause("BUS-ROUTE-13")
def test_a_master_forwards_a_search_only_to_the_holder_of_a_known_name() -> None:
    """If it does not know the name, it asks all slaves except the asker."""
    stage = Stage(slaves=3)
    d = stage.task("d", "s2")
    stage.task("f", "s3")
    stage.soon()
    stage.forget()

    stage.send(d, "f")
    stage.soon()
    assert (stage.types("s1", "s3"), stage.types("s1", "s4")) == (["SEARCH"], [])
    stage.forget()
    stage.send(d, "z")
    stage.soon()
    searched = [stage.types("s1", each) for each in ("s2", "s3", "s4")]
    assert searched == [[], ["SEARCH"], ["SEARCH"]]


@clause("BUS-ROUTE-14", "BUS-NAME-4")
def test_a_slave_finds_a_slave_of_another_machine() -> None:
    """Masters forward search and answer; messages go directly."""
    stage = Stage(machines=3)
    d, f = stage.task("d", "s2", "m1"), stage.task("f", "s3", "m2")
    stage.soon()
    stage.forget()

    (command,) = stage.send(d, "ism://m2/f", asks=True)
    stage.soon()

    assert command.taken_by == f.id
    by = [
        (sender.name, frame)
        for sender, _, frame in stage.world.frames or ()
        if isinstance(frame, Search | AddRelay | Batch)
    ]
    assert [name for name, frame in by if isinstance(frame, Search)] == [
        *("m1/s2", "m1/s1", "m2/s1")
    ]
    assert {name for name, frame in by if isinstance(frame, Batch)} <= {
        *("m1/s2", "m2/s3")
    }
    assert not any(name.startswith("m3") for name, _ in by)
    for name in ("m1", "m2"):
        master = stage.process("s1", name)
        master.frozen = True
    (second,) = stage.send(d, "ism://m2/f")
    stage.soon()
    assert second.taken_by == f.id


@clause("BUS-ROUTE-15")
def test_masters_use_the_link_between_them() -> None:
    stage = Stage(machines=2, slaves=0)
    a, b = stage.task("a", "s1", "m1"), stage.task("b", "s1", "m2")

    (command,) = stage.send(a, "ism://m2/b")
    stage.soon()

    assert command.taken_by == b.id
    assert len(stage.world.network.whole()) == 1


@clause("BUS-ROUTE-17")
def test_a_search_goes_one_step_between_masters() -> None:
    """The master of the addressed machine forwards it to its slaves."""
    stage = Stage(machines=4, slaves=1)
    d = stage.task("d", "s2", "m1")
    stage.forget()

    stage.send(d, "ism://m3/z")
    stage.soon()

    ways = [
        (sender.name, receiver.name)
        for sender, receiver, frame in stage.world.frames or ()
        if isinstance(frame, Search) and receiver is not None
    ]
    assert ways == [("m1/s2", "m1/s1"), ("m1/s1", "m3/s1"), ("m3/s1", "m3/s2")]


@clause("BUS-NAME-4")
def test_a_message_for_a_machine_that_is_not_known_waits_for_it() -> None:
    stage = Stage(slaves=1)
    d = stage.task("d", "s2")
    (command,) = stage.send(d, "ism://m2/f")
    stage.soon()

    stage.world.start("m2", "s1", master=True)
    f = stage.task("f", "s1", "m2")
    stage.soon()

    assert command.taken_by == f.id


@clause("BUS-ROUTE-18", "BUS-MOVE-5")
@pytest.mark.parametrize("where", ["s1", "s2", "s3"])
def test_a_task_that_registers_later_answers_a_search(where: str) -> None:
    """Without another search, wherever the searchers and the task are."""
    stage = Stage()
    senders = [stage.task(f"d/{each}", f"s{each}") for each in (1, 2, 3)]
    commands = [stage.send(each, "z", 2) for each in senders]
    stage.soon()
    searches = stage.types().count("SEARCH")

    z = stage.task("z", where)
    stage.soon()

    assert [command.taken_by for each in commands for command in each] == [z.id] * 6
    assert stage.types().count("SEARCH") == searches
    stage.soon(10.0)
    stage.world.checks.rest()


@clause("BUS-ROUTE-18")
def test_a_slave_that_comes_later_is_asked_too() -> None:
    stage = Stage(slaves=1)
    d = stage.task("d", "s2")
    (command,) = stage.send(d, "z")
    stage.soon()

    late = stage.world.start("m1", "s9")
    stage.soon()
    assert [each.name for each in late.remote.resolver.ledger.all()] == ["z"]
    z = stage.task("z", "s9")
    stage.soon()

    assert command.taken_by == z.id


@clause("BUS-ROUTE-19", "BUS-DEREG-11")
def test_a_search_ends_when_no_sender_waits_for_it() -> None:
    """Each sender gets one error, and no process keeps the search."""
    stage = Stage()
    d = stage.task("d", "s2")
    commands = stage.send(d, "z", 3)
    commands.append(d.process.command(d, "y", timeout=0.2))
    stage.soon(0.1)
    assert len(stage.process("s3").remote.resolver.ledger) == 2

    stage.soon(6.0)

    assert errors_of(commands) == [UnresolvedError] * 4
    stage.world.checks.rest()


@clause("BUS-ROUTE-7", "BUS-ROUTE-19")
def test_a_name_is_searched_for_again_for_a_message_that_waits_longer() -> None:
    """The search lasts as long as the messages that waited when it began."""
    stage = Stage()
    d = stage.task("d", "s2")
    brief = d.process.command(d, "z", timeout=0.2)
    stage.soon(0.1)
    (longer,) = stage.send(d, "z")
    stage.soon()

    z = stage.task("z", "s3")
    stage.soon()

    assert errors_of([brief]) == [UnresolvedError]
    assert longer.taken_by == z.id


@clause("BUS-ROUTE-19")
def test_a_search_ends_when_its_task_is_found_by_other_means_and_lost() -> None:
    """A subscription finds it first; no link is made; no message waits any more."""
    stage = Stage()
    d, first = stage.task("d", "s2"), stage.task("z", "s1")
    d.process.subscribe(d, "z")
    stage.soon()
    stage.hold(first)
    (command,) = stage.send(d, "z")
    stage.soon()
    d.process.frozen = True
    first.process.deregister(first)
    second = stage.task("z", "s3")
    stage.soon()
    first.process.frozen = True  # it neither answers the search nor reports the loss
    second.process.die()
    stage.forget()

    d.process.thaw()
    stage.soon()

    assert errors_of([command]) == [UnreachableError]
    (search,) = (each for each in stage.frames("s2") if isinstance(each, Search))
    assert Cancel(id=search.id) in stage.frames("s2")
    assert not len(d.process.remote.resolver.ledger)


@clause("BUS-DEREG-11")
def test_the_search_of_a_task_that_leaves_goes_on_for_others_only() -> None:
    stage = Stage()
    one, other = stage.task("d", "s2"), stage.task("e", "s2")
    stage.send(one, "y")
    stage.send(one, "z")
    (command,) = stage.send(other, "z")
    stage.soon()
    stage.forget()

    one.process.deregister(one)
    stage.soon()

    searches = [each for each in stage.frames("s2") if isinstance(each, Search)]
    assert [(each.name, each.sender.id) for each in searches] == [("z", other.id)]
    assert sum(isinstance(each, Cancel) for each in stage.frames("s2")) == 2
    z = stage.task("z", "s3")
    stage.soon(SOON_S)
    assert command.taken_by == z.id
