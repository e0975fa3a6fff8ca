"""Messages reach a task wherever it moves, in every order of events."""

from __future__ import annotations

import contextlib
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.core.local.actions import Fail, Post, Reply
from bus.errors import BusFullError, UnresolvedError
from bus.message import Incoming
from bus.threads.account import Account
from bus.threads.delivery import Answer
from bus.threads.exchange import FastDelivery
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync
from queuebroker.testing import explore
from queuebroker.waiting.parking import taken_lock
from queuebroker.waiting.shared_parker import SharedParker
from specs.clauses import clause
from tests.strikes import Blow, everywhere
from tests.threads.station import Clerk, Station

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.actions import Action
    from queuebroker.testing import Run, Spawned

NUMBERS = [1, 2, 3]


class Done:
    """An event that one thread sets and another waits for."""

    def __init__(self) -> None:
        self._parker = taken_lock()
        self._told: list[bool] = []

    def tell(self) -> None:
        self._told.append(True)
        self._parker.release()

    def wait(self) -> None:
        _sync.park(self._parker, lambda: bool(self._told), None)


class Threads:
    """Bus threads under the explorer, which serve until `end`."""

    def __init__(self, run: Run, *names: str) -> None:
        self.managers = [ThreadManager(name) for name in names]
        self._spawned: list[Spawned[Any]] = []
        for manager in self.managers:
            self._spawned.append(run.spawn(self._serving(manager)))

    @staticmethod
    def _serving(manager: ThreadManager) -> Callable[[], None]:
        def serve() -> None:
            manager.adopt()
            manager.run()

        return serve

    def end(self) -> None:
        """Let each thread serve its inbox and the consequences, and return.

        Twice, since the last step of one thread may post to another.
        """
        for _ in range(2):
            for manager in self.managers:
                served = Done()
                manager.ask(served.tell)
                served.wait()
        for manager in self.managers:
            manager.stop(_sync.monotonic() + 100)
        for spawned in self._spawned:
            spawned.join()


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

    explore(program, bound=1, random=100, seed=1, limit=600)


