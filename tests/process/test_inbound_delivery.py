"""`InboundDelivery`: delivers to tasks with room, without room, and that leave.

Commands that arrived together in a run stay together while they are held back.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import BusFullError
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.wire import Lengths
from bus.process.account import Account
from bus.process.inbound_delivery import InboundDelivery
from bus.process.thread_manager import ThreadManager, move
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.messages import inbound_run
from tests.process.receiving_process import (
    BYTES_MAX,
    MESSAGES_MAX,
    Reader,
    ReceivingProcess,
)
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.tasks.routing_table import Entry
    from bus.process.account import Overflow
    from queuebroker.testing import Run


def under_every_schedule(program: Callable[[Run], object], *, bound: int = 2) -> None:
    explore(program, bound=bound, limit=schedules(1_500), random=schedules(150), seed=1)


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


@pytest.fixture
def process() -> ReceivingProcess:
    return ReceivingProcess(capacity=2)


@clause("BUS-FLOW-1", "BUS-FLOW-2", "BUS-CHAN-6")
@pytest.mark.parametrize("size", [1, 2**19])
@pytest.mark.parametrize("together", [False, True])
def test_messages_without_room_are_held_back_until_the_task_reads(
    size: int, *, together: bool
) -> None:
    """They are delivered in order as the task reads."""
    process = ReceivingProcess(capacity=3)
    commands = process.commands(1, 2, 3, 4, 5, size=size)
    (process.held.arrive_together if together else process.held.arrive)(*commands)
    room = min(3, 2**20 // size)  # the room of a clerk
    assert process.reader.account.unread == room
    assert len(process.held.inbound_delivery) == 5 - room
    process.serve()
    assert process.reader.read == [1, 2, 3, 4, 5]
    assert not process.held.inbound_delivery.holds(process.entry)


@pytest.mark.parametrize("as_run", [False, True])
def test_held_messages_of_a_deregistered_task_are_discarded(
    process: ReceivingProcess, *, as_run: bool
) -> None:
    """The sender's process learns which ones were read, and resends the rest."""
    deliver = process.held.inbound_delivery.deliver
    for payloads in ([b"1", b"2", b"3", b"4"], [b"5"]):
        some: Any = process.commands(*payloads)
        deliver(process.entry, [_run(process, *payloads)] if as_run else some)
        process.station.exchange.deregister(process.entry, final=False)
        process.serve()
    assert len(process.held.inbound_delivery) == 0
    assert process.reader.read == []


@pytest.mark.parametrize("as_run", [False, True])
@pytest.mark.parametrize(
    ("overflow", "read", "lost", "cut"),
    [
        ("drop-newest", [b"1", b"2"], [b"3"], []),
        ("drop-oldest", [b"2", b"3"], [b"1"], []),
        ("disconnect", [b"1", b"2"], [], [b"3"]),
    ],
)
def test_a_task_whose_policy_decides_at_once_is_never_waited_for(
    overflow: Overflow,
    read: list[bytes],
    lost: list[bytes],
    cut: list[bytes],
    *,
    as_run: bool,
) -> None:
    process = ReceivingProcess(capacity=2, overflow=overflow)
    payloads = [b"1", b"2", b"3"]
    if as_run:
        _arrives(process, _run(process, *payloads))
    else:
        process.held.arrive(*process.commands(*payloads))
    assert len(process.held.inbound_delivery) == 0
    assert (process.held.far.lost, process.reader.cut) == (lost, cut)
    process.serve()
    assert process.reader.read == read


def test_nothing_is_held_back_behind_another_task(process: ReceivingProcess) -> None:
    clerk, other = process.station.register("other", process.host)
    process.held.arrive(*process.commands(1, 2, 3), process.held.command(other, 4))
    process.host.poll(0)
    process.host.poll(0)
    assert clerk.read == [4]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize("overflow", ["error", "block"])
