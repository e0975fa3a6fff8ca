"""Messages that a thread takes from a link itself, and its waits there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import bus
from bus.kernel.tasks.actions import Answer, Post
from bus.model.message import Incoming, Kind
from bus.process.dropping_account import new_account
from bus.process.thread_manager import ThreadManager, call_in_host_thread
from queuebroker.waiting.parking import SharedParker
from specs.clauses import clause
from tests.kit.station import Station
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.kernel.tasks.actions import Action
    from bus.process.account import Account, Overflow
    from tests.strikes import Blow


def _reply(entry: Any, number: int = 1) -> Answer:
    return Answer(entry, number, None)


class _Link:
    """A stand-in for a link: maps a frame to actions."""

    def __init__(self, event: Callable[[Any], bool]) -> None:
        self._event = event

    def receive(self, _: bytes, _now: float, todo: Any, *, tasks_only: bool) -> bool:
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

    def account(self, capacity: int = 100, overflow: Overflow = "error") -> Account:
        """Return the account of a subscription of the task."""
        return new_account(messages_max=capacity, bytes_max=2**20, overflow=overflow)

    def notification(
        self, account: Account, payload: int = 1, *, entry: Any = None, gap: int = 0
    ) -> Post:
        entry = entry or self.entry
        message = Incoming(
            Kind.NOTIFICATION,
            payload,
            gap=gap,
            subscriptions=(SimpleNamespace(_account=account),),
            _to=entry,
            _size=1,
        )
        return Post(entry, [message])

    def slip(self, *actions: Action) -> bool | None:
        def event(todo: Any) -> bool:
            todo += actions
            return True

        return self.station.exchange.try_deliver_now(_Link(event), b"", self.host)

    @property
    def read(self) -> list[Any]:
        return list(self.entry.mailbox.items or ())


@clause("BUS-MSG-15")
def test_an_answer_waits_for_earlier_items_in_the_mailbox() -> None:
    """The earlier answer comes first, though its thread still counts as asleep."""
    fast_receiver, received = FastReceiver(), list[Any]()
    host, client = fast_receiver.host, fast_receiver.entry.mailbox.client

    def take(answer: Answer, *_: object) -> bool:
        received.append(answer)
        return True

    client.try_deliver_directly = take
    host.inbox.arrived.enlist(SharedParker())
    answers = [
        Answer(_to=fast_receiver.entry, number=number, responder=None)
        for number in range(2)
    ]

    assert fast_receiver.station.router.deliver_answer(answers[0])
    fast_receiver.slip(fast_receiver.command())
    assert fast_receiver.station.router.deliver_answer(answers[1])

    assert received == answers[:1]
    assert [type(each) for each in fast_receiver.read] == [Incoming, Answer]


class _WaitableLink:
    """A stand-in for another place where a thread may wait."""

    def return_lease(self, _: ThreadManager) -> None:
        """Do nothing: no thread stays longer than its wait."""


class Meanwhile(_WaitableLink):
    """A link whose wait performs one act for the whole process."""

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
            assert station.router.post(answer)
        elif what == "a request":
            call_in_host_thread(entry, lambda: done.append(what))
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

    class Interrupted(_WaitableLink):
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

    assert fast_receiver.slip(command) is True
    assert fast_receiver.slip(reply) is True

    assert fast_receiver.read[0] is command.messages[0]
    assert fast_receiver.read[1].number == 7
    assert fast_receiver.entry.mailbox.client.account.unread == 1
    fast_receiver.station.exchange.act()
    assert fast_receiver.done == []


@clause("BUS-CHAN-7", "BUS-MSG-11")
def test_an_answer_ends_the_wait_of_a_caller_in_the_thread_that_reads_it() -> None:
    """It needs no turn of the caller's task."""
    fast_receiver, taken = FastReceiver(), list[Answer]()

    def take(answer: Answer, host: ThreadManager) -> bool:
        assert host is fast_receiver.host
        taken.append(answer)
        return True

    class Answered(_WaitableLink):
        def wait(self, *_: object) -> bool:
            assert not taken, "the thread waits again"
            reply = _reply(fast_receiver.entry, 7)
            assert fast_receiver.slip(reply) is True
            return True

    fast_receiver.entry.mailbox.client.try_deliver_directly = take
    fast_receiver.host.link_wait = Answered()

    assert fast_receiver.host.poll(None) == 0
    assert [each.number for each in taken] == [7]
    assert not fast_receiver.read


@clause("BUS-FLOW-5")
def test_a_timer_fires_although_each_wait_brings_an_answer() -> None:
    """On a busy machine the answer may be there before each wait of a caller."""
    fast_receiver, fired = FastReceiver(), list[None]()

    class Answered(_WaitableLink):
        def wait(self, *_: object) -> bool:
            reply = _reply(fast_receiver.entry, 7)
            assert fast_receiver.slip(reply) is True
            return True

    fast_receiver.entry.mailbox.client.try_deliver_directly = lambda *_: True
    fast_receiver.host.link_wait = Answered()
    fast_receiver.host.set_timer(0.0, lambda: fired.append(None))

    fast_receiver.host.poll(None)

    assert fired


