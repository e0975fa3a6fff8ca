"""Runs of commands whose task moves, leaves or changes its callback meanwhile."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.process.thread_manager import ThreadManager, call_in_host_thread, move
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.station import run_due
from tests.process.tasks.reading import named, post, reader, runs_until
from tests.strikes import everywhere

if TYPE_CHECKING:
    from bus.model.message import Incoming
    from tests.kit.station import Station
    from tests.strikes import Blow


@clause("BUS-MOVE-2", "BUS-MOVE-3", "BUS-MSG-15")
@pytest.mark.parametrize("at", range(4))
def test_a_task_that_moves_takes_its_unread_commands_along(
    station: Station, at: int
) -> None:
    """In order, ahead of later messages, and each only once."""
    elsewhere = ThreadManager("elsewhere")
    elsewhere.adopt()
    task, entry = reader(station, "c")
    post(station, entry, *named(4))
    moment = named(4)[at]

    def act(payload: Any) -> None:
        if payload == moment:
            move(entry, elsewhere)
            station.send("c", "after")
            station.home.stop(_sync.monotonic() + 100)

    task.act = act
    station.home.run()
    run_due(elsewhere)

    assert task.read == [*named(4), "after"]
    assert task.threads == ["home"] * (at + 1) + ["elsewhere"] * (4 - at)
    assert (task.account.unread, task.account.delivered) == (0, 5)


@clause("BUS-DEREG-4", "BUS-FLOW-7")
@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("at", range(4))
def test_unread_commands_of_a_task_that_leaves_are_left_to_their_sender(
    station: Station, at: int, *, final: bool
) -> None:
    """It counts as returned, not read; the next task of that name does not get it."""
    task, entry = reader(station, "c")
    post(station, entry, *named(4))
    moment = named(4)[at]

    def act(payload: Any) -> None:
        if payload == moment:
            station.exchange.deregister(entry, final=final)
            station.home.stop(_sync.monotonic() + 100)

    task.act = act
    station.home.run()
    successor, _ = station.register("c", station.home)
    run_due(station.home)

    assert task.left
    assert task.read == [*named(at + 1)]
    assert sum(task.parts) == at + 1
    account = task.account
    assert (account.unread, account.delivered, account.returned) == (0, at + 1, 3 - at)
    assert not successor.read


@clause("BUS-MSG-3", "BUS-MSG-15")
def test_a_task_that_changes_its_callback_reads_on_with_the_new_one(
    station: Station,
) -> None:
    """Without a callback, the remaining commands are handed over singly, to be kept."""
    task, entry = reader(station, "c")
    post(station, entry, *named(9))
    last = runs_until(station, b"i")
    others: list[bytes] = []

    def other(message: Incoming) -> None:
        others.append(message.payload)
        if message.payload == b"e":
            change("remote_subscriptions", False)

    def change(name: str, value: Any) -> None:
        call_in_host_thread(entry, lambda: setattr(task, name, value))

    def act(payload: bytes) -> None:
        if payload == b"b":
            change("on_command", other)
        last(payload)

    task.act = act
    station.home.run()

    assert others == [b"c", b"d", b"e"]
    assert task.read == [b"a", b"b", *named(9)[5:]]
    assert task.singly == [*named(9)[5:]]
    assert (task.account.unread, task.account.delivered) == (0, 9)


# Interrupts.


@clause("BUS-MOVE-2", "BUS-MSG-15")
@pytest.mark.parametrize("count", [0, 1])
def test_an_interrupted_move_loses_no_unread_command(
    station: Station, count: int
) -> None:
    """At every point; the next move completes it.

    count: of the commands read before. The others are in the inbox, or the mailbox.
    """
    elsewhere = ThreadManager("elsewhere")
    elsewhere.adopt()
    numbers = itertools.count()

    def case(interrupted: Blow) -> None:
        task, entry = reader(station, f"c{next(numbers)}")
        post(station, entry, *named(4))
        for _ in range(count):
            station.home.poll(0)

        interrupted(lambda: move(entry, elsewhere))

        move(entry, elsewhere)
        run_due(station.home)
        run_due(elsewhere)
        assert task.read == [*named(4)]
        assert task.threads[count:] == ["elsewhere"] * (4 - count)
        assert task.account.unread == 0

    everywhere(case, packages=(bus,))


@clause("BUS-FLOW-7")
def test_an_interrupted_departure_counts_all_unread_commands_but_one(
    station: Station,
) -> None:
    """At every point: the interrupt may come between two counters."""
    numbers = itertools.count()

    def case(interrupted: Blow) -> None:
        task, entry = reader(station, f"c{next(numbers)}")
        post(station, entry, *named(4))

        interrupted(lambda: station.exchange.deregister(entry, final=False))

        station.exchange.deregister(entry, final=False)
        run_due(station.home)
        assert task.left
        assert task.account.returned >= 3
        assert task.account.unread <= 1

    everywhere(case, packages=(bus,))


@clause("BUS-MSG-15")
def test_an_interrupt_takes_at_most_one_command_from_a_task_without_callback(
    station: Station,
) -> None:
    """At every point at which the task receives the first of several."""
    numbers = itertools.count()

    def case(interrupted: Blow) -> None:
        task, entry = reader(station, f"c{next(numbers)}")
        post(station, entry, *named(4))
        station.home.poll(0)
        task.remote_subscriptions = False

        interrupted(lambda: station.home.poll(0))

        run_due(station.home)
        assert task.read in ([*named(4)], [*named(1), *named(4)[2:]])

    everywhere(case, packages=(bus,))