def test_a_notification_without_room_is_dropped_and_reported_as_a_gap(
    process: ReceivingProcess, overflow: Overflow
) -> None:
    """A notifier cannot be held back over a link."""
    received = process.subscription(overflow, capacity=2)
    process.held.arrive(
        *(
            process.held.notification(process.entry, received, each)
            for each in (1, 2, 3)
        )
    )
    assert len(process.held.inbound_delivery) == 0
    process.serve()
    process.held.arrive(process.held.notification(process.entry, received, 4))
    process.serve()
    assert process.reader.read == [1, 2, 4]
    assert process.reader.gaps == [0, 0, 1]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize(
    ("overflow", "read", "reported"),
    [
        ("drop-oldest", [6, 7, 8], [5 + 111, 0, 1000]),
        *((each, [1, 2, 8], [0, 1, 5 + 1110]) for each in ("drop-newest", "error")),
    ],
)
def test_a_gap_is_reported_even_if_the_message_that_carries_it_is_dropped(
    process: ReceivingProcess, overflow: Overflow, read: list[int], reported: list[int]
) -> None:
    """Messages read plus all gaps equal messages sent, wherever some were dropped.

    Nothing is read at first; the eighth message comes after the task has read again.
    """
    received = process.subscription(overflow, capacity=2)
    gaps = dict.fromkeys(range(1, 9), 0) | {2: 1, 3: 10, 5: 100, 8: 1000}

    def come(*numbers: int) -> None:
        process.held.arrive(
            *(
                process.held.notification(process.entry, received, each, gap=gaps[each])
                for each in numbers
            )
        )

    come(*range(1, 8))
    assert len(process.held.inbound_delivery) == 0
    process.serve()
    come(8)
    process.serve()

    assert (process.reader.read, process.reader.gaps) == (read, reported)
    assert len(read) + sum(reported) == 8 + sum(gaps.values())
    account = received._account
    assert account.missed == sum(gaps.values())
    assert account.missed + account.dropped + account.refused == sum(reported)


