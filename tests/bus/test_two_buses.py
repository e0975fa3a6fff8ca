"""Messages over two buses of one process, to and from other processes (BUS-NAME-5)."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus import (
    NOREPLY,
    Bus,
    Incoming,
    NotJoinedError,
    RemoteError,
    Response,
)
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, join_both
from tests.kit.comm_threads import comm_of, held
from tests.kit.inspection import all_acknowledged, unbalanced
from tests.kit.serving import serve
from tests.kit.tasks import Reader, unwanted
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def two_buses() -> Iterator[tuple[Bus, Bus, Bus]]:
    """Give a process's buses one and two, and another process of bus two."""
    with (
        memory_bus("one", config=PATIENT) as one,
        memory_bus("two", config=PATIENT) as two,
        memory_bus("two", process="other", beside=two, config=PATIENT) as other,
    ):
        join_both(one, two)
        yield one, two, other
        assert unbalanced(two.inspect()) == unbalanced(other.inspect()) == []


def keeper(held: list[Incoming]) -> Callable[[Incoming], object]:
    """Return a callback that keeps each command, to be answered later."""

    def keep(message: Incoming) -> object:
        held.append(message)
        return NOREPLY

    return keep


def proxies(bus: Bus) -> int:
    """Return how many tasks of other buses have a proxy on a bus."""
    remote = comm_of(bus).remote
    return int(bus._exchange.query(lambda: len(remote.relays.proxies)))


def relays_of_proxies(bus: Bus, name: str) -> list[str]:
    """Return the relays that a process has of proxies of another process's tasks."""
    return [
        relay.address.module
        for peer in bus.inspect().peers
        for relay in peer.relays
        if relay.address.module == name
    ]


@clause("BUS-NAME-5", "BUS-ENT-14")
@pytest.mark.parametrize("known", [True, False])
def test_a_task_asks_one_of_another_bus_in_another_process(*, known: bool) -> None:
    """In the order of its commands, whether or not an answer is requested.

    known: True if the asker's process already knows the addressee.
    """
    with two_buses() as (one, two, other):
        u = Reader(other, "u", reply=lambda payload: ["got", payload])
        t = one.register("t", thread=one.here())
        if known:
            two.wait_for("u", timeout=LIMIT_S)

        t.command("u", 0, bus="two")
        assert t.call("u", 1, bus="two", timeout=LIMIT_S) == ("got", 1)
        t.command("u", 2, bus="two")
        assert t.call(u.task.address, 3, timeout=LIMIT_S) == ("got", 3)

        assert u.got == [0, 1, 2, 3]


@clause("BUS-NAME-5", "BUS-MSG-8")
def test_one_command_goes_to_tasks_of_both_buses() -> None:
    with two_buses() as (one, _, other):
        u = Reader(other, "u", reply=lambda _: "two's")
        Reader(one, "u", reply=lambda _: "one's")
        t = one.register("t", thread=one.here())
        got: list[Response] = []

        t.command(["u", u.task.address], "to both", on_response=got.append)
        serve(one, lambda: len(got) == 2, "both answer")

        assert {each.payload for each in got} == {"one's", "two's"}


@clause("BUS-NAME-5", "BUS-MSG-6")
def test_a_failure_over_two_buses_reaches_the_asker() -> None:
    def refuse(_: Incoming) -> None:
        raise ValueError("no")

    with two_buses() as (one, _, other):
        other.register("u", on_command=refuse)
        t = one.register("t", thread=one.here())

        with pytest.raises(RemoteError, match="ValueError: no"):
            t.call("u", bus="two", timeout=LIMIT_S)


@clause("BUS-NAME-5", "BUS-MSG-9")
def test_a_subscriber_of_another_bus_answers_a_notification() -> None:
    with two_buses() as (one, two, other):
        u = other.register("u", thread=other.here())
        t = one.register("t")
        t.subscribe(u.address, lambda message: message.respond(message.payload + 1))
        two.register("near").subscribe("u", lambda message: message.respond(0))
        matches = comm_of(other).remote.remote_subscriptions.matches
        until(lambda: bool(matches.subscribed_peers(u._entry)), "it is subscribed to")
        got: list[Response] = []

        u.notify(1, on_response=got.append, timeout=LIMIT_S)
        serve(other, lambda: len(got) == 2, "both answer")

        assert sorted(each.payload for each in got) == [0, 2]
        assert proxies(two) == 1
        t.deregister()
        until(lambda: proxies(two) == 0, "its proxy ends")


