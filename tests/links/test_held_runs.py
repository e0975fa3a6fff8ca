"""`InboundDelivery`: commands that arrived together and are held back stay together."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from bus.core.local.inbound_run import InboundRun
from bus.core.wire import Lengths
from bus.threads.account import Account
from bus.threads.thread_manager import ThreadManager
from specs.clauses import clause
from tests.kit.messages import inbound_run
from tests.links.hall import Hall


def _run(hall: Hall, *payloads: bytes) -> InboundRun:
    return inbound_run(payloads, hall.entry, hall.held.far, receipt=None)


def _arrives(hall: Hall, *items: Any) -> None:
    hall.held.inbound_delivery.deliver(hall.entry, list(items))


def _take(hall: Hall) -> list[bytes]:
    """Read all messages in the task's inbox; return their payloads."""
    read = []
    for item in hall.host.inbox.take_now():
        read += [each.payload for each in item.rest()]
    account = hall.reader.account
    account.extracted += len(read)
    account.extracted_bytes += sum(map(len, read))
    return read


@clause("BUS-FLOW-1", "BUS-FLOW-2")
@pytest.mark.parametrize("overflow", ["error", "block"])
def test_the_part_of_a_run_without_room_is_held_back_and_delivered_as_runs(
    overflow: Any,
) -> None:
    hall = Hall(capacity=2, overflow=overflow)
    _arrives(hall, _run(hall, b"1", b"2", b"3"), _run(hall, b"4", b"5", b"6"))
    assert hall.reader.account.unread == 2
    assert len(hall.held.inbound_delivery) == 4

    read = [_take(hall)]
    while hall.held.inbound_delivery.holds(hall.entry):
        hall.held.inbound_delivery.resume(hall.entry)
        assert all(type(each) is InboundRun for each in hall.host.inbox.items)
        read.append(_take(hall))

    assert list(chain(*read)) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert len(hall.held.inbound_delivery) == 0


@clause("BUS-MSG-15")
def test_runs_and_held_messages_do_not_overtake_one_another() -> None:
    hall = Hall(capacity=1)
    _arrives(hall, *hall.commands(b"1", b"2"))
    _arrives(hall, _run(hall, b"3", b"4"))
    _arrives(hall, *hall.commands(b"5"))

    read = []
    for _ in range(5):
        [item] = hall.host.inbox.take_now()
        read.append(item.payload if type(item) is not InboundRun else item.payloads[0])
        hall.reader.account.extracted += 1
        hall.reader.account.extracted_bytes += 1
        hall.held.inbound_delivery.resume(hall.entry)

    assert read == [b"1", b"2", b"3", b"4", b"5"]
    assert not hall.held.inbound_delivery.holds(hall.entry)


@clause("BUS-MSG-15")
def test_a_run_waits_behind_held_messages_even_if_there_is_room_by_now() -> None:
    """The task has read a message, and not checked for held ones yet."""
    hall = Hall(capacity=1)
    _arrives(hall, _run(hall, b"1", b"2"))
    read = _take(hall)

    _arrives(hall, _run(hall, b"3"))
    while hall.host.inbox.items:
        read += _take(hall)
        hall.held.inbound_delivery.resume(hall.entry)

    assert read == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("overflow", "lost"), [("drop-newest", [b"3", b"4"]), ("drop-oldest", [b"1", b"2"])]
)
def test_messages_for_a_task_that_drops_are_never_held_back(
    overflow: Any, lost: list[bytes]
) -> None:
    hall = Hall(capacity=2, overflow=overflow)

    _arrives(hall, _run(hall, b"1", b"2", b"3", b"4"))

    assert len(hall.held.inbound_delivery) == 0
    assert hall.held.far.lost == lost


@clause("BUS-FLOW-1")
def test_as_many_bytes_of_a_run_are_given_as_there_is_room_for() -> None:
    hall = Hall(capacity=100)
    part = bytes(2**18)  # a quarter of a clerk's bound of 2**20 bytes

    _arrives(hall, _run(hall, *[part] * 7))

    assert hall.reader.account.unread == 4
    assert len(hall.held.inbound_delivery) == 3


@clause("BUS-FLOW-1")
def test_one_that_is_longer_than_all_the_room_is_given_alone() -> None:
    hall = Hall(capacity=100)
    long = bytes(2**20 + 1)

    _arrives(hall, _run(hall, long, long))

    assert hall.reader.account.unread == 1
    assert len(hall.held.inbound_delivery) == 1
    assert _take(hall) == [long]
    hall.held.inbound_delivery.resume(hall.entry)
    assert not hall.held.inbound_delivery.holds(hall.entry)


def test_a_run_that_is_held_back_goes_nowhere_once_its_task_has_left() -> None:
    hall = Hall(capacity=1)
    _arrives(hall, _run(hall, b"1", b"2", b"3"))

    hall.station.exchange.deregister(hall.entry, final=False)
    hall.serve()
    _arrives(hall, _run(hall, b"4"))

    assert len(hall.held.inbound_delivery) == 0
    assert hall.reader.read == []


def test_a_run_that_is_held_back_follows_a_task_that_moves() -> None:
    hall, there = Hall(capacity=1), ThreadManager("there")
    _arrives(hall, _run(hall, b"1", b"2", b"3"))
    _take(hall)

    hall.entry.host, hall.entry.mailbox.held = there, False
    hall.held.inbound_delivery.resume(hall.entry)

    assert [list(each.payloads) for each in there.inbox.items] == [[b"2"]]
    assert len(hall.held.inbound_delivery) == 1


@clause("BUS-FLOW-2")
@pytest.mark.parametrize("bytes_max", [100, 4])
def test_a_reader_gets_held_messages_once_half_of_its_room_is_free(
    bytes_max: int,
) -> None:
    """Else each read releases a single message, which takes thirty times as long."""
    account = Account(messages_max=4, bytes_max=bytes_max, overflow="block")
    account.admit_run_locked(Lengths.of([1, 1, 1, 1]))
    half_free = [account.is_half_free]
    for _ in range(4):
        account.extracted += 1
        account.extracted_bytes += 1
        half_free.append(account.is_half_free)

    assert half_free == [False, False, True, True, True]


@clause("BUS-FLOW-2")
def test_an_empty_account_has_half_of_its_room_free_at_any_capacity() -> None:
    account = Account(messages_max=1, bytes_max=1, overflow="block")
    assert account.is_half_free

    account.admit_run_locked(Lengths.of([5]))
    assert not account.is_half_free
