"""The order of turns in one thread that the test drives."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bus.process import mailbox
from bus.process.account import Admission
from bus.process.thread_manager import Request, ThreadManager, move
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.station import Clerk, Station, run_due
from tests.process.tasks.driven import Threads
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run


class Actor(Clerk):
    """A clerk that acts on each message, within its callback."""

    def __init__(self, act: Callable[[Any], object]) -> None:
        super().__init__(100, "error")
        self._act = act

    def handle(self, item: Any) -> None:
        super().handle(item)
        self._act(item.payload)


def actor(station: Station, name: str, act: Callable[[Any], object]) -> Any:
    """Register a task that acts; return its entry."""
    _, entry = station.register(name, station.home)
    entry.mailbox.client = Actor(act)
    return entry


@pytest.fixture
def station() -> Station:
    """A process whose only thread is the calling one."""
    station = Station()
    station.home.adopt()
    return station


@clause("BUS-ENT-7")
def test_tasks_take_turns_in_the_order_in_which_they_got_something(
    station: Station,
) -> None:
    """Each task reads one message a turn, however many it has."""
    order: list[tuple[str, Any]] = []
    for name in "abc":
        actor(station, name, partial(_note, order, name))
    run_due(station.home)

    for name, payload in [("b", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]:
        station.send(name, payload)
    run_due(station.home)

    assert order == [("b", 1), ("a", 3), ("c", 4), ("b", 2), ("b", 5)]


def _note(order: list[tuple[str, Any]], name: str, payload: Any) -> None:
    order.append((name, payload))


@clause("BUS-ENT-7")
def test_no_callback_runs_within_another(station: Station) -> None:
    """A message sent by a callback, even to its own task, is read after it returns."""
    running: list[str] = []
    most: list[int] = []

    def act(payload: Any) -> None:
        running.append(payload)
        if payload:
            station.send("a", payload - 1)
            station.send("b", payload - 1)
        most.append(len(running))
        running.pop()

    actor(station, "a", act)
    actor(station, "b", act)
    station.send("a", 4)
    run_due(station.home)

    assert set(most) == {1}
    assert len(most) == 2**5 - 1


@clause("BUS-CHAN-9")
def test_an_internal_error_ends_one_request_and_not_the_thread(
    station: Station,
) -> None:
    """Nor does it repeat the request."""
    done, reported = list[int](), list[int]()
    host = station.home
    host.on_internal_error = lambda: reported.append(1)

    def fails() -> None:
        done.append(1)
        raise LookupError("within the bus")

    host.ask(fails)
    host.ask(lambda: done.append(2))
    host.stop(0.0)
    host.run()

    assert done == [1, 2]
    assert reported == [1]


@clause("QB-ERR-9")
def test_a_request_that_is_interrupted_is_run_by_the_next_poll(
    station: Station,
) -> None:
    """It may open a task, or remove one; the later requests follow it."""
    done, host = list[int](), station.home

    def run(number: int) -> None:
        done.append(number)
        if done == [1]:
            raise KeyboardInterrupt

    host.ask(lambda: run(1))
    host.ask(lambda: run(2))

    with pytest.raises(KeyboardInterrupt):
        host.poll(0)
    host.poll(0)

    assert done == [1, 1, 2]


@clause("BUS-CHAN-9")
def test_a_thread_outlives_an_error_of_its_recovery(station: Station) -> None:
    reported, host = list[int](), station.home

    def fails() -> None:
        reported.append(1)
        if len(reported) < 3:
            raise MemoryError

    host.on_internal_error = fails
    host.ask(fails)
    host.stop(0.0)
    host.run()

    assert reported == [1, 1, 1]


@clause("BUS-CHAN-9")
def test_without_memory_each_item_stays_in_the_inbox_until_a_mailbox_has_it(
    station: Station,
) -> None:
    got, failed = list[Any](), list[Any]()
    entry = actor(station, "a", got.append)
    put, host = station.home._put, station.home

    def short_of(box: Any, item: Any) -> None:
        if item.payload == 2 and not failed:
            failed.append(item)
            raise MemoryError
        put(box, item)

    messages = [station.message("a", number) for number in (1, 2, 3)]
    for message in messages:
        message._to, message._account = entry, entry.mailbox.client.account
        assert host.inbox.offer(message, host) is Admission.ACCEPTED
    host._put = short_of  # type: ignore[assignment, misc]
    host.stop(LIMIT_S + _sync.monotonic())
    host.run()

    assert failed
    assert got == [1, 2, 3]


@clause("BUS-MOVE-3")
def test_a_task_that_asks_for_its_own_move_ends_its_callback_first(
    station: Station,
) -> None:
    """The next callback runs in the new thread."""
    elsewhere = ThreadManager("elsewhere")
    elsewhere.adopt()
    places: list[tuple[str, str]] = []

    def act(payload: Any) -> None:
        before = entry.host.name
        if payload == "move":
            move(entry, elsewhere)
        places.append((before, entry.host.name))

    entry = actor(station, "c", act)
    station.send("c", "move", "stay")
    run_due(station.home)
    assert places == [("home", "home")]
    run_due(elsewhere)

    assert places == [("home", "home"), ("elsewhere", "elsewhere")]


@clause("BUS-MOVE-1", "BUS-MSG-15")
def test_a_second_move_waits_for_the_messages_of_the_first(station: Station) -> None:
    """A thread takes on a task only once all earlier messages have arrived."""
    elsewhere = ThreadManager("elsewhere")
    elsewhere.adopt()
    clerk, entry = station.register("c", station.home)
    run_due(station.home)
    station.send("c", 1)
    move(entry, elsewhere)
    station.send("c", 2)
    move(entry, station.home)
    station.send("c", 3)
    assert entry.host is elsewhere

    for _ in range(3):
        run_due(elsewhere)
        run_due(station.home)

    assert entry.host is station.home
    assert clerk.read == [1, 2, 3]


@clause("BUS-ROUTE-1")
def test_each_message_goes_where_the_task_is_by_then(station: Station) -> None:
    """The old thread is not remembered anywhere."""
    elsewhere = ThreadManager("elsewhere")
    elsewhere.adopt()
    clerk, entry = station.register("c", station.home)
    station.send("c", 1)
    run_due(station.home)
    move(entry, elsewhere)
    station.send("c", 2)
    run_due(station.home)
    run_due(elsewhere)

    assert list(zip(clerk.read, clerk.threads, strict=True)) == [
        (1, "home"),
        (2, "elsewhere"),
    ]


@clause("BUS-ROUTE-4")
def test_a_thread_that_runs_is_not_woken() -> None:
    """Neither by one message nor by a thousand: the thread checks its inbox itself."""
    station = Station()
    clerk, _ = station.register("c", station.home, capacity=1000)

    station.send("c", *range(1000))
    assert len(station.home.inbox.items) > 1000  # posted from another thread
    station.home.adopt()
    run_due(station.home)

    assert clerk.read == [*range(1000)]
    assert station.home.inbox.wakeups == 0


@clause("BUS-ROUTE-4")
def test_a_thread_that_sleeps_is_woken() -> None:
    """At most once for each message, and not while it runs."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there")
        (there,) = threads.managers
        clerk, _ = station.register("c", there)
        run.settle()
        before = there.inbox.wakeups
        station.send("c", 1, 2, 3)
        run.settle()

        assert clerk.read == [1, 2, 3]
        # Once for each time that the thread found nothing and slept.
        assert 1 <= there.inbox.wakeups - before <= 3
        threads.end()

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(300))


