"""How a task reads commands that arrived together, on a clock of the test.

These commands lie in the mailbox as one item. For the task, and for all others of its
thread, the only difference is the time it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import bus
from bus.kernel.tasks.runs import InboundRun
from bus.process.thread_manager import ThreadManager, move
from queuebroker import _sync
from specs.clauses import clause
from tests.kit.station import Station, run_due
from tests.process.tasks.reading import (
    FIRST,
    REFERENCE,
    named,
    post,
    post_one,
    reader,
    runs_until,
    several,
)
from tests.strikes import everywhere

if TYPE_CHECKING:
    from tests.kit.clock import Clock
    from tests.strikes import Blow

SLICE_S: Final = 0.001  # how long a task reads before other tasks are checked


@clause("BUS-MSG-15", "BUS-MSG-3", "BUS-ENT-7")
def test_commands_that_came_together_are_read_in_order(station: Station) -> None:
    """Each is a message of its own, with the reference, the sender, the addressee."""
    task, entry = reader(station, "c")
    post_one(station, entry, "before")
    post(station, entry, *named(4))
    post_one(station, entry, "after")
    station.home.stop(_sync.monotonic() + 100)
    station.home.run()

    assert task.read == ["before", *named(4), "after"]
    assert task.singly == ["before", "after"]
    for each in task.messages:
        assert each.reference == REFERENCE
        assert each._to is entry
        assert each.sender == station.source.address
        assert not each.wants_reply
    assert len({id(each) for each in task.messages}) == 4


@clause("BUS-ENT-7")
def test_a_poll_lets_a_task_read_one(station: Station) -> None:
    """However many arrived together; the unread and delivered counts stay exact."""
    task, entry = reader(station, "c")
    before = station.home.scheduler.callbacks
    post(station, entry, *named(3))

    for read in range(1, 4):
        assert station.home.poll(0) == 1
        assert task.read == [*named(read)]
        assert (task.account.unread, task.account.delivered) == (3 - read, read)
        assert station.home.scheduler.callbacks == before + read
    assert station.home.poll(0) == 0
    assert task.parts == [1] * 3
    assert task.begun == [FIRST, FIRST + 1, FIRST + 2]


@clause("BUS-ENT-7")
def test_tasks_with_commands_to_read_take_turns_after_each_command(
    station: Station,
) -> None:
    order: list[bytes] = []
    tasks = [(name, *reader(station, name)) for name in "xyz"]
    for name, task, entry in tasks:
        task.act = order.append
        post(station, entry, *[(name + str(number)).encode() for number in range(3)])
    last = runs_until(station, b"z2")

    def act(payload: bytes) -> None:
        order.append(payload)
        last(payload)

    task.act = act
    station.home.run()

    assert order == [
        (name + str(number)).encode() for number in range(3) for name in "xyz"
    ]


@clause("BUS-ENT-7", "BUS-ROUTE-3")
def test_a_task_that_gets_a_message_meanwhile_waits_for_one_command(
    station: Station,
) -> None:
    """The message comes from another thread, or from the reading thread itself."""
    order: list[Any] = []
    quick, other = reader(station, "q")
    quick.act = order.append
    task, entry = reader(station, "c")
    post(station, entry, *named(8))
    last = runs_until(station, b"h")

    def act(payload: bytes) -> None:
        order.append(payload)
        if payload == b"c":
            station.send("q", "from within")
        if payload == b"e":
            post_one(station, other, "from elsewhere")
        last(payload)

    task.act = act
    station.home.run()

    a, b, c, d, e, f, g, h = named(8)
    assert order == [a, b, c, d, "from within", e, f, "from elsewhere", g, h]


@clause("BUS-ENT-7")
def test_a_task_reads_for_a_time_slice_if_no_other_task_waits(
    station: Station, clock: Clock
) -> None:
    """One command at first; then as many as fit into a millisecond."""
    task, entry = reader(station, "c")
    post(station, entry, *named(10))
    last = runs_until(station, b"j")

    def act(payload: bytes) -> None:
        clock.now += 0.3 * SLICE_S
        last(payload)

    task.act = act
    station.home.run()

    assert task.read == [*named(10)]
    assert task.parts == [1, 4, 4, 1]


@clause("BUS-ENT-7")
def test_a_due_timer_is_called_in_time(station: Station, clock: Clock) -> None:
    """Requests to the thread are served as well; then the task reads on."""
    order: list[Any] = []
    task, entry = reader(station, "c")
    post(station, entry, *named(8))
    last = runs_until(station, b"h")
    station.home.call_at(clock.now + 0.45 * SLICE_S, lambda: order.append("due"))

    def act(payload: bytes) -> None:
        clock.now += 0.1 * SLICE_S
        order.append(payload)
        if payload == b"f":
            station.home.ask(lambda: order.append("asked"))
        last(payload)

    task.act = act
    station.home.run()

    a, b, c, d, e, f, g, h = named(8)
    assert order == [a, b, c, d, e, "due", f, "asked", g, h]


@clause("BUS-FLOW-5", "BUS-ENT-7")
def test_overdue_commands_are_not_read_with_the_others(
    station: Station, clock: Clock
) -> None:
    """An overdue command is handed over singly, which reports it to its sender."""
    task, entry = reader(station, "c")
    post(station, entry, *named(6), deadline=clock.now + 0.35 * SLICE_S)
    last = runs_until(station, b"f")

    def act(payload: bytes) -> None:
        clock.now += 0.1 * SLICE_S
        last(payload)

    task.act = act
    station.home.run()

    assert task.read == [*named(6)]
    assert task.singly == [b"e", b"f"]
    assert task.parts == [1, 3]


@clause("BUS-RELAY-9")
def test_at_any_time_so_many_count_as_read_as_were_handed_over(
    station: Station,
) -> None:
    """Another thread looks, and acknowledges these commands to the sender's process."""
    task, entry = reader(station, "c")
    run = several(station, entry, *named(6))
    station.home.inbox.offer_inbound_run(run, task.account, station.home)
    (posted,) = station.home.inbox.items
    seen: list[tuple[int, int]] = []
    last = runs_until(station, b"f")

    def act(payload: bytes) -> None:
        seen.append((len(task.read), posted.at))
        last(payload)

    task.act = act
    station.home.run()

    assert seen == [(number, number) for number in range(1, 7)]
    assert posted.at == 6
    assert task.begun == [FIRST, FIRST + 1]  # noted before the callback is called


