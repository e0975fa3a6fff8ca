"""`AnyMachineNames`: names of any machine, their messages, and their aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.features.machines.any_machine import AnyMachineNames, Bind
from bus.kernel.tasks.actions import Open
from bus.kernel.tasks.process_manager import ProcessManager
from bus.model.message import Incoming, Kind
from bus.model.registration import Visibility
from bus.process.registration import undoable
from specs.clauses import clause

if TYPE_CHECKING:
    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry

LOG = "ism://*/log"


@pytest.fixture
def manager() -> ProcessManager:
    """Return the manager of the only process of machine m1."""
    manager = ProcessManager(
        "m1", "p1", parked_per_name=9, parked_in_all=99, resolve_timeout_s=5.0
    )
    manager.any_machine = AnyMachineNames(manager)
    return manager


def go_on(manager: ProcessManager, bind: Bind) -> list[Action]:
    """Report that the messages of a `Bind` are sent."""
    assert isinstance(manager.any_machine, AnyMachineNames)
    return manager.any_machine.on_bound(bind, 0.0)


def register(manager: ProcessManager, name: str) -> tuple[Entry, list[Action]]:
    return manager.register(name, Visibility.PUBLIC, "bus1", "here", object())


def park(manager: ProcessManager, number: int, name: str = LOG) -> Entry | None:
    message = Incoming(kind=Kind.COMMAND, payload=number, _name=name)
    return manager.park(name, message, 0.0)


def bound(actions: list[Action]) -> Bind:
    """Return the only `Bind` among actions; an opening may precede it."""
    *before, bind = actions
    assert all(isinstance(each, Open) for each in before)
    assert isinstance(bind, Bind)
    return bind


def numbers(bind: Bind) -> list[int]:
    return [each.payload for each in bind.messages]


def begin_binding(manager: ProcessManager) -> tuple[Entry, Bind]:
    """Bind the name to a task; the driver has not sent the one parked message yet."""
    park(manager, 1)
    log, actions = register(manager, "log")
    return log, bound(actions)


@clause("BUS-NAME-8")
def test_messages_parked_while_others_are_sent_follow_them(
    manager: ProcessManager,
) -> None:
    """No alias exists before all of them are sent."""
    assert park(manager, 1) is None
    log, actions = register(manager, "log")
    first = bound(actions)
    assert (numbers(first), first.entry) == ([1], log)
    assert park(manager, 2) is None  # the driver has not sent the first one yet
    assert manager.table.find(LOG) is None

    second = bound(go_on(manager, first))
    assert numbers(second) == [2]
    assert park(manager, 3) is None
    third = bound(go_on(manager, second))
    assert numbers(third) == [3]
    assert go_on(manager, third) == []

    assert manager.table.find(LOG) is log
    assert park(manager, 4) is log


@clause("BUS-NAME-8")
def test_a_repeated_report_returns_the_same_action(manager: ProcessManager) -> None:
    """So an interrupt loses none of its messages, and doubles none."""
    log, first = begin_binding(manager)
    park(manager, 2)
    second = bound(go_on(manager, first))
    assert second is first
    assert numbers(second) == [2]

    assert go_on(manager, first) == go_on(manager, first) == []

    assert manager.table.find(LOG) is log


@clause("BUS-NAME-8")
def test_if_the_task_deregisters_meanwhile_the_next_task_is_bound(
    manager: ProcessManager,
) -> None:
    log, first = begin_binding(manager)
    manager.leave(log, [])
    park(manager, 2)
    assert go_on(manager, first) == []
    assert manager.table.find(LOG) is None

    successor, actions = register(manager, "log")

    assert bound(actions).entry is successor
    assert numbers(bound(actions)) == [2]


@clause("BUS-NAME-8")
def test_a_successor_registered_meanwhile_gets_the_later_messages(
    manager: ProcessManager,
) -> None:
    log, first = begin_binding(manager)
    park(manager, 2)
    manager.leave(log, [])
    successor, _ = register(manager, "log")

    second = bound(go_on(manager, first))

    assert (second.entry, numbers(second)) == (successor, [2])


@clause("BUS-NAME-8")
def test_after_an_interrupted_registration_the_next_task_is_bound(
    manager: ProcessManager,
) -> None:
    """The message that waited is parked again, and sent to that task."""
    entries: list[Entry] = []

    def interrupted() -> None:
        entries.append(register(manager, "log")[0])
        raise KeyboardInterrupt

    park(manager, 1)
    with pytest.raises(KeyboardInterrupt):
        undoable(manager, interrupted)
    manager.undo(entries[0], 0.0, [])

    log, actions = register(manager, "log")

    bind = bound(actions)
    assert (bind.entry, numbers(bind)) == (log, [1])


@clause("BUS-NAME-8")
def test_an_alias_ends_with_its_task(manager: ProcessManager) -> None:
    log, _ = register(manager, "log")
    assert park(manager, 1) is log
    assert manager.table.find(LOG) is log
    assert [*manager.table.public()] == [log]
    assert len(manager.table) == 1

    manager.leave(log, [])

    assert manager.table.find(LOG) is None
    assert park(manager, 2) is None


@clause("BUS-NAME-8")
def test_a_withdrawn_message_is_no_longer_parked(manager: ProcessManager) -> None:
    messages = [Incoming(kind=Kind.COMMAND, payload=n, _name=LOG) for n in range(3)]
    for each in messages:
        manager.park(LOG, each, 0.0)

    manager.withdraw(messages[1])
    manager.withdraw(messages[1])

    assert [each.message.payload for each in manager.parked.of(LOG)] == [0, 2]
    assert (len(manager.parked), manager.parked.given_up) == (2, 1)
    for each in messages:
        manager.withdraw(each)
    assert manager.parked.waiting() == {}
