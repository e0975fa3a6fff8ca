"""`RelayHost`: where tasks post to relays, and what becomes of what they posted."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from bus.address import Address
from bus.config import BusConfig
from bus.core.actions import Fail
from bus.core.routing_table import Entry, RegistrationId, Visibility
from bus.core.wire import Characteristics
from bus.errors import BusFullError
from bus.links.relay_host import RelayHost, Said
from bus.message import Incoming, Kind
from bus.threads.account import Admission
from queuebroker.testing import explore
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bus.links.stand_in import StandIn
    from bus.threads.account import Overflow
    from queuebroker.testing import Run


class FakeRelay:
    """A relay, as the host of it sees it."""

    def __init__(self) -> None:
        self.queue: deque[Incoming] = deque()
        self.client: StandIn

    @property
    def queued_bytes(self) -> int:
        return sum(message._size for message in self.queue)


class Remote:
    """What a host passes on what was posted to; a neighbourhood, as far as this goes.

    full: whether relays have no room for more.
    """

    def __init__(self) -> None:
        self.full = False
        self.todo: list[Fail] = []
        self.notified: list[Any] = []
        self.answered: list[Any] = []

    def post(self, entry: Entry, messages: Sequence[Incoming]) -> None:
        if self.full:
            error = BusFullError("the relay", 1)
            self.todo += [Fail(message, error) for message in messages]
        else:
            entry.box.queue.extend(messages)

    def notify(self, source: Entry, payload: Any, question: int) -> None:
        self.notified.append((payload, question))

    def answer(self, question: Incoming, payload: Any, *, error: str | None) -> None:
        self.answered.append((question.payload, payload, error))


class Process:
    """A host, one relay, and tasks that post to it."""

    def __init__(self, overflow: Overflow = "error", **config: Any) -> None:
        here = Address("audience", machine="here", bus="bus1")
        self.host = RelayHost(
            here,
            RegistrationId("here", "p1", 0),
            BusConfig(**config),
            lambda message: None,
        )
        self.remote = Remote()
        self.relay = FakeRelay()
        about = Characteristics(
            relay=1,
            id=RegistrationId("there", "p2", 1),
            name="far",
            visibility=Visibility.PUBLIC,
            incarnation=1,
            overflow=overflow,
        )
        self.relay.client = self.host.stand_in(about)
        self.entry = self.entry_of("far", self.relay)
        self.lost: list[Any] = []

    def entry_of(self, name: str, box: object) -> Entry:
        return Entry(
            id=RegistrationId("there", "p2", 1),
            name=name,
            visibility=Visibility.PUBLIC,
            address=Address(name, machine="there", bus="bus1"),
            place=self.host,
            box=box,
            remote=True,
        )

    def message(self, payload: Any, to: Entry | None = None) -> Incoming:
        entry = self.entry if to is None else to
        audience = entry is self.host.audience
        return Incoming(
            kind=Kind.NOTIFICATION if audience else Kind.COMMAND,
            payload=payload,
            _source=_Sender(self.lost),
            _id=0,
            _to=entry,
            _account=self.host.account if audience else self.relay.client,
            _size=1,
        )

    def post(self, payload: Any, to: Entry | None = None) -> Admission:
        return self.host.post(self.message(payload, to))

    def round(self) -> list[Any]:
        """Do as the comm thread does; return what came back."""
        posted, requests = self.host.take()
        self.host.pass_on(posted, self.remote)  # type: ignore[arg-type]
        for request in requests:
            request.run()
        self.host.review()
        back, self.remote.todo = self.remote.todo, []
        return back

    @property
    def waiting(self) -> list[Any]:
        return [message.payload for message in self.relay.queue]


class _Sender:
    def __init__(self, lost: list[Any]) -> None:
        self.box = self
        self.client = self
        self._lost = lost

    def was_dropped(self, message: Incoming) -> None:
        self._lost.append(message.payload)


@clause("BUS-RELAY-6")
def test_to_post_ends_the_part_of_the_sender() -> None:
    """BUS-RELAY-6, BUS-RELAY-2: it lies in an inbox until the comm thread comes."""
    process = Process()
    assert [process.post(each) for each in (1, 2)] == [Admission.ACCEPTED] * 2
    assert process.waiting == []
    process.round()
    assert process.waiting == [1, 2]


def test_what_is_asked_is_done_after_what_was_posted_before() -> None:
    process = Process()
    seen: list[Any] = []
    process.post(1)
    process.host.ask(lambda: seen.extend(process.waiting))
    process.round()
    assert seen == [1]


@clause("BUS-MSG-15")
def test_answers_and_messages_go_in_the_order_in_which_they_were_given() -> None:
    process = Process()
    order: list[Any] = []
    process.remote.answer = lambda *args, **_: order.append("answer")  # type: ignore[method-assign]
    process.remote.post = lambda *args: order.append("command")  # type: ignore[method-assign]
    process.remote.notify = lambda *args: order.append("notification")  # type: ignore[method-assign]
    process.post(1, process.host.audience)
    process.host.inbox.push(Said(process.message(2), 3, None))
    process.post(4)
    process.post(5, process.host.audience)
    process.round()
    assert order == ["notification", "answer", "command", "notification"]


def test_an_answer_goes_to_who_asked() -> None:
    process = Process()
    process.host.inbox.push(Said(process.message(1), 2, None))
    process.host.inbox.push(Said(process.message(3), None, "no"))
    process.round()
    assert process.remote.answered == [(1, 2, None), (3, None, "no")]


@clause("BUS-FLOW-3")
def test_what_nobody_keeps_up_with_is_dropped_for_newer_ones() -> None:
    """Notifications for other processes: the oldest go, and nothing is passed on."""
    process = Process(task_fifo_messages=3)
    for number in range(5):
        assert process.post(number, process.host.audience) is Admission.ACCEPTED
    process.round()
    assert [payload for payload, _ in process.remote.notified] == [2, 3, 4]
    assert process.lost == [0, 1]
    assert process.host.account.unread == 0


@clause("BUS-FLOW-2")
def test_room_is_told_of_when_messages_have_left() -> None:
    process = Process(task_fifo_messages=2)
    assert [process.post(each) for each in (1, 2, 3)][-1] is Admission.FULL
    process.round()
    assert process.post(3) is Admission.FULL
    process.relay.queue.popleft()
    process.round()
    assert process.post(3) is Admission.ACCEPTED


def test_a_relay_that_has_no_room_gives_back_what_it_gets() -> None:
    process = Process()
    process.post(1)
    process.remote.full = True
    [failed] = process.round()
    assert isinstance(failed, Fail)
    assert failed.message.payload == 1
    assert isinstance(failed.error, BusFullError)


def test_a_relay_obeys_the_policy_of_its_task() -> None:
    process = Process(overflow="drop-newest", task_fifo_messages=1)
    assert process.relay.client.overflow == "drop-newest"
    outcomes = [process.post(each) for each in (1, 2)]
    assert outcomes == [Admission.ACCEPTED, Admission.DROPPED]


def test_who_asked_there_is_told_that_nobody_gets_it_here() -> None:
    process = Process()
    question = process.message(1)
    question.wants_reply = True
    process.relay.client.failed(question, BusFullError("task 'x'", 3))
    process.round()
    [(payload, answer, error)] = process.remote.answered
    assert (payload, answer) == (1, None)
    assert error.startswith("BusFullError: ")


@clause("BUS-DEREG-4")
def test_what_was_posted_to_a_relay_that_was_given_up_is_kept_in_order() -> None:
    process = Process()
    for number in (1, 2):
        process.post(number)
    process.entry.place = None
    assert process.post(3) is Admission.GONE
    process.round()
    assert process.waiting == []
    strays = process.host.strays(process.entry)
    assert [each.payload for each in strays] == [1, 2]
    assert process.host.strays(process.entry) == []
    assert process.relay.client.unread == 0


def test_what_was_to_be_sent_first_by_a_relay_that_was_given_up_is_kept() -> None:
    process = Process()
    message = process.message(1)
    process.host.put_back(process.entry, [message])
    assert process.host.unopened(process.entry) == [message]
    assert process.host.unopened(process.entry) == ()


@pytest.mark.parametrize("given_up", [False, True])
def test_what_is_posted_while_a_relay_is_given_up(given_up: bool) -> None:
    """All of it is in the relay, or comes back, or is refused; in order each."""

    def program(run: Run) -> None:
        process = Process()
        accepted: list[int] = []
        back: list[int] = []

        def posts() -> None:
            accepted.extend(
                number
                for number in range(3)
                if process.post(number) is Admission.ACCEPTED
            )

        def vacate() -> None:
            left = [each.payload for each in process.relay.queue]
            strays = [each.payload for each in process.host.strays(process.entry)]
            back.extend([*left, *strays])
            process.relay.queue.clear()

        posting = run.spawn(posts)
        process.round()
        if given_up:
            process.entry.place = None
            process.host.ask(vacate)
        posting.join()
        process.round()
        assert (back if given_up else process.waiting) == accepted
        assert process.relay.client.unread == len(process.waiting)
        assert not process.host._strays

    explore(program, bound=2, limit=1_000, random=150, seed=1)


@clause("BUS-FLOW-6")
def test_who_waits_for_room_gets_it() -> None:
    """As under policy `block`, which a far task may have asked for."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=1)
        process.post(1)

        def waits() -> Admission:
            return process.host.inbox.offer_until(
                process.message(2), process.host, None
            )

        waiting = run.spawn(waits)
        while not waiting.done:
            process.round()
            if process.relay.queue:
                process.relay.queue.popleft()
            run.sleep(1.0)
        assert waiting.result is Admission.ACCEPTED

    _settled(program)


def _settled(program: Callable[[Run], object]) -> None:
    explore(program, bound=1, limit=300, random=30, seed=1)