@clause("BUS-ENT-6")
def test_only_the_thread_that_hosts_a_task_touches_its_mailbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Meanwhile other threads send, and the task moves."""

    def program(run: Run) -> None:
        touched: list[tuple[int, Any]] = []

        class Watched(deque[Any]):
            def append(self, item: Any) -> None:
                touched.append((_sync.get_ident(), self))
                super().append(item)

            def __delitem__(self, at: Any) -> None:
                touched.append((_sync.get_ident(), self))
                super().__delitem__(at)

        monkeypatch.setattr(mailbox, "deque", Watched)
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        clerk, entry = station.register("c", threads.managers[0])
        sender = run.spawn(lambda: station.send("c", 1, 2))
        move(entry, threads.managers[1])
        sender.join()
        threads.end()

        assert clerk.read == [1, 2]
        assert touched
        hosts = {manager.ident for manager in threads.managers}
        assert {who for who, _ in touched} <= hosts
        for one in {id(each): each for _, each in touched}.values():
            assert len({who for who, each in touched if each is one}) == 1

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(300))


def test_a_due_timer_is_called_in_time(station: Station) -> None:
    """The earliest is called first; a later one does not block the thread."""
    called: list[str] = []
    now = _sync.monotonic()
    station.home.call_at(now - 1, lambda: called.append("second"))
    station.home.call_at(now - 2, lambda: called.append("first"))
    station.home.call_at(now + 1000, lambda: called.append("never"))
    clerk, _ = station.register("c", station.home)
    station.send("c", 1)

    run_due(station.home)
    station.home.poll(0)

    assert called == ["first", "second"]
    assert clerk.read == [1]


def test_a_thread_sleeps_until_something_is_due() -> None:
    """No other thread has to wake it."""

    def program(run: Run) -> None:
        manager = ThreadManager("there")
        manager.adopt()
        began = run.now
        called: list[float] = []
        manager.call_at(_sync.monotonic() + 3, lambda: called.append(run.now))
        while not called:
            manager.poll(None)

        assert called[0] - began >= 3

    explore(program, bound=1, random=20, seed=1, limit=schedules(100))


# Waiting elsewhere.


class Elsewhere:
    """A place where a thread may wait; each wait performs the next given act."""

    def __init__(self, *waits: Callable[[], bool]) -> None:
        self._waits = list(waits)

    def wait(self, _: ThreadManager, __: float | None) -> bool:
        return self._waits.pop(0)()

    def return_lease(self, _: ThreadManager) -> None:
        """Do nothing: no thread stays here."""


@clause("BUS-CHAN-7")
@pytest.mark.parametrize("stays", [True, False])
def test_a_request_made_while_a_thread_waits_elsewhere_is_served(
    *, stays: bool
) -> None:
    """A request is served, not only a posted message."""
    thread, served = ThreadManager("thread"), list[str]()
    thread.adopt()

    def acts() -> bool:
        thread._requests.append(Request(lambda: served.append("request")))
        return stays

    thread.link_wait = Elsewhere(acts)

    thread.poll(LIMIT_S)

    assert served == ["request"]
    assert (thread.link_wait is not None) is stays


@clause("QB-ERR-9")
def test_an_interrupt_of_a_thread_that_serves_returns_its_lease() -> None:
    """Else no thread would read that link."""
    thread, returned = ThreadManager("thread"), list[ThreadManager]()
    thread.adopt()

    class Interrupted(Elsewhere):
        def wait(self, _: ThreadManager, __: float | None) -> bool:
            thread.leased = self
            raise KeyboardInterrupt

        def return_lease(self, host: ThreadManager) -> None:
            returned.append(host)

    thread.link_wait = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        thread.run()

    assert (thread.leased, returned) == (None, [thread])


def test_it_waits_elsewhere_until_something_is_here_or_time_is_up() -> None:
    thread = ThreadManager("thread")
    thread.adopt()
    waits = [lambda: True, lambda: True, lambda: False]
    thread.link_wait = Elsewhere(*waits)

    assert thread.poll(_sync.monotonic() + 0.01) == 0

    assert thread.link_wait is None


def test_a_timer_whose_function_sets_an_earlier_one_is_removed() -> None:
    thread = ThreadManager("t")
    fired: list[str] = []

    def first() -> None:
        fired.append("first")
        thread.call_at(0.0, lambda: fired.append("second"))

    thread.call_at(1.0, first)
    thread.scheduler.fire()
    assert [at for at, *_ in thread.scheduler.timers] == [0.0]
    thread.scheduler.fire()

    assert fired == ["first", "second"]
    assert thread.scheduler.timers == []


def test_a_timer_whose_function_fails_is_removed() -> None:
    thread = ThreadManager("t")
    thread.call_at(1.0, lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        thread.scheduler.fire()

    assert thread.scheduler.timers == []
