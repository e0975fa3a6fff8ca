"""Messages between tasks of two buses, in two processes (BUS-NAME-5)."""

from __future__ import annotations

import gc
from contextlib import ExitStack, contextmanager
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
    Undelivered,
    UnresolvedError,
)
from bus.process.exchange import Exchange
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

    from bus import Task


@contextmanager
def two_buses() -> Iterator[tuple[Bus, Bus, Bus]]:
    """Yield one and two, the buses of a process, and another process of bus two."""
    with (
        memory_bus("one", config=PATIENT) as one,
        memory_bus("two", config=PATIENT) as two,
        memory_bus("two", process="other", beside=two, config=PATIENT) as other,
    ):
        join_both(one, two)
        yield one, two, other
        assert unbalanced(two.inspect()) == unbalanced(other.inspect()) == []


def keeper(held: list[Incoming]) -> Callable[[Incoming], object]:
    """Return a callback that keeps each command, for the test to answer later."""

    def keep(message: Incoming) -> object:
        held.append(message)
        return NOREPLY

    return keep


def proxies(bus: Bus) -> int:
    """Return the number of tasks of other buses that have a proxy on a bus."""
    remote = comm_of(bus).remote
    return int(bus._exchange.query(lambda: len(remote.relays.proxies)))


def relays_of_proxies(bus: Bus, name: str) -> list[str]:
    """Return the relays that a process has for proxies of a name."""
    return [
        relay.address.module
        for peer in bus.inspect().peers
        for relay in peer.relays
        if relay.address.module == name
    ]


def await_subscriber(bus: Bus, task: Task) -> None:
    """Wait until another process has subscribed to a task of this bus."""
    remote = comm_of(bus).remote
    until(
        lambda: bool(remote.subscribed_peers(task._entry)),
        f"a process subscribes to {task.address}",
    )


def notify(
    notifier: tuple[Bus, Task],
    subscriber: tuple[Bus, Task],
    on_response: Callable[[Response], object],
) -> Incoming:
    """Let a task subscribe to another, which notifies it; return the notification."""
    (other, u), (one, t) = notifier, subscriber
    received: list[Incoming] = []
    t.subscribe(u.address, received.append)
    await_subscriber(other, u)
    u.notify("news", on_response=on_response, timeout=LIMIT_S)
    serve(one, lambda: received, "the notification arrives")
    return received[0]