@clause("BUS-FLOW-1", "BUS-FLOW-7")
def test_each_command_that_is_read_frees_its_room_at_once(station: Station) -> None:
    """In messages and in bytes; and the accounts balance at any time."""
    task, entry = reader(station, "c", capacity=6)
    account = task.account
    post(station, entry, *[each * 10 for each in named(6)])
    seen: list[tuple[int, int, int, bool]] = []
    last = runs_until(station, b"f" * 10)

    def act(payload: bytes) -> None:
        counters = account.unread, account.unread_bytes, account.delivered
        seen.append((*counters, account.full(1)))
        last(payload)

    task.act = act
    station.home.run()

    # The first turn reads one command, the second one the others.
    assert seen == [(6 - read, 60 - 10 * read, read, False) for read in range(1, 7)]
    assert (account.unread, account.unread_bytes, account.delivered) == (0, 0, 6)
    assert (account.extracted, account.extracted_bytes) == (6, 60)


@clause("BUS-FLOW-7")
def test_the_counters_balance_though_a_reader_was_interrupted(station: Station) -> None:
    """The interrupt prevents the note of the read; the next note makes up for it."""
    task, entry = reader(station, "c", capacity=4)
    account, lock = task.account, station.home.inbox.lock
    post(station, entry, b"a", b"b")
    (first,) = station.home.inbox.items
    account.begin(first, lock)
    next(first.read(None))  # the interrupt falls here, before the read is settled

    assert (account.unread, account.unread_bytes, account.delivered) == (1, 1, 1)
    second = several(station, entry, b"c", b"d", number=FIRST + 2)
    assert station.home.inbox.offer_inbound_run(second, account, station.home) == 2
    (_, posted) = station.home.inbox.items
    account.begin(posted, lock)
    next(posted.read(None))
    assert (account.unread, account.extracted) == (2, 1)
    for _ in range(2):
        account.settle(lock)
        assert (account.unread, account.extracted, account.extracted_bytes) == (2, 2, 2)
    assert [len(first), len(posted)] == [1, 1]