@clause("BUS-NAME-5", "BUS-DEREG-2", "BUS-ENT-17")
def test_a_proxy_ends_when_its_task_deregisters() -> None:
    """Behind the task's last command; a later task of its name is another proxy."""
    with two_buses() as (one, two, other):
        u = Reader(other, "u")
        for number in range(3):
            t = one.register("t", thread=one.here())
            assert t.call("u", number, bus="two", timeout=LIMIT_S) == number
            assert proxies(two) == 1
            assert relays_of_proxies(other, "t") == ["t"]

            t.command("u", "last", bus="two")
            t.deregister()

            until(lambda: proxies(two) == 0, "its proxy ends")
            until(lambda: relays_of_proxies(other, "t") == [], "others forget it")
        all_acknowledged(two)
        assert u.got == [0, "last", 1, "last", 2, "last"]


@clause("BUS-NAME-5", "BUS-DEREG-10")
def test_a_task_that_has_deregistered_gets_no_proxy() -> None:
    """Though its command waits for its addressee, and is sent after that."""
    with two_buses() as (one, two, other):
        t = one.register("t", thread=one.here())
        t.command("u", "told", bus="two")
        t.command("u", "asked", bus="two", on_response=print)
        t.deregister()
        until(lambda: proxies(two) == 0, "the proxy that searched has ended")

        u = Reader(other, "u")
        assert two.call("u", "of another task", timeout=LIMIT_S) == "of another task"

        assert sorted(u.got) == ["asked", "of another task", "told"]
        assert proxies(two) == 0


@clause("BUS-NAME-5", "BUS-MOVE-1")
def test_an_answer_follows_a_task_of_another_bus_to_its_new_thread() -> None:
    with two_buses() as (one, _, other):
        held: list[Incoming] = []
        other.register("u", thread=other.here(), on_command=keeper(held))
        first, second = one.thread("first"), one.thread("second")
        t = one.register("t", thread=first)
        got: list[Any] = []
        t.command("u", bus="two", on_response=lambda one: got.append(one.payload))
        serve(other, lambda: held, "the question arrives")

        t.move(second)
        held[0].respond("late")

        until(lambda: got == ["late"], "it gets the answer")


@clause("BUS-NAME-5")
def test_a_question_of_a_bus_that_was_left_cannot_be_answered() -> None:
    with two_buses() as (one, two, other):
        u = other.register("u", thread=other.here())
        t = one.register("t", thread=one.here())
        heard: list[Incoming] = []
        t.subscribe(u.address, heard.append)
        matches = comm_of(other).remote.remote_subscriptions.matches
        until(lambda: bool(matches.subscribed_peers(u._entry)), "it is subscribed to")
        u.notify("news", on_response=print, timeout=LIMIT_S)
        serve(one, lambda: heard, "it arrives")

        two.close()

        with pytest.raises(NotJoinedError, match="'two'"):
            heard[0].respond("answer")


def numbered(bus: Bus) -> set[str]:
    """Return the names of the tasks that have a relay number on a bus."""
    remote = comm_of(bus).remote
    found = bus._exchange.query(lambda: list(remote.relays._tasks.values()))
    return {each.name for each in found}


@clause("BUS-NAME-5", "BUS-ENT-14", "BUS-ENT-17")
@pytest.mark.parametrize("verb", ["subscribe", "watch"])
def test_an_interest_on_another_bus_leaves_the_task_its_number_on_its_own(
    verb: str,
) -> None:
    """Other processes of its own bus know it by that number, and answer to it."""
    with (
        two_buses() as (one, two, other),
        memory_bus("one", process="near", beside=one, config=PATIENT) as near,
    ):
        other.register("filler")
        Reader(near, "v")
        t = one.register("t", thread=one.here())
        if verb == "subscribe":
            t.subscribe("n", print, bus="two")
        else:
            t.watch("n", print, bus="two")
        until(lambda: "t" in numbered(two), "the request is sent")

        assert t.call("v", 1, timeout=LIMIT_S) == 1

        assert t._entry.table is one._exchange.manager.table
        t.deregister()
        until(lambda: "t" not in numbered(two), "its proxy ends")