@clause("BUS-MSG-15")
def test_an_answer_to_a_waiting_caller_overtakes_no_message_of_its_task() -> None:
    fast_receiver, taken = FastReceiver(), list[Answer]()
    client = fast_receiver.entry.mailbox.client
    client.try_deliver_directly = lambda answer, *_: taken.append(answer)

    fast_receiver.slip(fast_receiver.command())
    fast_receiver.slip(_reply(fast_receiver.entry, 7))

    assert [type(each) for each in fast_receiver.read] == [Incoming, Answer]
    assert not taken


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

    assert fast_receiver.slip(command) is False

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

    assert slip is None
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

    assert station.exchange.try_deliver_now(_Link(replies), b"", station.home) is False
    station.exchange.act(1)
    assert given == [0]
    station.exchange.act()
    assert given == [0, 1, 2]


# Notifications: an action for each subscriber.


@clause("BUS-CHAN-7", "BUS-FLOW-7")
def test_a_notification_is_on_the_account_of_its_subscription_at_once() -> None:
    fast_receiver = FastReceiver()
    account = fast_receiver.account()
    notification = fast_receiver.notification(account)

    assert fast_receiver.slip(notification) is True

    assert fast_receiver.read == notification.messages
    assert account.unread == 1
    assert fast_receiver.entry.mailbox.client.account.unread == 0
    assert not fast_receiver.station.exchange._todo


@clause("BUS-MSG-4", "BUS-ROUTE-4")
@pytest.mark.parametrize("first", [True, False])
def test_each_subscriber_gets_a_notification_whichever_thread_it_is_in(
    *, first: bool
) -> None:
    """first: whether the first action is for a task of the reading thread."""
    fast_receiver = FastReceiver()
    _, other = fast_receiver.station.register("c", ThreadManager("another"))
    actions = [
        fast_receiver.notification(fast_receiver.account(), entry=entry)
        for entry in (fast_receiver.entry, other)
    ]
    if not first:
        actions.reverse()

    assert fast_receiver.slip(*actions) is False

    assert len(fast_receiver.read) == int(first)
    fast_receiver.station.exchange.act()
    assert fast_receiver.done == actions[int(first) :]


@clause("BUS-FLOW-3", "BUS-FLOW-7")
def test_a_notification_that_reports_a_gap_is_queued() -> None:
    """`InboundDelivery` counts the gap for its subscription."""
    fast_receiver = FastReceiver()
    account = fast_receiver.account()
    notification = fast_receiver.notification(account, gap=2)

    assert fast_receiver.slip(notification) is False

    assert fast_receiver.read == []
    assert account.unread == 0
    fast_receiver.station.exchange.act()
    assert fast_receiver.done == [notification]


@clause("BUS-FLOW-3", "BUS-MSG-15")
@pytest.mark.parametrize("overflow", ["drop-oldest", "drop-newest", "block", "error"])
def test_a_full_subscription_takes_no_notification_at_once(overflow: Overflow) -> None:
    """Its policy decides on the usual way."""
    fast_receiver = FastReceiver()
    account = fast_receiver.account(1, overflow)
    first, second = [fast_receiver.notification(account, at) for at in (1, 2)]

    assert fast_receiver.slip(first) is True
    assert fast_receiver.slip(second) is False

    assert fast_receiver.read == first.messages
    assert (account.unread, account.dropped, account.refused) == (1, 0, 0)
    assert list(fast_receiver.station.exchange._todo) == [second]


@clause("BUS-CHAN-7", "BUS-MSG-15")
@pytest.mark.parametrize(
    "so", [_posted_before, _elsewhere, _held_back, _decided_before, _being_done]
)
def test_a_fast_path_notification_overtakes_no_other_message(
    so: Callable[[FastReceiver], None],
) -> None:
    fast_receiver = FastReceiver()
    so(fast_receiver)
    account = fast_receiver.account()
    notification = fast_receiver.notification(account)

    assert fast_receiver.slip(notification) is False

    assert (fast_receiver.read, account.unread) == ([], 0)
    assert fast_receiver.station.exchange._todo[-1] is notification


@pytest.mark.deep
@clause("QB-ERR-9", "AMO-7")
def test_an_interrupted_thread_takes_a_command_once() -> None:
    """It is in the mailbox, or its action is left, and the account counts it once."""
    places = set[str]()

    def case(interrupted: Blow) -> None:
        receiver = FastReceiver()
        account = receiver.entry.mailbox.client.account
        command = receiver.command()
        interrupted(lambda: receiver.slip(command))

        todo: Any = receiver.station.exchange._todo
        left = [each for action in todo for each in action.messages]
        assert len(receiver.read) + len(left) <= 1
        assert account.unread == len(receiver.read)
        if receiver.read:
            places.add("mailbox")
        if left:
            places.add("action")

    everywhere(case, packages=(bus,))
    assert places == {"mailbox", "action"}
