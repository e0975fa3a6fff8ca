"""BUS-ENT, BUS-INIT, BUS-NAME: the tasks of a bus, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import (
    Address,
    Bus,
    BusyError,
    Incoming,
    NameTakenError,
    UnknownTaskError,
    UnresolvedError,
    Visibility,
    open_bus,
)
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.inspection import counters_of, info
from tests.kit.serving import serve, settle
from tests.kit.tasks import Holder, echo
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus import BusThread


def transcript(bus: Bus, thread: BusThread) -> list[str]:
    """Return the observations of a client that uses every operation, in its thread."""
    seen: list[str] = []
    done: list[object] = []

    def note(what: str, message: Any) -> None:
        seen.append(f"{what} {message.payload}")

    def asked(message: Incoming) -> str:
        note("asked", message)
        return "answer"

    def act() -> None:
        client = bus.register("client", thread=thread, on_command=asked)
        client.watch("peer", lambda one: seen.append(f"here {one.here}"))
        hears = client.subscribe("peer", lambda one: note("heard", one))
        peer = bus.register("peer", thread=thread, on_command=asked)
        peer.subscribe("client", lambda one: one.respond("aye"))

        def then(response: Any) -> None:
            note("answered", response)
            hears.cancel()
            peer.notify("unheard")
            client.notify(
                "any?", timeout=0.2, on_response=lambda one: finish(one, note)
            )

        def finish(response: Any, note: Any) -> None:
            note("told", response)
            if response.final:
                client.deregister()
                with pytest.raises(UnknownTaskError):
                    client.command("peer")
                peer.deregister()
                done.append(True)

        peer.notify("news")
        client.command("peer", "do", on_response=then)

    thread.call_soon(act)
    serve(bus, lambda: done, "the client is done")
    return seen


@clause("BUS-ENT-1")
def test_a_client_sees_the_same_wherever_it_is() -> None:
    """In the main thread, in a plain one, as a task among others of a bus thread."""
    with memory_bus() as bus:
        main = transcript(bus, bus.here())
    with memory_bus() as bus, Threads() as threads:
        plain = threads.start(lambda: transcript(bus, bus.here())).result()
    with memory_bus() as bus:
        bus.register("other", thread=(thread := bus.thread()))
        task = transcript(bus, thread)

    assert main == [
        *("here True", "asked do", "heard news", "answered answer"),
        *("told aye", "told 1"),
    ]
    assert plain == main
    assert task == main


@clause("BUS-ENT-2")
def test_each_task_is_in_one_thread_of_the_process(bus: Bus) -> None:
    hosts = {"a": bus.here(), "b": bus.thread("two"), "c": bus.thread("three")}
    for number, thread in enumerate(hosts.values()):
        for name in hosts:
            bus.register(f"{name}{number}", thread=thread)

    seen = bus.inspect()

    hosted = [name for thread in seen.threads for name in thread.tasks]
    assert sorted(hosted) == sorted(each.address.module for each in seen.tasks)
    assert len(hosted) == len(set(hosted)) == 9
    threads = {each.name: each for each in seen.threads}
    for task in seen.tasks:
        assert task.address.module in threads[task.thread].tasks
    assert (seen.machine, seen.process) == ("machine", "process")


@clause("BUS-ENT-7")
def test_tasks_run_in_the_order_in_which_they_became_ready(bus: Bus) -> None:
    ran: list[str] = []
    for name in "abc":
        bus.register(
            name, thread=bus.here(), on_command=lambda one: ran.append(str(one.payload))
        )
    settle(bus)

    for to in ["b", "b", "b", "a", "c", "a"]:
        bus.command(to, to)
    settle(bus)

    # One message per turn: a task with many unread messages does not delay others.
    assert ran == ["b", "a", "c", "b", "a", "b"]


@clause("BUS-ENT-7")
def test_tasks_of_a_thread_need_no_lock_among_themselves(bus: Bus) -> None:
    count, each = 0, 300
    thread = bus.thread()

    def increases(_: Incoming) -> None:
        nonlocal count
        seen = count
        bus.inspect()  # takes locks, so others may run meanwhile
        count = seen + 1

    for name in ("a", "b"):
        bus.register(name, thread=thread, on_command=increases)

    def sends(name: str) -> None:
        for _ in range(each):
            bus.command(name)

    with Threads() as threads:
        threads.start(sends, "a")
        threads.start(sends, "b")
    bus.call("a", timeout=LIMIT_S)
    bus.call("b", timeout=LIMIT_S)

    assert count == 2 * each + 2


@clause("BUS-ENT-7")
def test_a_task_runs_only_when_it_has_something_to_read(bus: Bus) -> None:
    bus.register("idle", thread=bus.here(), on_command=lambda _: None)
    bus.register("busy", thread=bus.here(), on_command=lambda _: None)
    settle(bus)
    before = bus.inspect().threads[0].callbacks

    bus.command("busy")
    settle(bus)

    assert bus.inspect().threads[0].callbacks == before + 1


@clause("BUS-ENT-8")
def test_a_callback_that_does_not_return_blocks_only_its_own_thread(bus: Bus) -> None:
    with Holder.holding(bus) as holder:
        bus.register("neighbour", thread=holder.thread, on_command=lambda _: "late")
        bus.register("other", thread=bus.thread("free"), on_command=lambda _: "prompt")
        neighbour: list[Any] = []
        asker = bus.register("asker", thread=bus.here())
        asker.command("neighbour", on_response=neighbour.append)

        assert bus.call("other", timeout=LIMIT_S) == "prompt"

        busy = {each.name: each.busy_s for each in bus.inspect().threads}
        assert busy["holder"] is not None
        assert busy["holder"] > 0
        until(lambda: _busy(bus, "free") is None, "the free thread waits")
        assert neighbour == []
    serve(bus, lambda: neighbour, "the neighbour runs at last")


def _busy(bus: Bus, name: str) -> float | None:
    [found] = [each for each in bus.inspect().threads if each.name == name]
    return found.busy_s


@clause("BUS-ENT-14")
def test_a_process_may_join_several_buses_and_a_task_several_too() -> None:
    got: list[str] = []
    with open_bus("one") as one, open_bus("two") as two, open_bus("three") as three:
        for bus in (one, two):
            bus.register(
                "t",
                thread=bus.here(),
                on_command=lambda message: got.append(str(message.sender.bus)),
            )
        one.command("t")
        two.command("t")
        settle(one)
        settle(two)

        assert got == ["one", "two"]
        assert {each.address.bus for each in two.tasks()} == {"two"}
        with pytest.raises(UnresolvedError):
            three.call("t", timeout=0)


@clause("BUS-ENT-14")
def test_tasks_of_different_buses_are_never_taken_for_one_another() -> None:
    """Each bus counts its registrations by itself."""
    got: list[str] = []
    with open_bus("one") as one, open_bus("two") as two:
        stranger = one.register("x", thread=one.here())
        native = two.register("x", thread=two.here())
        notifier = two.register("notifier", thread=two.here())
        stranger.subscribe("notifier", lambda _: got.append("one"), bus="two")
        hears = native.subscribe("notifier", lambda _: got.append("two"))
        notifier.notify()
        settle(one)
        settle(two)
        assert sorted(got) == ["one", "two"]

        native.deregister()
        notifier.notify()
        settle(two)
        settle(one)
        assert sorted(got) == ["one", "one", "two"]
        assert not hears.active

        stranger.deregister()
        settle(one)
        assert notifier._entry.audience == ()


@clause("BUS-ENT-14")
def test_a_bus_is_joined_once_until_it_is_left() -> None:
    with open_bus("one"), pytest.raises(BusyError, match="bus 'one', which this"):
        open_bus("one")
    with open_bus("one") as again:
        assert again.call(_echo(again), "x") == "x"


def _echo(bus: Bus) -> Address:
    task = bus.register("echo", thread=bus.here(), on_command=echo)
    return task.address


@clause("BUS-INIT-7")
def test_registering_returns_a_task_that_works_until_it_deregisters(bus: Bus) -> None:
    task = bus.register("task", thread=bus.here(), ref="mine")

    assert str(task.address) == "ism://bus1@machine/task"
    assert task.thread is bus.here()
    assert info(bus, "task").visibility is Visibility.PUBLIC
    task.deregister()
    settle(bus)
    with pytest.raises(UnknownTaskError, match="'task'"):
        task.command("task")
    assert bus.tasks() == ()
    task.deregister()  # does nothing


@clause("BUS-INIT-7")
def test_a_task_is_found_as_soon_as_it_is_registered(bus: Bus) -> None:
    bus.register("task", thread=bus.here(), on_command=lambda _: "here")

    assert bus.inspect().parked == {}
    bus.command("task")
    assert bus.inspect().parked == {}
    assert bus.call("task") == "here"


@clause("BUS-INIT-7")
def test_without_a_thread_it_is_hosted_by_one_of_the_bus(bus: Bus) -> None:
    assert bus.inspect().threads == ()
    first = bus.register("first", on_command=lambda _: 1)
    second = bus.register("second", on_command=lambda _: 2)

    assert first.thread is second.thread
    assert first.thread is not bus.here()
    assert bus.call("first") + bus.call("second") == 3


@clause("BUS-INIT-10")
def test_each_client_has_a_bounded_fifo_of_its_own(bus: Bus) -> None:
    before = len(list(counters_of(bus.inspect())))
    for name in ("a", "b"):
        bus.register(name, thread=bus.here(), capacity=2)
    sender = bus.register("sender", thread=bus.here())
    assert len(list(counters_of(bus.inspect()))) == before + 3

    sender.command("a", 1)
    sender.command("a", 2)
    sender.command("b", 3)

    unread = {whose: counters.unread for whose, counters in counters_of(bus.inspect())}
    assert unread == {"a": 2, "b": 1, "sender": 0}


@clause("BUS-NAME-7")
@pytest.mark.parametrize("first", Visibility)
@pytest.mark.parametrize("second", Visibility)
def test_a_name_is_taken_once(bus: Bus, first: Visibility, second: Visibility) -> None:
    task = bus.register("x", thread=bus.here(), visibility=first)
    with pytest.raises(NameTakenError) as caught:
        bus.register("x", thread=bus.here(), visibility=second)
    assert caught.value.name == "x"
    assert [each.address.module for each in bus.tasks()] == ["x"]

    task.deregister()
    bus.register("x", thread=bus.here(), visibility=second)
    with memory_bus("bus2") as other:
        other.register("x", thread=other.here())
    with memory_bus(machine="elsewhere") as other:
        other.register("x", thread=other.here())
