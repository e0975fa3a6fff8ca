"""Tasks that another process takes over, with their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus import HandOverError, PayloadError, RemoteError, UnknownTaskError
from bus.testing import memory_bus
from specs.clauses import clause
from tests.kit.buses import PATIENT, processes
from tests.kit.tasks import Holder, unwanted
from tests.support import LIMIT_S, Threads

if TYPE_CHECKING:
    from bus import Bus, Incoming, Task


def make_log(bus: Bus, name: str, state: Any) -> Task:
    """Register a task that keeps the payloads of its commands, and answers them all."""
    lines = list(state or ())

    def add(message: Incoming) -> list[Any]:
        lines.append(message.payload)
        return lines

    task = bus.register(name, on_command=add)
    task.on_leave(lambda: lines)
    return task


MAKE = {"log": make_log}


@clause("BUS-MOVE-10", "BUS-MOVE-4")
@pytest.mark.parametrize("target", [0, 1, 2], ids=["master", "slave", "own"])
def test_a_task_goes_on_in_another_process_with_its_state(target: int) -> None:
    """Its address stays; every command reaches it or its successor, in order."""
    with processes(3, PATIENT) as buses:
        source, sender_bus = buses[2], buses[1]
        buses[target].accept_tasks("movers", MAKE)
        task = make_log(source, "log", ["first"])
        sender = sender_bus.register("sender", on_undelivered=unwanted)
        for number in range(10):
            sender.command("log", number)

        address = source.hand_over(task, "movers")
        for number in range(10, 20):
            sender.command("log", number)

        assert address == task.address
        assert sender.call("log", "last") == ("first", *range(20), "last")
        with pytest.raises(UnknownTaskError):
            task.command("log")


@clause("BUS-MOVE-10")
def test_a_task_is_handed_over_again_and_again() -> None:
    """There and back, with all that it got in between."""
    made: list[Task] = []

    def make(bus: Bus, name: str, state: Any) -> Task:
        made.append(make_log(bus, name, state))
        return made[-1]

    with processes(2, PATIENT) as buses:
        for bus in buses:
            bus.accept_tasks(f"movers/{bus.process}", {"log": make})
        made.append(make_log(buses[0], "log", None))
        for number in range(6):
            source, target = buses[number % 2], buses[1 - number % 2]
            source.call("log", number)
            source.hand_over(made[-1], f"movers/{target.process}")

        assert buses[1].call("log", "last") == (*range(6), "last")


@clause("BUS-MOVE-10", "BUS-MOVE-3")
def test_a_task_leaves_between_two_callbacks() -> None:
    """With the state after the one that runs."""
    with processes(2, PATIENT) as (one, two), Threads() as threads:
        made: list[Any] = []

        def make(bus: Bus, name: str, state: Any) -> Task:
            made.append(state)
            return bus.register(name, on_command=lambda _: None)

        two.accept_tasks("movers", {"holder": make})
        with Holder.holding(one) as holder:
            holder.task.on_leave(lambda: list(holder.got))
            handing = threads.start(one.hand_over, holder.task, "movers")
            holder.let_go()
            handing.result()

        assert made == [("hold",)]


@clause("BUS-MOVE-10")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"factory": "other"}, "no factory is named 'other'; the factories are: 'log'"),
        ({"factory": 1}, "no factory is named 1"),
    ],
)
def test_a_factory_that_is_missing_is_named_and_the_task_stays(
    options: dict[str, Any], words: str
) -> None:
    with processes(2, PATIENT) as (one, two):
        two.accept_tasks("movers", MAKE)
        task = make_log(one, "log", None)

        with pytest.raises(RemoteError, match=words):
            one.hand_over(task, "movers", **options)

        assert one.call("log", 1) == (1,)


@clause("BUS-MOVE-10", "BUS-MSG-16")
def test_a_state_that_cannot_be_had_or_sent_keeps_the_task() -> None:
    with processes(2, PATIENT) as (one, two):
        two.accept_tasks("movers", MAKE)
        task = make_log(one, "log", None)

        def fail() -> None:
            raise LookupError("no state")

        for on_leave, error in ((object, PayloadError), (fail, LookupError)):
            task.on_leave(on_leave)
            with pytest.raises(error):
                one.hand_over(task, "movers")

        assert one.call("log", 1) == (1,)


@clause("BUS-MOVE-10")
@pytest.mark.parametrize("fault", ["raises", "returns", "registers"])
def test_the_state_of_a_task_without_a_successor_comes_back(fault: str) -> None:
    """With the reason; a task with that state may then be registered again."""

    def make(bus: Bus, name: str, _: Any) -> Any:
        if fault == "raises":
            raise LookupError("no room")
        return None if fault == "returns" else bus.register(f"{name}/other")

    words = "LookupError: no room" if fault == "raises" else "must return the task"
    with processes(2, PATIENT) as (one, two):
        two.accept_tasks("movers", {"log": make})
        task = make_log(one, "log", [1, 2])

        with pytest.raises(HandOverError, match=words) as caught:
            one.hand_over(task, "movers")

        assert (caught.value.state, caught.value.in_doubt) == ([1, 2], False)
        assert caught.value.name == "log"
        make_log(one, "log", caught.value.state)
        assert two.call("log", 3) == (1, 2, 3)


@clause("BUS-MOVE-10")
def test_a_process_that_ends_takes_no_task_any_more() -> None:
    with processes(2, PATIENT) as (one, two):
        point = two.accept_tasks("movers", MAKE)
        task = make_log(one, "log", None)
        point.deregister()
        two.register("movers", on_command=lambda _: 1 / 0)

        with pytest.raises(RemoteError):
            one.hand_over(task, "movers", timeout=LIMIT_S)
        assert one.call("log", 1) == (1,)


@clause("BUS-MOVE-10")
def test_wrong_arguments_are_named() -> None:
    with memory_bus() as bus, memory_bus() as other:
        task = make_log(bus, "log", None)
        for call, error, words in (
            (lambda: bus.hand_over("log", "movers"), TypeError, "task must be"),  # type: ignore[arg-type]
            (lambda: other.hand_over(task, "movers"), ValueError, "of this bus object"),
            (lambda: bus.hand_over(task, 1), TypeError, "address must be"),  # type: ignore[arg-type]
            (lambda: bus.accept_tasks("m", [make_log]), TypeError, "factories must be"),  # type: ignore[arg-type]
            (lambda: bus.accept_tasks("m", {"log": 1}), TypeError, "factory 'log'"),  # type: ignore[dict-item]
            (lambda: bus.accept_tasks("log", MAKE), Exception, "log"),
        ):
            with pytest.raises(error, match=words):
                call()
