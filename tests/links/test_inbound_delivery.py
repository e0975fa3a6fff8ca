"""`InboundDelivery`: delivers to tasks with room, without room, and that leave."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import BusFullError
from bus.links.inbound_delivery import InboundDelivery
from bus.threads.host_thread import move
from bus.threads.thread_manager import ThreadManager
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.links.receiving_process import (
    BYTES_MAX,
    MESSAGES_MAX,
    Reader,
    ReceivingProcess,
)
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.routing_table import Entry
    from bus.threads.account import Overflow
    from queuebroker.testing import Run


def under_every_schedule(program: Callable[[Run], object], *, bound: int = 2) -> None:
    explore(program, bound=bound, limit=schedules(1_500), random=schedules(150), seed=1)


@pytest.fixture
def process() -> ReceivingProcess:
    return ReceivingProcess(capacity=2)


def test_messages_with_room_are_delivered_at_once(process: ReceivingProcess) -> None:
    process.held.arrive(*process.commands(1, 2))
    assert len(process.held.inbound_delivery) == 0
    process.serve()
    assert process.reader.read == [1, 2]


@clause("BUS-FLOW-1", "BUS-CHAN-6")
@pytest.mark.parametrize("size", [1, 2**19])
def test_messages_that_arrive_together_are_delivered_up_to_the_room(
    size: int,
) -> None:
    """The rest is held back, and delivered in order as the task reads."""
    process = ReceivingProcess(capacity=3)
    process.held.arrive_together(*process.commands(1, size=size))
    process.held.arrive_together(*process.commands(2, 3, 4, 5, size=size))
    room = min(3, 2**20 // size)  # the room of a clerk
    assert process.reader.account.unread == room
    assert len(process.held.inbound_delivery) == 5 - room
    process.serve()
    assert process.reader.read == [1, 2, 3, 4, 5]


@clause("BUS-FLOW-2")
def test_messages_without_room_are_held_back_until_the_task_reads(
    process: ReceivingProcess,
) -> None:
    process.held.arrive(*process.commands(1, 2, 3, 4, 5))
    assert len(process.held.inbound_delivery) == 3
    assert process.held.inbound_delivery.holds(process.entry)
    assert process.reader.account.unread == 2
    process.serve()
    assert process.reader.read == [1, 2, 3, 4, 5]
    assert not process.held.inbound_delivery.holds(process.entry)


def test_nothing_is_held_back_behind_another_task(process: ReceivingProcess) -> None:
    clerk, other = process.station.register("other", process.host)
    process.held.arrive(*process.commands(1, 2, 3), process.held.command(other, 4))
    process.host.poll(0)
    process.host.poll(0)
    assert clerk.read == [4]


def test_held_messages_of_a_deregistered_task_are_discarded(
    process: ReceivingProcess,
) -> None:
    """The sender's process learns which ones were read, and resends the rest."""
    process.held.arrive(*process.commands(1, 2, 3, 4))
    process.station.exchange.deregister(process.entry, final=False)
    process.held.arrive(*process.commands(5))
    process.serve()
    assert len(process.held.inbound_delivery) == 0
    assert process.reader.read == []


def test_held_messages_follow_a_task_that_moves(process: ReceivingProcess) -> None:
    process.held.arrive(*process.commands(1, 2, 3, 4))
    there = ThreadManager("there")
    with Threads() as threads:

        def serves() -> None:
            there.adopt()
            while len(process.reader.read) < 4:
                there.poll(None)

        move(process.entry, there)
        threads.start(serves)
    assert process.reader.read == [1, 2, 3, 4]
    assert set(process.reader.threads) == {"there"}


def test_a_task_that_drops_the_newest_is_never_waited_for() -> None:
    process = ReceivingProcess(capacity=2, overflow="drop-newest")
    process.held.arrive(*process.commands(1, 2, 3, 4))
    assert len(process.held.inbound_delivery) == 0
    assert process.held.far.lost == [3, 4]
    process.serve()
    assert process.reader.read == [1, 2]


def test_a_task_that_drops_the_oldest_is_never_waited_for() -> None:
    process = ReceivingProcess(capacity=2, overflow="drop-oldest")
    process.held.arrive(*process.commands(1, 2, 3, 4))
    assert len(process.held.inbound_delivery) == 0
    assert process.held.far.lost == [1, 2]
    process.serve()
    assert process.reader.read == [3, 4]


def test_a_task_that_asked_to_be_cut_off_is() -> None:
    process = ReceivingProcess(capacity=2, overflow="disconnect")
    process.held.arrive(*process.commands(1, 2, 3))
    assert len(process.held.inbound_delivery) == 0
    assert process.reader.cut == [3]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize("overflow", ["error", "block"])
