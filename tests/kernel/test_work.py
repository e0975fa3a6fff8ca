"""The cost of one item does not depend on how many others wait, by counted work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from bus.errors import BusFullError
from bus.features.machines.any_machine import AnyMachineNames, Bind
from bus.features.subscriptions.interests import Interests
from bus.kernel.tasks.process_manager import ProcessManager
from bus.model.message import Incoming, Kind
from bus.model.registration import Visibility
from bus.model.specification import Specification
from specs.clauses import clause
from tests.kit.work import bytecodes

if TYPE_CHECKING:
    from collections.abc import Callable

FEW, MANY = 100, 10_000
NOW = 100.0
NAMES = 50
SLACK = 200  # bytecodes; a scan would execute thousands more


@attrs.frozen(eq=False)
class Asked:
    """A subscription, as far as its look-up needs it."""

    _entry: Any
    specification: Specification


def message(name: str, deadline: float | None = None) -> Incoming:
    return Incoming(kind=Kind.COMMAND, payload=1, _name=name, _deadline=deadline)


def manager(parked: int, *, room: int) -> ProcessManager:
    """Return a manager with so many parked messages, under a few names and many."""
    one = ProcessManager(
        "here",
        "p1",
        parked_per_name=MANY,
        parked_in_all=parked + room,
        resolve_timeout_s=5.0,
    )
    one.any_machine = AnyMachineNames(one)
    one.park("first", message("first", NOW + 1), NOW)
    one.park("ism://*/bound", message("ism://*/bound"), NOW)
    for number in range(parked - 2):
        name = f"few/{number % NAMES}" if number % 2 else f"many/{number}"
        one.park(name, message(name), NOW)
    return one


def park(one: ProcessManager) -> None:
    one.park("few/1", message("few/1"), NOW)


def park_a_refused_one(one: ProcessManager) -> None:
    with pytest.raises(BusFullError):
        one.park("few/1", message("few/1"), NOW)


def expire(one: ProcessManager) -> None:
    todo: list[Any] = []
    assert one.parked.next_deadline() == NOW + 1
    one.expire(NOW + 1, todo)
    assert len(todo) == 1
    assert one.parked.next_deadline() == NOW + 5


def withdraw(one: ProcessManager) -> None:
    [parked] = one.parked.of("first")
    one.withdraw(parked.message)
    assert not one.parked.of("first")


def open_a_task(one: ProcessManager) -> None:
    _, [opened] = one.register("first", Visibility.PUBLIC, "bus1", "here", object())
    assert len(opened.messages) == 1  # type: ignore[union-attr] # it is an `Open`


def bind(one: ProcessManager) -> None:
    _, actions = one.register("bound", Visibility.PUBLIC, "bus1", "here", object())
    assert any(isinstance(each, Bind) for each in actions)


@pytest.mark.deep
@clause("BUS-ROUTE-19", "BUS-ROUTE-20", "BUS-FLOW-1")
@pytest.mark.parametrize("room", [1, 0], ids=["room", "full"])
@pytest.mark.parametrize(
    "operation", [park, expire, withdraw, open_a_task, bind], ids=lambda op: op.__name__
)
def test_a_parked_message_costs_the_same_however_many_wait(
    operation: Callable[[ProcessManager], object], room: int
) -> None:
    """To park, refuse, expire, withdraw or send it; also if the list is full."""
    if operation is park and not room:
        operation = park_a_refused_one
    few, many = manager(FEW, room=room), manager(MANY, room=room)

    cost = bytecodes(lambda: operation(few))

    assert bytecodes(lambda: operation(many)) <= cost + SLACK


@clause("BUS-ROUTE-19")
def test_many_messages_of_one_name_expire_at_the_cost_of_each() -> None:
    """The cost does not grow with the messages of the name."""

    def parked(count: int) -> ProcessManager:
        one = manager(2, room=MANY)
        for number in range(count):
            one.park("name", message("name", NOW + number / MANY), NOW)
        return one

    few, many = parked(FEW), parked(MANY)
    late = NOW + (FEW / 2) / MANY

    cost = bytecodes(lambda: few.expire(late, []))

    assert len(few.parked.of("name")) < FEW
    assert bytecodes(lambda: many.expire(late, [])) <= cost + SLACK


@clause("AMO-27")
def test_an_interest_ends_at_the_same_cost_however_many_remain() -> None:
    def interests(count: int) -> tuple[Interests[Asked], Asked]:
        kept: Interests[Asked] = Interests("here")
        asked = [Asked("task", Specification(f"a{n}/*")) for n in range(count)]
        for each in asked:
            kept.add(each)
        return kept, asked[-2]

    def end(about: tuple[Interests[Asked], Asked]) -> None:
        kept, one = about
        assert kept.matching_exactly("here", one.specification.pattern)
        assert kept.discard(one)
        assert not kept.matching_exactly("here", one.specification.pattern)

    few, many = interests(FEW), interests(MANY)

    cost = bytecodes(lambda: end(few))

    assert bytecodes(lambda: end(many)) <= cost + SLACK