@clause("BUS-MOVE-2", "BUS-MSG-15", "BUS-ROUTE-5")
def test_a_task_that_moves_misses_nothing_and_nothing_overtakes() -> None:
    """Unread messages move along, ahead of all messages sent since."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        clerk, entry = station.register("c", threads.managers[0])
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        station.exchange.move(entry, threads.managers[1])
        sender.join()
        threads.end()

        assert clerk.read == NUMBERS
        assert clerk.threads == sorted(clerk.threads, reverse=True)
        assert entry.host is threads.managers[1]
        assert not clerk.failures

    explore(program, bound=1, random=100, seed=1, limit=600)


@clause("BUS-MOVE-1", "BUS-MSG-15")
def test_a_task_that_moves_there_and_back_keeps_the_order() -> None:
    """The second move waits until the messages of the first move have arrived."""

    def program(run: Run) -> None:
        station = Station()
        threads = Threads(run, "there", "elsewhere")
        there, elsewhere = threads.managers
        clerk, entry = station.register("c", there)
        sender = run.spawn(lambda: station.send("c", *NUMBERS))
        station.exchange.move(entry, elsewhere)
        station.exchange.move(entry, there)
        sender.join()
        threads.end()

        assert clerk.read == NUMBERS
        assert entry.host is there

    explore(program, bound=1, random=100, seed=1, limit=600)


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

    explore(program, bound=1, random=100, seed=1, limit=600)


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

    explore(program, bound=1, random=100, seed=1, limit=600)


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

        told = [payload for payload, _ in station.sender.failures]
        parked = [each._source and each.payload for each in _parked(station)]
        assert clerk.read + told + parked == NUMBERS

    explore(program, bound=1, random=100, seed=1, limit=600)


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

    explore(program, bound=1, random=100, seed=1, limit=600)


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
        told = len(station.sender.dropped)
        assert told == account.dropped + account.turned_away
        lost = told + len(refused)
        assert len(clerk.read) + lost == 4
        assert (lost == len(refused)) is (overflow == "error" or not lost)

    explore(program, bound=1, random=100, seed=1, limit=500)


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
                host.inbox.offer_run(messages, clerk.account, host)
                return
            with contextlib.suppress(BusFullError):
                station.send("c", "outside")

        for send in (send_inside, send_outside):
            run.spawn(send)
        run.join()

        # A message refused in one step has to be retried alone.
        assert clerk.account.unread in ({1, 2} if run_of else {2})
        assert entry.host is host

    explore(program, bound=2, random=100, seed=1, limit=1_000, bytecode=[Account])


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

    station.exchange.send(message)

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

        told = [payload for payload, _ in clerk.failures]
        # The interrupted action itself may be lost: its progress is unknown.
        assert told in ([1, 2, 3], [2, 3], [1, 3], [3])
        lost.append(3 - len(told))

    lost: list[int] = []
    everywhere(case, packages=[bus])
    assert lost.count(0) > len(lost) // 2


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
    reply: Any = Reply(None, 1, None, None, None, final=True)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        station.exchange.decide(lambda: [reply])
    station.exchange.decide(list)

    assert given == [1, 1]


def _reply(entry: Any, number: int = 1) -> Reply:
    return Reply(entry, number, None, None, None, final=True)  # type: ignore[arg-type]


class _Link:
    """A stand-in for a link: maps a frame to actions."""

    def __init__(self, event: Callable[[Any], bool]) -> None:
        self._event = event

    def receive(self, _: bytes, _now: float, todo: Any, *, answers_only: bool) -> bool:
        return self._event(todo)


class FastReceiver:
    """A set-up that delivers uncommitted messages to a task of the calling thread."""

    def __init__(self, *, capacity: int = 100) -> None:
        self.station = Station()
        self.host = self.station.home
        _, self.entry = self.station.register("b", self.host, capacity=capacity)
        self.held: set[Any] = set()
        comm: Any = SimpleNamespace(
            enter=lambda: True,
            request_flush=lambda: None,
            holds=self.held.__contains__,
            do=self._do,
        )
        self.station.exchange.comm = comm
        self.done: list[Any] = []
        self.host.adopt()
        self.host.poll(0)

    def _do(self, action: Action) -> None:
        self.done.append(action)

    def command(self, payload: int = 1) -> Post:
        message = self.station.message("b", payload)
        message._to = self.entry
        return Post(self.entry, [message])

    def slip(self, action: Action) -> FastDelivery:
        def event(todo: Any) -> bool:
            todo += (action,)
            return True

        return self.station.exchange.try_deliver_now(_Link(event), b"", self.host)

    @property
    def read(self) -> list[Any]:
        return list(self.entry.mailbox.items or ())


@clause("BUS-MSG-15")
def test_an_answer_waits_for_earlier_items_in_the_mailbox() -> None:
    """The earlier answer comes first, though its thread still counts as asleep."""
    fast_receiver, heard = FastReceiver(), list[Any]()
    host, client = fast_receiver.host, fast_receiver.entry.mailbox.client

    def hears(answer: Answer) -> bool:
        heard.append(answer)
        return True

    client.try_deliver_directly = hears
    host.inbox.arrived.enlist(SharedParker())
    answers = [
        Answer(_to=fast_receiver.entry, number=number, responder=None)
        for number in range(2)
    ]

    assert fast_receiver.station.exchange.deliver_answer(answers[0])
    fast_receiver.slip(fast_receiver.command())
    assert fast_receiver.station.exchange.deliver_answer(answers[1])

    assert heard == answers[:1]
    assert [type(each) for each in fast_receiver.read] == [Incoming, Answer]


class _Way:
    """A stand-in for another place where a thread may wait."""

    def leave(self, _: ThreadManager) -> None:
        """Do nothing: no thread stays longer than its wait."""


class Meanwhile(_Way):
    """A way whose wait performs one act for the whole process."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def wait(self, host: ThreadManager, deadline: float | None) -> bool:
        self._act()
        assert host.inbox.items, "nobody would look at it before it sleeps"
        assert not host._ready
        return False


