"""Messages reach a task wherever it moves, in every order of events."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.errors import BusFullError, UnresolvedError
from bus.features.durable.horizons import Horizon, Store
from bus.kernel.tasks.actions import Answer, Fail, Post
from bus.process.account import Account
from bus.process.thread_manager import move
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.station import Clerk, Station
from tests.process.tasks.driven import Threads
from tests.strikes import Blow, everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.tasks.actions import Action
    from queuebroker.testing import Run

NUMBERS = [1, 2, 3]


@clause("BUS-ROUTE-3", "BUS-ENT-5")
def test_messages_of_several_threads_arrive_in_the_order_of_each_thread() -> None:
    """The receiver sleeps, wakes and sleeps again; no wake-up is lost."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        clerk, _ = station.register("c", threads.managers[0])
        senders = [
            run.spawn(partial(station.send, "c", (name, 1), (name, 2))) for name in "ab"
        ]
        for sender in senders:
            sender.join()
        threads.end()

        assert sorted(clerk.read) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
        for name in "ab":
            assert [n for who, n in clerk.read if who == name] == [1, 2]

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-MOVE-2", "BUS-MSG-15", "BUS-ROUTE-5")
def test_a_task_that_moves_misses_nothing_and_nothing_overtakes() -> None:
    """Unread messages move along, ahead of all messages sent since."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        clerk, entry = station.register("c", threads.managers[0])
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        move(entry, threads.managers[1])
        sender.join()
        threads.end()

        assert clerk.read == NUMBERS
        assert clerk.threads == sorted(clerk.threads, reverse=True)
        assert entry.host is threads.managers[1]
        assert not clerk.failures

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-MOVE-1", "BUS-MSG-15")
def test_a_task_that_moves_there_and_back_keeps_the_order() -> None:
    """The second move waits until the messages of the first move have arrived."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        there, elsewhere = threads.managers
        clerk, entry = station.register("c", there)
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        move(entry, elsewhere)
        move(entry, there)
        sender.join()
        threads.end()

        assert clerk.read == NUMBERS
        assert entry.host is there

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-MOVE-5", "BUS-ROUTE-20", "BUS-MSG-15")
def test_a_new_task_receives_the_parked_messages_first() -> None:
    """A message that finds a route never overtakes a parked one."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        clerk, _ = station.register("c", threads.managers[0])
        sender.join()
        threads.end()

        assert clerk.read == NUMBERS
        assert len(station.manager.parked) == 0

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-DEREG-8", "BUS-MSG-15")
def test_unread_messages_of_a_task_that_leaves_go_to_its_successor() -> None:
    """In order, each once, whether the task leaves or the next one comes first."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        first, entry = station.register("c", threads.managers[0])
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        station.exchange.deregister(entry, final=False)
        second, _ = station.register("c", threads.managers[1])
        sender.join()
        threads.end()

        assert first.read + second.read == NUMBERS
        assert first.left
        assert first.account.unread == second.account.unread == 0
        assert not first.failures

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-DEREG-8")
def test_unread_messages_of_a_task_that_leaves_for_good_fail() -> None:
    """Each message is read, or reported to its sender as failed, and never both."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        clerk, entry = station.register("c", threads.managers[0])
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        station.exchange.deregister(entry, final=True)
        sender.join()
        threads.end()

        reported = [payload for payload, _ in station.sender.failures]
        parked = [each._source and each.payload for each in _parked(station)]
        assert clerk.read + reported + parked == NUMBERS

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-FLOW-6", "BUS-FLOW-2")
def test_a_blocked_sender_resumes_when_there_is_room() -> None:
    """No sender sleeps while there is room, and the bound is never exceeded."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        clerk, _ = station.register(
            "c", threads.managers[0], capacity=1, overflow="block"
        )

        def send(payload: object) -> None:
            while True:  # on a slow machine the send may time out
                with contextlib.suppress(BusFullError):
                    station.send("c", payload)
                    return

        def send_two(name: str) -> None:
            send((name, 1))
            send((name, 2))

        senders = [run.spawn(partial(send_two, name)) for name in "ab"]
        for sender in senders:
            sender.join()
        threads.end()

        assert sorted(clerk.read) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(600))


