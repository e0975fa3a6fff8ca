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
from tests.links.hall import BYTES_MAX, MESSAGES_MAX, Hall, Reader
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.routing_table import Entry
    from bus.threads.account import Overflow
    from queuebroker.testing import Run


def under_every_schedule(program: Callable[[Run], object], *, bound: int = 2) -> None:
    explore(program, bound=bound, limit=schedules(1_500), random=schedules(150), seed=1)


@pytest.fixture
def hall() -> Hall:
    return Hall(capacity=2)


def test_messages_with_room_are_delivered_at_once(hall: Hall) -> None:
    hall.held.arrive(*hall.commands(1, 2))
    assert len(hall.held.inbound_delivery) == 0
    hall.serve()
    assert hall.reader.read == [1, 2]


@clause("BUS-FLOW-1", "BUS-CHAN-6")
@pytest.mark.parametrize("size", [1, 2**19])
def test_messages_that_arrive_together_are_delivered_up_to_the_room(
    size: int,
) -> None:
    """The rest is held back, and delivered in order as the task reads."""
    hall = Hall(capacity=3)
    hall.held.arrive_together(*hall.commands(1, size=size))
    hall.held.arrive_together(*hall.commands(2, 3, 4, 5, size=size))
    room = min(3, 2**20 // size)  # the room of a clerk
    assert hall.reader.account.unread == room
    assert len(hall.held.inbound_delivery) == 5 - room
    hall.serve()
    assert hall.reader.read == [1, 2, 3, 4, 5]


@clause("BUS-FLOW-2")
def test_messages_without_room_are_held_back_until_the_task_reads(hall: Hall) -> None:
    hall.held.arrive(*hall.commands(1, 2, 3, 4, 5))
    assert len(hall.held.inbound_delivery) == 3
    assert hall.held.inbound_delivery.holds(hall.entry)
    assert hall.reader.account.unread == 2
    hall.serve()
    assert hall.reader.read == [1, 2, 3, 4, 5]
    assert not hall.held.inbound_delivery.holds(hall.entry)


def test_nothing_is_held_back_behind_another_task(hall: Hall) -> None:
    clerk, other = hall.station.register("other", hall.host)
    hall.held.arrive(*hall.commands(1, 2, 3), hall.held.command(other, 4))
    hall.host.poll(0)
    hall.host.poll(0)
    assert clerk.read == [4]


def test_held_messages_of_a_deregistered_task_are_discarded(hall: Hall) -> None:
    """The sender's process learns which ones were read, and resends the rest."""
    hall.held.arrive(*hall.commands(1, 2, 3, 4))
    hall.station.exchange.deregister(hall.entry, final=False)
    hall.held.arrive(*hall.commands(5))
    hall.serve()
    assert len(hall.held.inbound_delivery) == 0
    assert hall.reader.read == []


def test_held_messages_follow_a_task_that_moves(hall: Hall) -> None:
    hall.held.arrive(*hall.commands(1, 2, 3, 4))
    there = ThreadManager("there")
    with Threads() as threads:

        def serves() -> None:
            there.adopt()
            while len(hall.reader.read) < 4:
                there.poll(None)

        move(hall.entry, there)
        threads.start(serves)
    assert hall.reader.read == [1, 2, 3, 4]
    assert set(hall.reader.threads) == {"there"}


def test_a_task_that_drops_the_newest_is_never_waited_for() -> None:
    hall = Hall(capacity=2, overflow="drop-newest")
    hall.held.arrive(*hall.commands(1, 2, 3, 4))
    assert len(hall.held.inbound_delivery) == 0
    assert hall.held.far.lost == [3, 4]
    hall.serve()
    assert hall.reader.read == [1, 2]


def test_a_task_that_drops_the_oldest_is_never_waited_for() -> None:
    hall = Hall(capacity=2, overflow="drop-oldest")
    hall.held.arrive(*hall.commands(1, 2, 3, 4))
    assert len(hall.held.inbound_delivery) == 0
    assert hall.held.far.lost == [1, 2]
    hall.serve()
    assert hall.reader.read == [3, 4]


def test_a_task_that_asked_to_be_cut_off_is() -> None:
    hall = Hall(capacity=2, overflow="disconnect")
    hall.held.arrive(*hall.commands(1, 2, 3))
    assert len(hall.held.inbound_delivery) == 0
    assert hall.reader.cut == [3]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize("overflow", ["error", "block"])
def test_a_notification_without_room_is_dropped_and_reported_as_a_gap(
    hall: Hall, overflow: Overflow
) -> None:
    """A notifier cannot be held back over a link."""
    heard = hall.heard(overflow, capacity=2)
    hall.held.arrive(
        *(hall.held.notification(hall.entry, heard, each) for each in (1, 2, 3))
    )
    assert len(hall.held.inbound_delivery) == 0
    hall.serve()
    hall.held.arrive(hall.held.notification(hall.entry, heard, 4))
    hall.serve()
    assert hall.reader.read == [1, 2, 4]
    assert hall.reader.gaps == [0, 0, 1]


@clause("BUS-FLOW-3")
@pytest.mark.parametrize(
    ("overflow", "read", "told"),
    [
        ("drop-oldest", [6, 7, 8], [5 + 111, 0, 1000]),
        *((each, [1, 2, 8], [0, 1, 5 + 1110]) for each in ("drop-newest", "error")),
    ],
)
def test_a_gap_is_reported_even_if_the_message_that_carries_it_is_dropped(
    hall: Hall, overflow: Overflow, read: list[int], told: list[int]
) -> None:
    """Messages read plus all gaps equal messages sent, wherever some were dropped.

    Nothing is read at first; the eighth message comes after the task has read again.
    """
    heard = hall.heard(overflow, capacity=2)
    gaps = dict.fromkeys(range(1, 9), 0) | {2: 1, 3: 10, 5: 100, 8: 1000}

    def come(*numbers: int) -> None:
        hall.held.arrive(
            *(
                hall.held.notification(hall.entry, heard, each, gap=gaps[each])
                for each in numbers
            )
        )

    come(*range(1, 8))
    assert len(hall.held.inbound_delivery) == 0
    hall.serve()
    come(8)
    hall.serve()

    assert (hall.reader.read, hall.reader.gaps) == (read, told)
    assert len(read) + sum(told) == 8 + sum(gaps.values())
    account = heard._account
    assert account.missed == sum(gaps.values())
    assert account.missed + account.dropped + account.refused == sum(told)


def test_a_notification_waits_behind_commands_that_are_held_back(hall: Hall) -> None:
    heard = hall.heard()
    hall.held.arrive(
        *hall.commands(1, 2, 3), hall.held.notification(hall.entry, heard, 4)
    )
    assert len(hall.held.inbound_delivery) == 2
    hall.serve()
    assert hall.reader.read == [1, 2, 3, 4]


@pytest.mark.parametrize("size", [1, BYTES_MAX // 2])
@pytest.mark.parametrize(
    ("overflow", "kept"), [("drop-oldest", "last"), ("drop-newest", "first")]
)
def test_notifications_that_are_held_back_are_bounded(
    hall: Hall, overflow: Overflow, kept: str, size: int
) -> None:
    """No window holds them back at their sender (BUS-FLOW-1)."""
    heard = hall.heard(overflow, capacity=MESSAGES_MAX)
    numbers = range(10, 60)
    hall.held.arrive(*hall.commands(1, 2, 3))
    hall.held.arrive(
        *(hall.held.notification(hall.entry, heard, each, size) for each in numbers)
    )
    fit = min(MESSAGES_MAX, BYTES_MAX // size)
    assert len(hall.held.inbound_delivery) == 1 + fit
    hall.serve()
    hall.held.arrive(hall.held.notification(hall.entry, heard, 60, size))
    hall.serve()
    expected = [*(numbers[-fit:] if kept == "last" else numbers[:fit]), 60]
    assert hall.reader.read == [1, 2, 3, *expected]
    # Each gap counts the drops right before its message.
    before = [9, *expected[:-1]]
    told = [at - last - 1 for last, at in zip(before, expected, strict=True)]
    assert hall.reader.gaps == [0, 0, 0, *told]


@clause("BUS-FLOW-3")
def test_each_subscription_reports_its_own_drops_among_held_messages(
    hall: Hall,
) -> None:
    """The last drops are reported by the next message, even if nothing is held back."""
    rather_old = hall.heard("drop-newest", capacity=MESSAGES_MAX)
    rather_new = hall.heard("drop-oldest", capacity=MESSAGES_MAX)
    hall.held.arrive(*hall.commands(1, 2, 3))
    for number in range(10, 30):
        heard = rather_new if number % 2 else rather_old
        hall.held.arrive(hall.held.notification(hall.entry, heard, number))
    hall.serve()
    for number, heard in ((30, rather_old), (31, rather_new)):
        hall.held.arrive(hall.held.notification(hall.entry, heard, number))
    hall.serve()

    read = [*zip(hall.reader.read, hall.reader.gaps, strict=True)][3:]
    for parity in (0, 1):
        mine = [(8 + parity, 0), *(each for each in read if each[0] % 2 == parity)]
        assert [gap for _, gap in mine[1:]] == [
            (at - last) // 2 - 1 for (last, _), (at, _) in pairwise(mine)
        ]
        assert mine[-1][0] == 30 + parity


def test_messages_that_pass_through_two_threads_keep_their_order(hall: Hall) -> None:
    """BUS-MSG-15: the task's own thread may act for the others."""
    first, second = hall.commands(1, 2)
    with Threads() as threads:
        threads.start(hall.held.arrive, first)
    hall.held.arrive(second)  # in the thread that hosts the task
    hall.serve()
    assert hall.reader.read == [1, 2]


@clause("BUS-MSG-15")
def test_answers_and_messages_keep_their_order(hall: Hall) -> None:
    seen: list[Any] = []
    hall.reader.handle = seen.append  # type: ignore[method-assign, assignment]
    [command] = hall.commands(1)
    answer = _Answer(hall.entry)
    with Threads() as threads:
        threads.start(hall.held.arrive, command)
    hall.held.inbound_delivery.answer(hall.entry, answer)  # type: ignore[arg-type]
    hall.serve()
    assert seen == [command, answer]


def test_an_answer_for_a_task_that_has_left_goes_nowhere(hall: Hall) -> None:
    hall.station.exchange.deregister(hall.entry, final=False)
    hall.held.inbound_delivery.answer(hall.entry, _Answer(hall.entry))  # type: ignore[arg-type]
    hall.serve()
    assert hall.reader.read == []


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
        hall = Hall(capacity)
        numbers = [1, 2, 3]
        run.spawn(hall.held.arrive, *hall.commands(*numbers), name="comes")
        while len(hall.reader.read) < len(numbers):
            hall.host.poll(None)
        assert hall.reader.read == numbers

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
        hall = Hall(capacity=1, overflow="block")
        accepted: list[int] = []
        over: list[bool] = []

        def sends() -> None:
            for number in (7, 8):
                with suppress(BusFullError):  # on a slow machine the send may time out
                    hall.station.send("reader", number)
                    accepted.append(number)
            over.append(True)
            hall.host.ask(list)

        run.spawn(hall.held.arrive, *hall.commands(1, 2), name="comes")
        run.spawn(sends)
        read = hall.reader.read
        while not over or len(read) < 2 + len(accepted):
            hall.host.poll(None)
        assert [each for each in read if each < 5] == [1, 2]
        assert [each for each in read if each > 5] == accepted

    under_every_schedule(program, bound=1)


def test_the_bound_holds_in_every_schedule() -> None:
    def program(run: Run) -> None:
        hall = Hall(capacity=2)
        most = 0
        run.spawn(hall.held.arrive, *hall.commands(1, 2, 3), name="comes")
        while len(hall.reader.read) < 3:
            hall.host.poll(None)
            most = max(most, hall.reader.account.unread)
        assert most <= 2

    under_every_schedule(program)


def test_all_is_given_though_the_task_moves() -> None:
    def program(run: Run) -> None:
        hall = Hall(capacity=1)
        there = ThreadManager("there")

        def serves() -> None:
            there.adopt()
            while len(hall.reader.read) < 3:
                there.poll(None)

        run.spawn(serves)
        run.spawn(hall.held.arrive, *hall.commands(1, 2, 3), name="comes")
        move(hall.entry, there)
        run.join()
        assert hall.reader.read == [1, 2, 3]

    under_every_schedule(program, bound=1)


def test_nothing_is_held_for_ever_though_the_task_leaves() -> None:
    def program(run: Run) -> None:
        hall = Hall(capacity=1)
        coming = run.spawn(hall.held.arrive, *hall.commands(1, 2, 3), name="comes")
        hall.host.poll(0)
        hall.station.exchange.deregister(hall.entry, final=False)
        coming.join()
        hall.serve()
        assert len(hall.held.inbound_delivery) == 0
        assert hall.reader.read == sorted(set(hall.reader.read))

    under_every_schedule(program)