@clause("BUS-ROUTE-4", "BUS-MSG-11")
@pytest.mark.parametrize("what", ["a message", "a request", "a time"])
def test_an_event_during_a_wait_at_a_link_is_found_before_the_thread_sleeps(
    what: str,
) -> None:
    """The waiting thread's work for its process may concern a task of its own."""
    fast_receiver, done = FastReceiver(), list[str]()
    station, host, entry = (
        fast_receiver.station,
        fast_receiver.host,
        fast_receiver.entry,
    )
    entry.mailbox.client.handle = lambda _: done.append("a message")

    def act() -> None:
        if what == "a message":
            answer = Answer(_to=entry, number=1, responder=None)
            assert station.exchange.post(answer)
        elif what == "a request":
            station.exchange.at_home(entry, lambda: done.append(what))
        else:
            host.set_timer(0.0, lambda: done.append(what))
        assert not done

    host.link_wait = Meanwhile(act)
    for _ in range(2):
        host.poll(None if not done else 0)
    assert done == [what]
    assert not host.waiting


@clause("QB-ERR-9")
def test_an_interrupt_during_a_wait_at_a_link_ends_the_wait() -> None:
    """Else all messages that the thread posts to itself would go through the inbox."""
    fast_receiver = FastReceiver()

    class Interrupted(_Way):
        def wait(self, host: ThreadManager, deadline: float | None) -> bool:
            assert host.waiting
            raise KeyboardInterrupt

    fast_receiver.host.link_wait = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        fast_receiver.host.poll(None)
    assert not fast_receiver.host.waiting


@clause("BUS-CHAN-7")
def test_a_fast_path_message_is_in_its_mailbox_at_once() -> None:
    fast_receiver = FastReceiver()
    command, reply = fast_receiver.command(), _reply(fast_receiver.entry, 7)

    assert fast_receiver.slip(command) is FastDelivery.DELIVERED
    assert fast_receiver.slip(reply) is FastDelivery.DELIVERED

    assert fast_receiver.read[0] is command.messages[0]
    assert fast_receiver.read[1].number == 7
    assert fast_receiver.entry.mailbox.client.account.unread == 1
    fast_receiver.station.exchange.act()
    assert fast_receiver.done == []


def _posted_before(fast_receiver: FastReceiver) -> None:
    fast_receiver.host.inbox.push("a request")


def _elsewhere(fast_receiver: FastReceiver) -> None:
    fast_receiver.host = ThreadManager("another")


def _held_back(fast_receiver: FastReceiver) -> None:
    fast_receiver.held.add(fast_receiver.entry)


def _full(fast_receiver: FastReceiver) -> None:
    fast_receiver.slip(fast_receiver.command(0))


def _decided_before(fast_receiver: FastReceiver) -> None:
    fast_receiver.station.exchange._todo.append(_reply(fast_receiver.entry, 0))


def _being_done(fast_receiver: FastReceiver) -> None:
    fast_receiver.station.exchange._acting = True


@clause("BUS-CHAN-7", "BUS-MSG-15")
@pytest.mark.parametrize(
    "so",
    [_posted_before, _elsewhere, _held_back, _full, _decided_before, _being_done],
)
def test_a_fast_path_message_overtakes_no_other_message(
    so: Callable[[FastReceiver], None],
) -> None:
    fast_receiver = FastReceiver(capacity=1)
    so(fast_receiver)
    unread = len(fast_receiver.read)
    command = fast_receiver.command()

    assert fast_receiver.slip(command) is FastDelivery.QUEUED

    assert (
        len(fast_receiver.read)
        == unread
        == fast_receiver.entry.mailbox.client.account.unread
    )
    assert fast_receiver.station.exchange._todo[-1] is command


@clause("BUS-CHAN-7")
def test_a_refused_fast_path_message_is_stored_nowhere() -> None:
    fast_receiver = FastReceiver()

    slip = fast_receiver.station.exchange.try_deliver_now(
        _Link(lambda _: False), b"", fast_receiver.host
    )

    assert slip is FastDelivery.REFUSED
    assert fast_receiver.read == []
    assert not fast_receiver.station.exchange._todo


def test_a_thread_that_performs_some_actions_leaves_the_rest_to_others() -> None:
    station, given = Station(), list[int]()
    comm: Any = SimpleNamespace(do=lambda action: given.append(action.number))
    station.exchange.comm = comm

    def replies(todo: Any) -> bool:
        todo += [_reply(station.source, at) for at in range(3)]
        return True

    station.home.inbox.push("something before them")

    assert (
        station.exchange.try_deliver_now(_Link(replies), b"", station.home)
        is FastDelivery.QUEUED
    )
    station.exchange.act(1)
    assert given == [0]
    station.exchange.act()
    assert given == [0, 1, 2]


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