@clause("BUS-FLOW-1", "BUS-FLOW-6")
@pytest.mark.parametrize("overflow", ["error", "drop-oldest", "drop-newest"])
def test_no_more_is_unread_than_the_bound_says(overflow: Any) -> None:
    """Two threads outside and the receiver's own thread fill it at the same time."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        (there,) = threads.managers
        clerk, _ = station.register("c", there, capacity=2, overflow=overflow)
        refused: list[Any] = []
        held: list[int] = []

        def send(name: str) -> None:
            for number in (1, 2):
                try:
                    station.send("c", (name, number))
                except BusFullError:
                    refused.append((name, number))

        def send_inside() -> None:
            send("inside")
            held.append(clerk.account.unread)

        there.ask(send_inside)
        outside = run.spawn(lambda: send("outside"))
        outside.join()
        threads.end()

        account = clerk.account
        assert max(held) <= 2
        assert account.unread == 0
        assert account.accepted == len(clerk.read) + account.dropped
        reported = len(station.sender.dropped)
        assert reported == account.dropped + account.refused
        lost = reported + len(refused)
        assert len(clerk.read) + lost == 4
        assert (lost == len(refused)) is (overflow == "error" or not lost)

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(500))


@pytest.mark.deep
@clause("BUS-FLOW-1")
@pytest.mark.parametrize("run_of", [0, 2])
def test_the_bound_holds_between_any_two_instructions(run_of: int) -> None:
    """One sender is inside the thread, without its lock; the other is outside.

    run_of: how many messages the outer sender posts in one step, as a remote process
      does; 0 for a single message.
    """

    def program(run: Run) -> None:
        station = Station()
        clerk, entry = station.register("c", station.home, capacity=2)
        host = station.home
        host.adopt()
        host.poll(0)
        station.send("c", 0)
        assert not host.inbox.items  # else the inner sender would post there as well

        def send_inside() -> None:
            host.adopt()
            with contextlib.suppress(BusFullError):
                station.send("c", "inside")

        def send_outside() -> None:
            if run_of:
                messages = [station.message("c", n) for n in range(run_of)]
                for each in messages:
                    each._to, each._account = entry, clerk.account
                host.inbox.offer_run(messages, clerk.account, host, [*messages])
                return
            with contextlib.suppress(BusFullError):
                station.send("c", "outside")

        for send in (send_inside, send_outside):
            run.spawn(send)
        run.join()

        # A message refused in one step has to be retried alone.
        assert clerk.account.unread in ({1, 2} if run_of else {2})
        assert entry.host is host

    explore(
        program,
        bound=2,
        random=schedules(100),
        seed=1,
        limit=schedules(1_000),
        bytecode=[Account],
    )


@clause("BUS-MSG-15")
def test_recorded_messages_are_read_in_the_order_of_their_numbers() -> None:
    """Numbers are drawn under the lock of the inbox, so the message goes there."""
    station = Station()
    station.register("c", station.home)
    station.home.adopt()
    station.home.poll(0)
    message = station.message("c", "recorded")
    trace: Any = SimpleNamespace(record_accepted=lambda _: None)
    message._trace = trace

    station.router.send(message)

    assert list(station.home.inbox.items) == [message]


def test_an_interrupt_keeps_nothing_from_being_done_later() -> None:
    """The next decision resumes the pending actions, in order."""

    def case(interrupted: Blow) -> None:
        station = Station()
        clerk = station.sender

        def fails(number: int) -> list[Action]:
            error = UnresolvedError("c", 0.0)
            return [Fail(station.message("c", number), error)]

        interrupted(lambda: station.exchange.decide(lambda: fails(1) + fails(2)))
        station.exchange.decide(lambda: fails(3))

        reported = [payload for payload, _ in clerk.failures]
        # Either the interrupt ended the decision, or each failure is reported once.
        assert reported in ([1, 2, 3], [3])
        lost.append(3 - len(reported))

    lost: list[int] = []
    everywhere(case, packages=[bus])
    assert lost.count(0) > len(lost) // 3


def _parked(station: Station) -> list[Any]:
    return station.manager.parked.take("c")


@clause("BUS-ENT-4", "BUS-ROUTE-2")
def test_a_message_within_a_thread_takes_no_lock_and_wakes_no_thread() -> None:
    """The inbox is not touched; the callback runs after the sender's has returned."""
    station = Station()
    clerk, _ = station.register("b", station.home)
    station.home.adopt()
    station.home.poll(0)
    order: list[str] = []

    class Sender(Clerk):
        def handle(self, item: Any) -> None:
            super().handle(item)
            inbox = station.home.inbox
            with inbox.lock:  # no other thread could post now
                station.send("b", "within")
                assert not inbox.items
            order.append("sender returns")

    sender = Sender(10, "error")
    entry = station.register("a", station.home)[1]
    entry.mailbox.client = sender
    station.home.poll(0)
    station.send("a", "go")
    wakeups = station.home.inbox.wakeups

    station.home.poll(0)
    assert (order, clerk.read) == (["sender returns"], [])
    station.home.poll(0)

    assert clerk.read == ["within"]
    assert station.home.inbox.wakeups == wakeups


@clause("QB-ERR-9")
def test_a_reply_that_was_interrupted_is_given_once_more_and_nothing_else_is() -> None:
    """The first delivery may have succeeded; a duplicate reply matches no question."""
    station, given = Station(), list[int]()

    def gives(action: Any) -> None:
        given.append(action.number)
        if given == [1]:
            raise KeyboardInterrupt

    comm: Any = SimpleNamespace(
        do=gives, request_flush=lambda: None, enter=lambda: True
    )
    station.exchange.comm = comm
    answer = Answer(None, 1, None)

    with pytest.raises(KeyboardInterrupt):
        station.exchange.decide(lambda: [answer])
    station.exchange.decide(list)

    assert given == [1, 1]


@clause("AMO-20")
def test_a_horizon_is_stored_before_the_action_behind_it_despite_an_interrupt() -> None:
    """The write goes back to the head of the queue."""
    station, done = Station(), list[Any]()

    def store(action: Store, queued: Iterable[object], lock: object) -> None:
        done.append(("store", [*queued]))
        if len(done) == 1:
            raise KeyboardInterrupt

    comm: Any = SimpleNamespace(do=done.append, request_flush=lambda: None)
    station.exchange.comm = comm
    station.exchange.performers[Store] = store
    post: Any = Post(None, [])  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        station.exchange.decide(lambda: [Store("a", Horizon(1, 1)), post])
    assert done == [("store", [post])]

    station.exchange.decide(list)

    assert done == [("store", [post]), ("store", [post]), post]


@clause("BUS-MSG-15")
def test_a_decision_voids_earlier_lookups() -> None:
    """A look decides nothing; else each look would slow down the next message."""
    station = Station()
    exchange, manager = station.exchange, station.manager
    before = manager.revision

    exchange.query(lambda: None)
    assert manager.revision == before
    acts: list[Callable[[], object]] = [
        lambda: exchange.decide(list),
        lambda: exchange.decide_remote(lambda: None),
        lambda: station.register("new", station.home),
    ]
    for count, act in enumerate(acts, start=1):
        act()
        assert manager.revision >= before + count