@clause("BUS-FLOW-7")
def test_a_concurrent_look_counts_each_read_command_once(
    station: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look comes from another thread, which holds no lock."""
    task, entry = reader(station, "c")
    account, lock = task.account, station.home.inbox.lock
    post(station, entry, *named(5))
    (posted,) = station.home.inbox.items
    look: Any = InboundRun.__dict__["at"].fget
    meddle = [lock]

    def meddled(run: InboundRun) -> int:
        at: int = look(run)
        if meddle:  # just at this point
            account.settle(meddle.pop())
        return at

    monkeypatch.setattr(InboundRun, "at", property(meddled))
    reading = posted.read(None)
    for read, figure in enumerate(("unread", "unread_bytes", "delivered"), 1):
        account.begin(posted, lock)
        next(reading)
        meddle[:] = [lock]
        wanted = read if figure == "delivered" else 5 - read
        assert getattr(account, figure) == wanted
        assert not meddle


@clause("BUS-MSG-15", "BUS-FLOW-7")
def test_a_message_behind_a_run_that_is_forgotten_as_its_last_callback_runs_is_read(
    station: Station,
) -> None:
    """A mailbox forgets runs without unread messages, as it forgets dropped ones."""
    task, entry = reader(station, "c")
    mailbox = entry.mailbox
    post(station, entry, *named(2))
    a, b = named(2)

    def act(payload: Any) -> None:
        if payload == b:
            station.send("c", "behind")
            mailbox.skip_dropped()
            assert [each.payload for each in mailbox.items] == ["behind"]

    task.act = act
    run_due(station.home)

    assert task.read == [a, b, "behind"]
    assert (task.account.unread, task.account.delivered) == (0, 3)


@clause("BUS-MSG-13")
def test_a_callback_that_raises_is_called_with_the_next_one(station: Station) -> None:
    task, entry = reader(station, "c")
    post(station, entry, *named(5))
    last = runs_until(station, b"e")

    def act(payload: bytes) -> None:
        last(payload)
        if payload in b"bce":
            raise ValueError(payload)

    task.act = act
    station.home.run()

    assert task.read == [*named(5)]
    assert task.failed_callbacks == 3
    assert (task.account.unread, task.account.delivered) == (0, 5)


@clause("BUS-MSG-15", "BUS-FLOW-7")
@pytest.mark.parametrize("at", range(4))
def test_an_interrupt_within_a_callback_loses_nothing_and_repeats_nothing(
    station: Station, at: int
) -> None:
    """The command being read counts as read; the others are read afterwards."""
    task, entry = reader(station, "c")
    post(station, entry, *named(4))
    post_one(station, entry, "after")
    fatal = named(4)[at]

    def act(payload: Any) -> None:
        if payload == fatal:
            raise KeyboardInterrupt

    task.act = act
    with pytest.raises(KeyboardInterrupt):
        station.home.run()
    assert task.read == [*named(at + 1)]
    assert (task.account.unread, task.account.delivered) == (4 - at, at + 1)
    assert sum(task.parts) == at + 1
    assert station.home.scheduler.running is None

    task.act = None
    run_due(station.home)
    assert task.read == [*named(4), "after"]
    assert task.account.unread == 0


@clause("BUS-MSG-15", "BUS-MOVE-2", "BUS-DEREG-4", "BUS-FLOW-7")
@pytest.mark.parametrize("by", ["a turn", "a move", "a departure"])
def test_an_interrupt_while_a_run_is_split_loses_and_doubles_no_message(
    by: str, clock: Clock
) -> None:
    """After a departure the next holder of the name reads them."""

    def case(interrupted: Blow) -> None:
        station = Station()
        there = ThreadManager("there")
        for each in (station.home, there):
            each.adopt()
        task, entry = reader(station, "c")
        sent = several(station, entry, *named(3))
        sent.receipt = None  # a command of a link is resent by its sender instead
        inbox = station.home.inbox
        assert inbox.offer_inbound_run(sent, task.account, station.home) == 3
        post_one(station, entry, "after")
        if by == "a turn":
            task.remote_subscriptions = False
            interrupted(lambda: station.home.poll(0))
        elif by == "a move":
            interrupted(lambda: move(entry, there))
            interrupted(lambda: there.poll(0))
        else:
            interrupted(lambda: station.exchange.deregister(entry, final=False))
            station.exchange.deregister(entry, final=False)
            task, entry = reader(station, "c")

        for each in (station.home, there):
            run_due(each)
        missing = {*named(3), "after"} - {*task.read}
        assert len(task.read) + len(missing) == 4
        assert len(missing) <= (by != "a departure")  # a turn may have begun
        assert task.read == [each for each in (*named(3), "after") if each in task.read]

    everywhere(case, packages=[bus])


@clause("BUS-MSG-15", "BUS-FLOW-7")
def test_an_interrupted_turn_keeps_no_room_for_a_message_behind_a_run_that_was_read(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task reads it later, unless the turn has extracted it."""

    def case(interrupted: Blow) -> None:
        station = Station()
        station.home.adopt()
        task, entry = reader(station, "c")
        post(station, entry, *named(2))
        post_one(station, entry, "after")
        for _ in named(2):
            station.home.poll(0)
        # As the client of a task does: see `Receiver.on_interrupted`.
        monkeypatch.setattr(task, "on_interrupted", lambda *_: task.account.unread > 0)

        interrupted(lambda: station.home.poll(0))

        run_due(station.home)
        assert task.account.unread == 0

    everywhere(case, packages=[bus])


@clause("BUS-FLOW-1", "BUS-CHAN-6")
@pytest.mark.parametrize(("room", "given"), [(0, 0), (1, 1), (3, 3), (4, 4), (9, 4)])
def test_as_many_are_posted_as_there_is_room_for(
    station: Station, room: int, given: int
) -> None:
    """The others stay with the sender, and nothing is counted for them."""
    task, entry = reader(station, "c", capacity=room + 2)
    station.send("c", 1, 2)
    run = several(station, entry, *named(4))

    inbox = station.home.inbox
    assert inbox.offer_inbound_run(run, task.account, station.home) == given

    assert task.account.unread == 2 + given
    assert [each.payload for each in run.rest()] == [*named(4)[given:]]
    run_due(station.home)
    assert task.read == [1, 2, *named(given)]
    assert task.account.unread == task.account.unread_bytes == 0


@clause("BUS-ROUTE-1")
def test_nothing_is_posted_where_the_task_is_no_more(station: Station) -> None:
    task, entry = reader(station, "c")
    run = several(station, entry, *named(4))
    elsewhere = ThreadManager("elsewhere")

    assert elsewhere.inbox.offer_inbound_run(run, task.account, elsewhere) == 0

    assert (len(run), task.account.unread) == (4, 0)
    assert not elsewhere.inbox.items
