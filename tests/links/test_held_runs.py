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
from tests.links.receiving_process import ReceivingProcess


def _run(process: ReceivingProcess, *payloads: bytes) -> InboundRun:
    return inbound_run(payloads, process.entry, process.held.far, receipt=None)


def _arrives(process: ReceivingProcess, *items: Any) -> None:
    process.held.inbound_delivery.deliver(process.entry, list(items))


def _take(process: ReceivingProcess) -> list[bytes]:
    """Read all messages in the task's inbox; return their payloads."""
    read = []
    for item in process.host.inbox.take_now():
        read += [each.payload for each in item.rest()]
    account = process.reader.account
    account.extracted += len(read)
    account.extracted_bytes += sum(map(len, read))
    return read


@clause("BUS-FLOW-1", "BUS-FLOW-2")
@pytest.mark.parametrize("overflow", ["error", "block"])
def test_the_part_of_a_run_without_room_is_held_back_and_delivered_as_runs(
    overflow: Any,
) -> None:
    process = ReceivingProcess(capacity=2, overflow=overflow)
    _arrives(process, _run(process, b"1", b"2", b"3"), _run(process, b"4", b"5", b"6"))
    assert process.reader.account.unread == 2
    assert len(process.held.inbound_delivery) == 4

    read = [_take(process)]
    while process.held.inbound_delivery.holds(process.entry):
        process.held.inbound_delivery.resume(process.entry)
        assert all(type(each) is InboundRun for each in process.host.inbox.items)
        read.append(_take(process))

    assert list(chain(*read)) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert len(process.held.inbound_delivery) == 0


@clause("BUS-MSG-15")
def test_runs_and_held_messages_do_not_overtake_one_another() -> None:
    process = ReceivingProcess(capacity=1)
    _arrives(process, *process.commands(b"1", b"2"))
    _arrives(process, _run(process, b"3", b"4"))
    _arrives(process, *process.commands(b"5"))

    read = []
    for _ in range(5):
        [item] = process.host.inbox.take_now()
        read.append(item.payload if type(item) is not InboundRun else item.payloads[0])
        process.reader.account.extracted += 1
        process.reader.account.extracted_bytes += 1
        process.held.inbound_delivery.resume(process.entry)

    assert read == [b"1", b"2", b"3", b"4", b"5"]
    assert not process.held.inbound_delivery.holds(process.entry)


@clause("BUS-MSG-15")
def test_a_run_waits_behind_held_messages_even_if_there_is_room_by_now() -> None:
    """The task has read a message, and not checked for held ones yet."""
    process = ReceivingProcess(capacity=1)
    _arrives(process, _run(process, b"1", b"2"))
    read = _take(process)

    _arrives(process, _run(process, b"3"))
    while process.host.inbox.items:
        read += _take(process)
        process.held.inbound_delivery.resume(process.entry)

    assert read == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("overflow", "lost"), [("drop-newest", [b"3", b"4"]), ("drop-oldest", [b"1", b"2"])]
)
def test_messages_for_a_task_that_drops_are_never_held_back(
    overflow: Any, lost: list[bytes]
) -> None:
    process = ReceivingProcess(capacity=2, overflow=overflow)

    _arrives(process, _run(process, b"1", b"2", b"3", b"4"))

    assert len(process.held.inbound_delivery) == 0
    assert process.held.far.lost == lost


@clause("BUS-FLOW-1")
def test_as_many_bytes_of_a_run_are_given_as_there_is_room_for() -> None:
    process = ReceivingProcess(capacity=100)
    part = bytes(2**18)  # a quarter of a clerk's bound of 2**20 bytes

    _arrives(process, _run(process, *[part] * 7))

    assert process.reader.account.unread == 4
    assert len(process.held.inbound_delivery) == 3


@clause("BUS-FLOW-1")
def test_one_that_is_longer_than_all_the_room_is_given_alone() -> None:
    process = ReceivingProcess(capacity=100)
    long = bytes(2**20 + 1)

    _arrives(process, _run(process, long, long))

    assert process.reader.account.unread == 1
    assert len(process.held.inbound_delivery) == 1
    assert _take(process) == [long]
    process.held.inbound_delivery.resume(process.entry)
    assert not process.held.inbound_delivery.holds(process.entry)


def test_a_run_that_is_held_back_goes_nowhere_once_its_task_has_left() -> None:
    process = ReceivingProcess(capacity=1)
    _arrives(process, _run(process, b"1", b"2", b"3"))

    process.station.exchange.deregister(process.entry, final=False)
    process.serve()
    _arrives(process, _run(process, b"4"))

    assert len(process.held.inbound_delivery) == 0
    assert process.reader.read == []


def test_a_run_that_is_held_back_follows_a_task_that_moves() -> None:
    process, there = ReceivingProcess(capacity=1), ThreadManager("there")
    _arrives(process, _run(process, b"1", b"2", b"3"))
    _take(process)

    process.entry.host, process.entry.mailbox.held = there, False
    process.held.inbound_delivery.resume(process.entry)

    assert [list(each.payloads) for each in there.inbox.items] == [[b"2"]]
    assert len(process.held.inbound_delivery) == 1


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