@clause("BUS-NAME-5", "BUS-MSG-9")
@pytest.mark.parametrize("known", [True, False])
def test_an_answer_over_two_buses_is_its_own_though_the_task_leaves_right_then(
    *, known: bool
) -> None:
    """Not that of another task with the number that the task has on its own bus."""
    with (
        two_buses() as (one, two, other),
        memory_bus("one", process="near", beside=one, config=PATIENT) as near,
    ):
        Reader(other, "w")
        for name in ("f1", "f2", "f3"):
            assert two.register(name, thread=two.here()).call("w", 1) == 1
        Reader(near, "v")
        u = other.register("u", thread=other.here())
        t = one.register("t", thread=one.here())
        if known:
            assert t.call("v", 1, timeout=LIMIT_S) == 1
        heard: list[Incoming] = []
        t.subscribe(u.address, heard.append)
        matches = comm_of(other).remote.remote_subscriptions.matches
        until(lambda: bool(matches.subscribed_peers(u._entry)), "it is subscribed to")
        got: list[Response] = []
        u.notify("news", on_response=got.append, timeout=LIMIT_S)
        serve(one, lambda: heard, "it arrives")

        with held(two):  # the answer waits in its comm thread
            heard[0].respond("answer")
            t.deregister()

        serve(other, lambda: got, "the answer arrives")
        assert got[0].payload == "answer"
        assert got[0].responder is not None
        assert got[0].responder.module == "t"
        until(lambda: "t" not in numbered(two), "nothing stays")
        until(lambda: relays_of_proxies(other, "t") == [], "others forget it")


@clause("BUS-NAME-5", "BUS-DEREG-13", "BUS-ENT-17")
def test_a_relay_does_not_keep_a_subscriber_of_another_bus() -> None:
    with two_buses() as (one, two, other):
        u = other.register("u", thread=other.here())
        t = one.register("t", thread=one.here())
        heard: list[Incoming] = []
        t.subscribe(u.address, heard.append)
        matches = comm_of(other).remote.remote_subscriptions.matches
        until(lambda: bool(matches.subscribed_peers(u._entry)), "it is subscribed to")
        u.notify("news", on_response=print, timeout=LIMIT_S)
        serve(one, lambda: heard, "it arrives")
        [relay] = [
            relay
            for peer in comm_of(two).remote.topology.peers.values()
            for relay in peer.relays.values()
            if relay.entry.name == "u"
        ]
        assert relay.users

        t.deregister()

        until(lambda: not relay.users, "the relay has no user")


@clause("BUS-NAME-5", "BUS-ENT-17")
def test_a_wait_for_a_name_of_another_bus_leaves_no_proxy() -> None:
    with two_buses() as (one, two, other):
        other.register("u")
        found: list[object] = []
        waiting = Thread(
            target=lambda: found.append(one.wait_for("ism://two@*/u", LIMIT_S))
        )
        waiting.start()
        waiting.join()

        assert [str(each) for each in found] == ["ism://two@machine/u"]
        one.register("t")  # deregisters the tasks of threads that have ended
        until(lambda: proxies(two) == 0, "its proxy ends")


@clause("BUS-NAME-5", "BUS-MOVE-9")
def test_a_command_follows_a_task_on_the_bus_where_it_moved() -> None:
    """It waits there for the new address, not on the bus of its sender."""
    following = attrs.evolve(PATIENT, follow_moves=True)
    with (
        memory_bus("one", config=following) as one,
        memory_bus("two", config=following) as two,
        memory_bus("two", process="other", beside=two, config=PATIENT) as other,
    ):
        join_both(one, two)
        u = Reader(other, "u")
        two.wait_for("u", timeout=LIMIT_S)
        u.task.deregister(moved_to="ism://elsewhere/u")
        until(lambda: two._exchange.find("u") is None, "it has left")
        t = one.register("t", on_undelivered=unwanted)

        t.command("u", 1, bus="two")

        until(lambda: two.inspect().parked == {"ism://elsewhere/u": 1}, "it waits")
        assert one.inspect().parked == {}