@clause("BUS-NAME-5", "BUS-ENT-14")
@pytest.mark.parametrize("known", [True, False])
def test_commands_over_two_buses_arrive_in_order(*, known: bool) -> None:
    """Whether or not their sender requests an answer.

    known: True if the sender's process already has a relay for the addressee.
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
def test_a_failure_over_two_buses_reaches_the_sender() -> None:
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
        await_subscriber(other, u)
        got: list[Response] = []

        u.notify(1, on_response=got.append, timeout=LIMIT_S)
        serve(other, lambda: len(got) == 2, "both answer")

        assert sorted(each.payload for each in got) == [0, 2]
        assert proxies(two) == 1
        t.deregister()
        until(lambda: proxies(two) == 0, "its proxy ends")


@clause("BUS-NAME-5", "BUS-DEREG-2", "BUS-ENT-17")
def test_a_proxy_ends_when_its_task_deregisters() -> None:
    """After the last command of the task. A later task of its name has a new proxy."""
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
            until(lambda: relays_of_proxies(other, "t") == [], "its relay ends")
        all_acknowledged(two)
        assert u.got == [0, "last", 1, "last", 2, "last"]


@clause("BUS-NAME-5", "BUS-DEREG-10")
def test_a_task_that_has_deregistered_gets_no_proxy() -> None:
    """Although its commands are parked, and sent after that."""
    with two_buses() as (one, two, other):
        t = one.register("t", thread=one.here())
        t.command("u", "without answer", bus="two")
        t.command("u", "with answer", bus="two", on_response=print)
        t.deregister()
        until(lambda: proxies(two) == 0, "the proxy for the search has ended")

        u = Reader(other, "u")
        assert two.call("u", "of another task", timeout=LIMIT_S) == "of another task"

        assert sorted(u.got) == ["of another task", "with answer", "without answer"]
        assert proxies(two) == 0


@clause("BUS-NAME-5", "BUS-MOVE-1")
def test_an_answer_follows_a_task_of_another_bus_to_its_new_thread() -> None:
    with two_buses() as (one, _, other):
        held: list[Incoming] = []
        other.register("u", thread=other.here(), on_command=keeper(held))
        first, second = one.thread("first"), one.thread("second")
        t = one.register("t", thread=first)
        got: list[Any] = []
        t.command("u", bus="two", on_response=lambda each: got.append(each.payload))
        serve(other, lambda: held, "the command arrives")

        t.move(second)
        held[0].respond("late")

        until(lambda: got == ["late"], "the answer arrives")


@clause("BUS-NAME-5")
def test_after_leaving_a_bus_a_task_cannot_answer_its_messages() -> None:
    with two_buses() as (one, two, other):
        u = other.register("u", thread=other.here())
        t = one.register("t", thread=one.here())
        notification = notify((other, u), (one, t), on_response=print)

        two.close()

        with pytest.raises(NotJoinedError, match="'two'"):
            notification.respond("answer")


def numbered(bus: Bus) -> set[str]:
    """Return the names of the tasks that have a relay number on a bus."""
    remote = comm_of(bus).remote
    found = bus._exchange.query(lambda: list(remote.relays._tasks.values()))
    return {each.name for each in found}


@clause("BUS-NAME-5", "BUS-ENT-14", "BUS-ENT-17")
@pytest.mark.parametrize("verb", ["subscribe", "watch"])
def test_a_subscription_on_another_bus_keeps_the_number_on_the_own_bus(
    verb: str,
) -> None:
    """Other processes of the own bus identify the task by that number."""
    with (
        two_buses() as (one, two, other),
        memory_bus("one", process="near", beside=one, config=PATIENT) as near,
    ):
        other.register("filler")
        Reader(near, "v")
        t = one.register("t", thread=one.here())
        getattr(t, verb)("n", print, bus="two")
        until(lambda: "t" in numbered(two), "the request is sent")

        assert t.call("v", 1, timeout=LIMIT_S) == 1

        assert t._entry.table is one._exchange.manager.table
        t.deregister()
        until(lambda: "t" not in numbered(two), "its proxy ends")


@clause("BUS-NAME-5", "BUS-MSG-9")
@pytest.mark.parametrize("known", [True, False])
def test_an_answer_names_its_responder_although_that_task_deregisters_at_once(
    *, known: bool
) -> None:
    """Not a task that has the same number on the other bus.

    known: True if the responder has a number on its own bus.
    """
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
        got: list[Response] = []
        notification = notify((other, u), (one, t), on_response=got.append)

        with held(two):  # its comm thread does not send the answer yet
            notification.respond("answer")
            t.deregister()

        serve(other, lambda: got, "the answer arrives")
        assert got[0].payload == "answer"
        assert got[0].responder is not None
        assert got[0].responder.module == "t"
        until(lambda: "t" not in numbered(two), "its proxy ends")
        until(lambda: relays_of_proxies(other, "t") == [], "its relay ends")


@clause("BUS-NAME-5", "BUS-DEREG-13", "BUS-ENT-17")
def test_a_relay_does_not_keep_a_subscriber_of_another_bus() -> None:
    with two_buses() as (one, two, other):
        u = other.register("u", thread=other.here())
        t = one.register("t", thread=one.here())
        notify((other, u), (one, t), on_response=print)
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
    """It is parked there for the new address, not on the bus of its sender."""
    following = attrs.evolve(PATIENT, follow_moved_tasks=True)
    with (
        memory_bus("one", config=following) as one,
        memory_bus("two", config=following) as two,
        memory_bus("two", process="other", beside=two, config=PATIENT) as other,
    ):
        join_both(one, two)
        u = Reader(other, "u")
        two.wait_for("u", timeout=LIMIT_S)
        u.task.deregister(moved_to="ism://elsewhere/u")
        until(lambda: two._exchange.find("u") is None, "it has deregistered")
        undelivered: list[Undelivered] = []
        t = one.register("t", on_undelivered=undelivered.append)

        t.command("u", 1, bus="two")

        until(lambda: two.inspect().parked == {"ism://elsewhere/u": 1}, "it is parked")
        assert one.inspect().parked == {}
        assert undelivered == []
        two.close(drain=0)  # else it waits for the name


# Closed buses.


def is_kept(exchange: int) -> bool:
    """Return True if the exchange of that id is still in memory."""
    gc.collect()
    return any(
        id(each) == exchange and type(each) is Exchange for each in gc.get_objects()
    )


def sends(one: Bus) -> None:
    """Let a task of bus one send to names of bus two, one of which nobody has."""
    t = one.register("t")
    assert t.call("u", 1, bus="two", timeout=LIMIT_S) == 1
    t.command("u", 2, bus="two")
    t.command("v", 3, bus="two", on_response=lambda _: None)
    t.command("nobody", 4, bus="two")


def subscribes_and_watches(one: Bus) -> None:
    t = one.register("t")
    for name in ("u", "nobody"):
        t.subscribe(name, unwanted, bus="two")
        t.watch(name, lambda _: None, bus="two")


def waits_for_a_name(one: Bus) -> None:
    assert one.wait_for("ism://two@*/u", LIMIT_S).module == "u"


@clause("BUS-DEREG-12", "BUS-NAME-5")
@pytest.mark.parametrize("act", [sends, subscribes_and_watches, waits_for_a_name])
@pytest.mark.parametrize("closing", ["one", "two"])
def test_a_closed_bus_is_not_kept_in_memory_by_the_other_one(
    closing: str, act: Callable[[Bus], object]
) -> None:
    """Whichever is closed, once the messages between the two have an outcome."""
    # A command waits for its name that long, also if its sender has left.
    brief = attrs.evolve(PATIENT, resolve_timeout_s=1.0)
    # Not `two_buses`: that keeps bus two beside another process of it.
    with ExitStack() as staying, ExitStack() as closed:
        other = staying.enter_context(
            memory_bus("two", process="other", config=PATIENT)
        )
        for name in ("u", "v"):
            Reader(other, name)
        one = (closed if closing == "one" else staying).enter_context(
            memory_bus("one", config=brief)
        )
        two = (closed if closing == "two" else staying).enter_context(
            memory_bus("two", process="near", beside=other, config=brief)
        )
        join_both(one, two)
        exchange = id((one if closing == "one" else two)._exchange)
        act(one)
        assert is_kept(exchange)

        closed.close()
        del one, two

        until(lambda: not is_kept(exchange), "nothing refers to it")


@clause("BUS-DEREG-12")
def test_closing_a_bus_cancels_the_interests_of_tasks_of_other_buses() -> None:
    """Their interests are cancelled, and the commands that wait for a name fail."""
    with two_buses() as (one, two, other):
        other.register("u")
        undelivered: list[Undelivered] = []
        t = one.register("t", on_undelivered=undelivered.append)
        subscription = t.subscribe("u", unwanted, bus="two")
        watch = t.watch("u", lambda _: None, bus="two")
        own = t.subscribe("x", unwanted)
        t.command("nobody", 1, bus="two")
        t.command("nobody", 2)

        two.close()

        assert (subscription.active, watch.active, own.active) == (False, False, True)
        assert list(t._entry.mailbox.client.interests) == [own]
        until(lambda: len(undelivered) == 1, "its command fails")
        assert isinstance(undelivered[0].error, UnresolvedError)
        assert undelivered[0].payload == 1
        assert one.inspect().parked == {"nobody": 1}
        one.close(drain=0)  # else it waits for the name