@pytest.mark.parametrize("size", [1, BYTES_MAX // 2])
@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop-oldest", "last"), ("drop-newest", "first")]
)
def test_notifications_that_are_held_back_are_bounded(
    process: ReceivingProcess, overflow: Overflow, kept: str, size: int
) -> None:
    """No window holds them back at their sender (BUS-FLOW-1)."""
    received = process.subscription(overflow, capacity=MESSAGES_MAX)
    numbers = range(10, 60)
    process.held.arrive(*process.commands(1, 2, 3))
    process.held.arrive(
        *(
            process.held.notification(process.entry, received, each, size)
            for each in numbers
        )
    )
    fit = min(MESSAGES_MAX, BYTES_MAX // size)
    assert len(process.held.inbound_delivery) == 1 + fit
    process.serve()
    process.held.arrive(process.held.notification(process.entry, received, 60, size))
    process.serve()
    expected = [*(numbers[-fit:] if kept == "last" else numbers[:fit]), 60]
    assert process.reader.read == [1, 2, 3, *expected]
    # Each gap counts the drops right before its message.
    before = [9, *expected[:-1]]
    reported = [at - last - 1 for last, at in zip(before, expected, strict=True)]
    assert process.reader.gaps == [0, 0, 0, *reported]


@clause("BUS-FLOW-3")
def test_each_subscription_reports_its_own_drops_among_held_messages(
    process: ReceivingProcess,
) -> None:
    """The last drops are reported by the next message, even if nothing is held back."""
    rather_old = process.subscription("drop-newest", capacity=MESSAGES_MAX)
    rather_new = process.subscription("drop-oldest", capacity=MESSAGES_MAX)
    process.held.arrive(*process.commands(1, 2, 3))
    for number in range(10, 30):
        received = rather_new if number % 2 else rather_old
        process.held.arrive(process.held.notification(process.entry, received, number))
    process.serve()
    for number, received in ((30, rather_old), (31, rather_new)):
        process.held.arrive(process.held.notification(process.entry, received, number))
    process.serve()

    read = [*zip(process.reader.read, process.reader.gaps, strict=True)][3:]
    for parity in (0, 1):
        mine = [(8 + parity, 0), *(each for each in read if each[0] % 2 == parity)]
        assert [gap for _, gap in mine[1:]] == [
            (at - last) // 2 - 1 for (last, _), (at, _) in pairwise(mine)
        ]
        assert mine[-1][0] == 30 + parity


def test_messages_that_pass_through_two_threads_keep_their_order(
    process: ReceivingProcess,
) -> None:
    """BUS-MSG-15: the task's own thread may act for the others."""
    first, second = process.commands(1, 2)
    with Threads() as threads:
        threads.start(process.held.arrive, first)
    process.held.arrive(second)  # in the thread that hosts the task
    process.serve()
    assert process.reader.read == [1, 2]


@clause("BUS-MSG-15")
def test_answers_and_messages_keep_their_order(process: ReceivingProcess) -> None:
    seen: list[Any] = []
    process.reader.handle = seen.append  # type: ignore[method-assign, assignment]
    [command] = process.commands(1)
    answer = _Answer(process.entry)
    with Threads() as threads:
        threads.start(process.held.arrive, command)
    process.held.inbound_delivery.answer(answer)  # type: ignore[arg-type]
    process.serve()
    assert seen == [command, answer]


def test_an_answer_for_a_task_that_has_left_goes_nowhere(
    process: ReceivingProcess,
) -> None:
    process.station.exchange.deregister(process.entry, final=False)
    process.held.inbound_delivery.answer(_Answer(process.entry))  # type: ignore[arg-type]
    process.serve()
    assert process.reader.read == []


class _Answer:
    _account = None
    _trace = None

    def __init__(self, entry: Entry) -> None:
        self._to = entry


# Runs.


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


# In every schedule.


@clause("BUS-MSG-15")
@pytest.mark.parametrize("capacity", [1, 2])
def test_all_is_given_once_and_in_order_however_it_is_read(capacity: int) -> None:
    """Even if the task reads between the refusal and the note of a held message."""

    def program(run: Run) -> None:
        process = ReceivingProcess(capacity)
        numbers = [1, 2, 3]
        run.spawn(process.held.arrive, *process.commands(*numbers), name="comes")
        while len(process.reader.read) < len(numbers):
            process.host.poll(None)
            assert process.reader.account.unread <= capacity
        assert process.reader.read == numbers

    under_every_schedule(program)
    explore(
        program,
        bound=1,
        limit=schedules(300),
        random=schedules(60),
        seed=1,
        bytecode=[InboundDelivery, Reader],
    )


def test_all_is_given_though_another_sends_to_that_task_too() -> None:
    def program(run: Run) -> None:
        process = ReceivingProcess(capacity=1, overflow="block")
        accepted: list[int] = []
        over: list[bool] = []

        def sends() -> None:
            for number in (7, 8):
                with suppress(BusFullError):  # on a slow machine the send may time out
                    process.station.send("reader", number)
                    accepted.append(number)
            over.append(True)
            process.host.ask(list)

        run.spawn(process.held.arrive, *process.commands(1, 2), name="comes")
        run.spawn(sends)
        read = process.reader.read
        while not over or len(read) < 2 + len(accepted):
            process.host.poll(None)
        assert [each for each in read if each < 5] == [1, 2]
        assert [each for each in read if each > 5] == accepted

    under_every_schedule(program, bound=1)


def test_all_is_given_though_the_task_moves() -> None:
    def program(run: Run) -> None:
        process = ReceivingProcess(capacity=1)
        there = ThreadManager("there")

        def serves() -> None:
            there.adopt()
            while len(process.reader.read) < 3:
                there.poll(None)

        run.spawn(serves)
        run.spawn(process.held.arrive, *process.commands(1, 2, 3), name="comes")
        move(process.entry, there)
        run.join()
        assert process.reader.read == [1, 2, 3]

    under_every_schedule(program, bound=1)


def test_nothing_is_held_for_ever_though_the_task_leaves() -> None:
    def program(run: Run) -> None:
        process = ReceivingProcess(capacity=1)
        coming = run.spawn(
            process.held.arrive, *process.commands(1, 2, 3), name="comes"
        )
        process.host.poll(0)
        process.station.exchange.deregister(process.entry, final=False)
        coming.join()
        process.serve()
        assert len(process.held.inbound_delivery) == 0
        assert process.reader.read == sorted(set(process.reader.read))

    under_every_schedule(program)