def test_a_notification_without_room_is_dropped_and_reported_as_a_gap(
    process: ReceivingProcess, overflow: Overflow
) -> None:
    """A notifier cannot be held back over a link."""
    heard = process.heard(overflow, capacity=2)
    process.held.arrive(
        *(process.held.notification(process.entry, heard, each) for each in (1, 2, 3))
    )
    assert len(process.held.inbound_delivery) == 0
    process.serve()
    process.held.arrive(process.held.notification(process.entry, heard, 4))
    process.serve()
    assert process.reader.read == [1, 2, 4]
    assert process.reader.gaps == [0, 0, 1]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize(
    ("overflow", "read", "told"),
    [
        ("drop-oldest", [6, 7, 8], [5 + 111, 0, 1000]),
        *((each, [1, 2, 8], [0, 1, 5 + 1110]) for each in ("drop-newest", "error")),
    ],
)
def test_a_gap_is_reported_even_if_the_message_that_carries_it_is_dropped(
    process: ReceivingProcess, overflow: Overflow, read: list[int], told: list[int]
) -> None:
    """Messages read plus all gaps equal messages sent, wherever some were dropped.

    Nothing is read at first; the eighth message comes after the task has read again.
    """
    heard = process.heard(overflow, capacity=2)
    gaps = dict.fromkeys(range(1, 9), 0) | {2: 1, 3: 10, 5: 100, 8: 1000}

    def come(*numbers: int) -> None:
        process.held.arrive(
            *(
                process.held.notification(process.entry, heard, each, gap=gaps[each])
                for each in numbers
            )
        )

    come(*range(1, 8))
    assert len(process.held.inbound_delivery) == 0
    process.serve()
    come(8)
    process.serve()

    assert (process.reader.read, process.reader.gaps) == (read, told)
    assert len(read) + sum(told) == 8 + sum(gaps.values())
    account = heard._account
    assert account.missed == sum(gaps.values())
    assert account.missed + account.dropped + account.refused == sum(told)


def test_a_notification_waits_behind_commands_that_are_held_back(
    process: ReceivingProcess,
) -> None:
    heard = process.heard()
    process.held.arrive(
        *process.commands(1, 2, 3), process.held.notification(process.entry, heard, 4)
    )
    assert len(process.held.inbound_delivery) == 2
    process.serve()
    assert process.reader.read == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, BYTES_MAX // 2])
@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop-oldest", "last"), ("drop-newest", "first")]
)
def test_notifications_that_are_held_back_are_bounded(
    process: ReceivingProcess, overflow: Overflow, kept: str, size: int
) -> None:
    """No window holds them back at their sender (BUS-FLOW-1)."""
    heard = process.heard(overflow, capacity=MESSAGES_MAX)
    numbers = range(10, 60)
    process.held.arrive(*process.commands(1, 2, 3))
    process.held.arrive(
        *(
            process.held.notification(process.entry, heard, each, size)
            for each in numbers
        )
    )
    fit = min(MESSAGES_MAX, BYTES_MAX // size)
    assert len(process.held.inbound_delivery) == 1 + fit
    process.serve()
    process.held.arrive(process.held.notification(process.entry, heard, 60, size))
    process.serve()
    expected = [*(numbers[-fit:] if kept == "last" else numbers[:fit]), 60]
    assert process.reader.read == [1, 2, 3, *expected]
    # Each gap counts the drops right before its message.
    before = [9, *expected[:-1]]
    told = [at - last - 1 for last, at in zip(before, expected, strict=True)]
    assert process.reader.gaps == [0, 0, 0, *told]


@clause("BUS-FLOW-3")
def test_each_subscription_reports_its_own_drops_among_held_messages(
    process: ReceivingProcess,
) -> None:
    """The last drops are reported by the next message, even if nothing is held back."""
    rather_old = process.heard("drop-newest", capacity=MESSAGES_MAX)
    rather_new = process.heard("drop-oldest", capacity=MESSAGES_MAX)
    process.held.arrive(*process.commands(1, 2, 3))
    for number in range(10, 30):
        heard = rather_new if number % 2 else rather_old
        process.held.arrive(process.held.notification(process.entry, heard, number))
    process.serve()
    for number, heard in ((30, rather_old), (31, rather_new)):
        process.held.arrive(process.held.notification(process.entry, heard, number))
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
    process.held.inbound_delivery.answer(process.entry, answer)  # type: ignore[arg-type]
    process.serve()
    assert seen == [command, answer]


def test_an_answer_for_a_task_that_has_left_goes_nowhere(
    process: ReceivingProcess,
) -> None:
    process.station.exchange.deregister(process.entry, final=False)
    process.held.inbound_delivery.answer(process.entry, _Answer(process.entry))  # type: ignore[arg-type]
    process.serve()
    assert process.reader.read == []


class _Answer:
    _account = None
    _trace = None

    def __init__(self, entry: Entry) -> None:
        self._to = entry


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


def test_the_bound_holds_in_every_schedule() -> None:
    def program(run: Run) -> None:
        process = ReceivingProcess(capacity=2)
        most = 0
        run.spawn(process.held.arrive, *process.commands(1, 2, 3), name="comes")
        while len(process.reader.read) < 3:
            process.host.poll(None)
            most = max(most, process.reader.account.unread)
        assert most <= 2

    under_every_schedule(program)


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
