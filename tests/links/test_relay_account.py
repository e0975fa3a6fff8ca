"""`RelayAccount`: the bound of a relay, exact at rest and never exceeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from bus.address import Address
from bus.core.local.routing_table import Entry
from bus.errors import AddresseeGoneError, BusFullError
from bus.links.relay_account import RelayAccount
from bus.links.send_batch import PAYLOAD_MAX
from bus.message import Incoming, Kind
from bus.registration import RegistrationId, Visibility
from bus.threads.account import Admission
from bus.threads.dropping_account import new_account
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.messages import new_message
from tests.links.posting import FakeRelay

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.core.local.inbound_run import InboundRun
    from bus.errors import BusError
    from bus.links.send_batch import SendBatch
    from bus.threads.account import Overflow
    from queuebroker.testing import Run


class Post:
    """A relay account, with an inbox before it and a relay behind it."""

    def __init__(
        self,
        messages_max: int = 3,
        bytes_max: int = 100,
        overflow: Overflow = "error",
    ) -> None:
        self.lock = _sync.Lock()
        self.inbox: list[Incoming] = []
        self.dropped: list[Incoming | InboundRun] = []
        self.relay = FakeRelay()
        self.told: list[Any] = []
        self.refused: list[tuple[Any, BusError]] = []
        self.relay_account = RelayAccount(
            messages_max=messages_max,
            bytes_max=bytes_max,
            overflow=overflow,
            taken=lambda message: self.told.append(message.payload),
            refuse=lambda message, error: self.refused.append((message.payload, error)),
        )

    def offer(self, size: int = 1, payload: object = None) -> Admission:
        """Post, as `Inbox.offer` does."""
        message = new_message(payload, _size=size)
        with self.lock:
            admission = self.relay_account.admit_locked(message, self.dropped)
            if admission is Admission.ACCEPTED:
                self.inbox.append(message)
        return admission

    def carry(self) -> None:
        """Take posted messages into the relay, and review, as the comm thread does."""
        with self.lock:
            taken, self.inbox = self.inbox, []
        taken = [each for each in taken if self.relay_account.take(each, self.lock)]
        self.relay_account.on_moved(taken)
        self.relay.queue.extend(taken)
        self.review()

    def send(self, count: int = 1) -> None:
        """Put `count` messages on a link."""
        for _ in range(count):
            self.relay.queue.popleft()
        self.review()

    def review(self) -> None:
        self.relay_account.review(self.relay)  # type: ignore[arg-type] # as far as needed

    @property
    def waiting(self) -> int:
        return len(self.inbox) + len(self.relay.queue)


@clause("BUS-FLOW-1")
def test_so_many_fit_wherever_they_wait() -> None:
    post = Post(messages_max=3)
    assert [post.offer() for _ in range(4)] == [Admission.ACCEPTED] * 3 + [
        Admission.FULL
    ]
    post.carry()
    assert post.offer() is Admission.FULL
    post.send()
    assert post.offer() is Admission.ACCEPTED
    assert post.offer() is Admission.FULL
    assert post.relay_account.unread == post.waiting == 3


def test_messages_on_a_link_take_no_room_in_the_account() -> None:
    post = Post(messages_max=2)
    for _ in range(5):
        assert post.offer() is Admission.ACCEPTED
        post.carry()
        post.send()
    assert post.relay_account.unread == 0


@clause("BUS-FLOW-1")
def test_so_many_bytes_fit() -> None:
    post = Post(messages_max=10, bytes_max=100)
    assert post.offer(60) is Admission.ACCEPTED
    assert post.offer(41) is Admission.FULL
    assert post.offer(40) is Admission.ACCEPTED
    post.carry()
    assert post.offer(1) is Admission.FULL
    post.send()
    assert post.offer(60) is Admission.ACCEPTED
    assert post.offer(1) is Admission.FULL


def test_one_message_always_fits_if_nothing_waits() -> None:
    post = Post(messages_max=3, bytes_max=10)
    assert post.offer(1_000) is Admission.ACCEPTED
    assert post.offer(1) is Admission.FULL
    post.carry()
    post.send()
    assert post.offer(1_000) is Admission.ACCEPTED


@clause("BUS-FLOW-2")
def test_a_refusal_names_the_exceeded_bound() -> None:
    post = Post(messages_max=1, bytes_max=10)
    post.offer(1)
    assert "1 messages" in str(post.relay_account.error("task 'x'"))
    post = Post(messages_max=5, bytes_max=10)
    post.offer(10)
    error = post.relay_account.error("task 'x'")
    assert isinstance(error, BusFullError)
    assert "10 bytes" in str(error)


@clause("BUS-FLOW-6")
@pytest.mark.parametrize(
    ("overflow", "outcome"),
    [
        ("error", Admission.FULL),
        ("block", Admission.FULL),  # the sender waits for room
        ("drop-newest", Admission.DROPPED),
        ("disconnect", Admission.FULL),
    ],
)
def test_a_message_without_room_follows_the_policy_of_the_far_task(
    overflow: Overflow, outcome: Admission
) -> None:
    post = Post(messages_max=1, overflow=overflow)
    post.offer()
    assert post.offer() is outcome
    assert post.relay_account.unread == 1


@clause("BUS-FLOW-6")
@pytest.mark.parametrize(("fit", "size"), [(2, 1), (9, 50)])
def test_where_the_oldest_is_dropped_as_much_again_is_on_its_way(
    fit: int, size: int
) -> None:
    """The relay drops, too; the inbox stays bounded while the comm thread is slow."""
    post = Post(messages_max=fit, bytes_max=100, overflow="drop-oldest")
    for turn in range(2):
        outcomes = [post.offer(size, payload=(turn, number)) for number in range(3)]
        assert outcomes == [Admission.ACCEPTED] * 3
        [dropped] = post.dropped
        assert isinstance(dropped, Incoming)
        assert dropped.payload == (turn, 0)
        post.dropped.clear()
        post.carry()
        kept = [each.payload for each in post.relay.queue]
        assert kept[-2:] == [(turn, 1), (turn, 2)]
    post.send(2)  # the two dropped messages of the relay
    assert post.relay_account.unread == 2
    assert post.offer(size) is Admission.ACCEPTED
    assert post.dropped == []


class FakeSendBatch:
    """A batch that reserves room for some messages, and uses a part of it."""

    def __init__(self, post: Post, used: int = 0) -> None:
        self.room = 0
        self.used = used
        self._post = post

    def reserve(self, need: int = 1, most: int = 256) -> int:
        send_batch: Any = self  # as far as needed
        given = self._post.relay_account.reserve_locked(
            send_batch, need, most, PAYLOAD_MAX
        )
        self.room += given
        return given

    @property
    def spare(self) -> bool:
        return self.used < self.room

    def reclaim_locked(self) -> tuple[int, int]:
        unused, self.room = self.room - self.used, self.used
        return unused, unused * PAYLOAD_MAX

    def is_taken(self) -> None:
        """Move into the relay, as when the comm thread takes it."""
        post, send_batch = self._post, cast("SendBatch", self)
        unused = self.room - self.used
        unused_bytes = self.room * PAYLOAD_MAX - self.used  # one byte each
        post.relay_account.release_locked(send_batch, unused, unused_bytes)
        post.relay_account.on_batch_moved(self.used, self.used)
        post.relay.queue.extend(new_message(_size=1) for _ in range(self.used))
        post.review()


def long(messages_max: int = 10, bytes_max: int = 10 * PAYLOAD_MAX) -> Post:
    return Post(messages_max=messages_max, bytes_max=bytes_max)


@clause("BUS-FLOW-1")
def test_room_for_several_is_taken_at_once_and_given_back() -> None:
    post = long()
    send_batch = FakeSendBatch(post, used=2)
    assert send_batch.reserve(most=6) == 6
    assert post.relay_account.unread == 6
    send_batch.is_taken()
    assert post.relay_account.unread == 2
    assert not post.relay_account.full(10 * PAYLOAD_MAX - 2)  # the actual lengths count
    assert post.relay_account.full(10 * PAYLOAD_MAX - 1)
    post.send(2)
    assert post.relay_account.unread == 0


@clause("BUS-FLOW-1")
@pytest.mark.parametrize(
    "bound", [{"messages_max": 3}, {"bytes_max": 4 * PAYLOAD_MAX - 1}]
)
def test_no_more_room_is_given_than_there_is(bound: dict[str, int]) -> None:
    post = long(**bound)
    assert FakeSendBatch(post, used=1).reserve(need=2) == 3
    assert FakeSendBatch(post).reserve(need=3) == 0
    assert post.relay_account.unread == 1  # the unused room was reclaimed all the same
    assert FakeSendBatch(post).reserve(need=2) == 2
    assert post.relay_account.unread == 3


@clause("BUS-FLOW-1")
def test_unused_room_is_reclaimed_before_any_message_is_refused() -> None:
    post = long(messages_max=4)
    idle, busy = FakeSendBatch(post), FakeSendBatch(post, used=2)
    assert busy.reserve(most=3) == 3
    assert idle.reserve() == 1
    assert [post.offer() for _ in range(3)] == [Admission.ACCEPTED] * 2 + [
        Admission.FULL
    ]
    assert (idle.room, busy.room) == (0, 2)
    busy.is_taken()
    post.carry()
    post.send(4)
    assert post.relay_account.unread == 0
    assert not post.relay_account._send_batches


@clause("BUS-FLOW-6")
def test_where_the_oldest_is_dropped_no_room_is_kept() -> None:
    post = Post(overflow="drop-oldest")
    assert FakeSendBatch(post).reserve() == 0
    assert post.relay_account.unread == 0


def test_undeliverable_messages_of_the_far_task_are_answered_or_counted() -> None:
    """Its process need not keep dropped messages; a question gets an error."""
    post = Post()
    relay_account = post.relay_account
    error = AddresseeGoneError("x")
    relay_account.on_undeliverable(sent(1), error)
    relay_account.on_undeliverable(sent(2, wants_reply=True), error)
    relay_account.on_undeliverable(sent(3, kind=Kind.NOTIFICATION), error)
    relay_account.on_overflow(sent(4))
    assert relay_account.undelivered == 1
    assert post.refused == [(2, error)]
    assert post.told == []


def test_dropped_messages_of_the_far_task_count_as_extracted() -> None:
    post = Post()
    post.relay_account.on_dropped(sent(1))
    post.relay_account.on_dropped(sent(2, wants_reply=True))
    assert post.told == [1, 2]
    assert post.relay_account.undelivered == 1
    [(payload, error)] = post.refused
    assert payload == 2
    assert isinstance(error, BusFullError)


def sent(
    payload: Any, *, wants_reply: bool = False, kind: Kind = Kind.COMMAND
) -> Incoming:
    """Return a message from the far task to one of this process."""
    to = Entry(
        id=RegistrationId("here", "p1", 1),
        name="here",
        visibility=Visibility.PUBLIC,
        address=Address("here", machine="here", bus="bus1"),
        host=None,
        mailbox=None,
    )
    account = new_account(messages_max=1, bytes_max=1, overflow="drop-oldest")
    message = new_message(payload, _size=1)
    message.kind, message.wants_reply = kind, wants_reply
    message._to, message._account = to, account
    return message


# In every schedule.


def under_every_schedule(program: Callable[[Run], object]) -> None:
    explore(
        program,
        bound=2,
        limit=schedules(1_500),
        random=schedules(100),
        seed=1,
        bytecode=[
            RelayAccount.admit_locked,
            RelayAccount.full,
            RelayAccount.review,
            RelayAccount.on_moved,
        ],
    )


@clause("BUS-FLOW-1")
def test_the_bound_is_exact_for_any_number_of_senders() -> None:
    """Of concurrent senders, as many succeed as there is room for."""

    def program(run: Run) -> None:
        post = Post(messages_max=2)
        outcomes = [run.spawn(post.offer) for _ in range(3)]
        run.join()
        accepted = [each.result for each in outcomes].count(Admission.ACCEPTED)
        assert accepted == post.waiting == post.relay_account.unread == 2

    under_every_schedule(program)


@clause("BUS-FLOW-1")
def test_the_bound_is_never_exceeded_while_messages_leave() -> None:
    def program(run: Run) -> None:
        post = Post(messages_max=2, bytes_max=4)

        def sends() -> None:
            for _ in range(2):
                post.offer(2)
                assert post.relay_account.unread <= 2
                assert post.waiting <= 2

        for _ in range(2):
            run.spawn(sends)
        for _ in range(2):
            post.carry()
            post.send(len(post.relay.queue))
        run.join()
        post.carry()
        assert post.relay_account.unread == len(post.relay.queue)
        post.send(len(post.relay.queue))
        assert post.relay_account.unread == 0
        assert not post.relay_account.full(4)

    under_every_schedule(program)
