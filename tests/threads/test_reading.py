"""How a task reads commands that arrived together, on a clock of the test.

These commands lie in the mailbox as one item. For the task, and for all others of its
thread, the only difference is the time it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from bus.core.local.command_run import CommandRun
from bus.core.streams.receipts import Receipt
from bus.threads.account import Admission
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync
from specs.clauses import clause
from tests.threads.station import Clerk, Station

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.routing_table import Entry
    from bus.message import Incoming

REFERENCE: Final = "reference"
RECEIPT: Final = Receipt(None, 1, 1)
FIRST: Final = 11  # the number of the first command
SLICE_S: Final = 0.001  # how long a task reads before other tasks are checked


class Clock:
    """A monotonic clock that advances only when a callback advances it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Reader(Clerk):
    """A task that reads commands that arrived together, and acts on each.

    act: the action on a payload; None for no action.
    begun: the number of the next command at the start of each turn of reading.
    parts: the number of commands read in each turn.
    singly: payloads of commands handed over one by one.
    """

    def __init__(self, capacity: int = 100) -> None:
        super().__init__(capacity, "error")
        self.act: Callable[[Any], object] | None = None
        self.remote_subscriptions = True
        self.begun: list[int] = []
        self.parts: list[int] = []
        self.singly: list[Any] = []
        self.failed_callbacks = 0
        self.messages: list[Incoming] = []

    @property
    def commands_to(self) -> Any:
        return (self.on_command, REFERENCE) if self.remote_subscriptions else None

    def on_command(self, message: Incoming) -> None:
        self.messages.append(message)
        self.read.append(message.payload)
        self.threads.append(message._to.host.name)
        if self.act is not None:
            self.act(message.payload)

    def handle(self, item: Any) -> None:
        super().handle(item)
        self.singly.append(item.payload)
        if self.act is not None:
            self.act(item.payload)

    def on_run_begun(self, run: CommandRun) -> None:
        self.begun.append(run.number + run.at)

    def on_run_read(self, run: CommandRun) -> None:
        self.parts.append(run.number + run.at - self.begun[-1])

    def on_exception(self, callback: object) -> None:
        assert callback == self.on_command
        self.failed_callbacks += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_sync, "monotonic", clock)
    return clock


@pytest.fixture
def station(clock: Clock) -> Station:
    """A process whose only thread is the calling one."""
    station = Station()
    station.home.adopt()
    return station


def reader(station: Station, name: str, capacity: int = 100) -> tuple[Reader, Entry]:
    """Register a task that reads a run of commands in parts."""
    _, entry = station.register(name, station.home)
    entry.mailbox.client = client = Reader(capacity)
    settle(station)
    return client, entry


def settle(station: Station) -> None:
    """Run all callbacks that are due, one turn after the other."""
    while station.home.pending():
        station.home.poll(0)


def several(
    station: Station,
    entry: Entry,
    *payloads: bytes,
    number: int = FIRST,
    deadline: float | None = None,
) -> CommandRun:
    """Make a run of several commands from "sender"."""
    return CommandRun(entry, station.source, payloads, RECEIPT, number, deadline)


def post(
    station: Station, entry: Entry, *payloads: bytes, deadline: float | None = None
) -> int:
    """Post several commands as one run; return how many there was room for."""
    run = several(station, entry, *payloads, deadline=deadline)
    host = station.home
    return host.inbox.offer_commands(run, entry.mailbox.client.account, host)


def post_one(station: Station, entry: Entry, payload: Any) -> None:
    """Post a command as another thread does."""
    message = station.message(entry.name, payload)
    message._to, message._account = entry, entry.mailbox.client.account
    host = station.home
    assert host.inbox.offer(message, host) is Admission.ACCEPTED


def named(count: int) -> tuple[bytes, ...]:
    return tuple(bytes([ord("a") + number]) for number in range(count))


def runs_until(station: Station, last: bytes) -> Callable[[bytes], None]:
    """Return a callback that stops the thread once it reads the payload `last`."""

    def act(payload: bytes) -> None:
        if payload == last:
            station.home.stop(_sync.monotonic() + 100)

    return act


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
    before = station.home.callbacks
    post(station, entry, *named(3))

    for read in range(1, 4):
        assert station.home.poll(0) == 1
        assert task.read == [*named(read)]
        assert (task.account.unread, task.account.delivered) == (3 - read, read)
        assert station.home.callbacks == before + read
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
    station.home.inbox.offer_commands(run, task.account, station.home)
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
    assert station.home.inbox.offer_commands(second, account, station.home) == 2
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
    look: Any = CommandRun.__dict__["at"].fget
    meddle = [lock]

    def meddled(run: CommandRun) -> int:
        at: int = look(run)
        if meddle:  # just at this point
            account.settle(meddle.pop())
        return at

    monkeypatch.setattr(CommandRun, "at", property(meddled))
    reading = posted.read(None)
    for read, figure in enumerate(("unread", "unread_bytes", "delivered"), 1):
        account.begin(posted, lock)
        next(reading)
        meddle[:] = [lock]
        wanted = read if figure == "delivered" else 5 - read
        assert getattr(account, figure) == wanted
        assert not meddle


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
    assert station.home.running is None

    task.act = None
    settle(station)
    assert task.read == [*named(4), "after"]
    assert task.account.unread == 0


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
            station.exchange.move(entry, elsewhere)
            station.send("c", "after")
            station.home.stop(_sync.monotonic() + 100)

    task.act = act
    station.home.run()
    while elsewhere.pending():
        elsewhere.poll(0)

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
    settle(station)

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
        station.exchange.at_home(entry, lambda: setattr(task, name, value))

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
    assert inbox.offer_commands(run, task.account, station.home) == given

    assert task.account.unread == 2 + given
    assert [each.payload for each in run.rest()] == [*named(4)[given:]]
    settle(station)
    assert task.read == [1, 2, *named(given)]
    assert task.account.unread == task.account.unread_bytes == 0


@clause("BUS-ROUTE-1")
def test_nothing_is_posted_where_the_task_is_no_more(station: Station) -> None:
    task, entry = reader(station, "c")
    run = several(station, entry, *named(4))
    elsewhere = ThreadManager("elsewhere")

    assert elsewhere.inbox.offer_commands(run, task.account, elsewhere) == 0

    assert (len(run), task.account.unread) == (4, 0)
    assert not elsewhere.inbox.items
