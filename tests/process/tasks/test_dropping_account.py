"""An account that drops its oldest: every drop is reported once, in its place.

All notifications are numbered, also those that are lost before they arrive. So each one
that is read must report as its gap the numbers that are missing before it.
"""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bus
from bus.kernel.tasks.runs import InboundRun
from bus.model.message import Incoming, Kind
from bus.process.account import Admission
from bus.process.dropping_account import DroppingAccount, new_account
from bus.process.inbox import Inbox
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.strikes import Blow, everywhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queuebroker.testing import Run

MESSAGES_MAX = 5
BYTES_MAX = 40


class Subscriber:
    """A subscriber whose account drops its oldest, and its mailbox.

    number: of the next notification.
    got: the numbers read; gaps: the gap that each of them reported.
    reported: the numbers of the single notifications whose sender got a report.
    """

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self.account = new_account(
            messages_max=messages_max, bytes_max=BYTES_MAX, overflow="drop-oldest"
        )
        self.inbox = Inbox()
        self.entry: Any = SimpleNamespace(host=self)
        self.subscription = SimpleNamespace(active=True, _account=self.account)
        self.mailbox: deque[Any] = deque()
        self.number = 0
        self.got: list[int] = []
        self.gaps: list[int] = []
        self.reported: list[int] = []

    def on_dropped(self, message: Incoming) -> None:
        self.reported.append(_number(message))

    @property
    def source(self) -> Any:
        return SimpleNamespace(
            mailbox=SimpleNamespace(client=SimpleNamespace(on_dropped=self.on_dropped))
        )

    def payloads(self, count: int, size: int) -> list[bytes]:
        first, self.number = self.number, self.number + count
        return [
            str(number).encode().ljust(size, b".")
            for number in range(first, self.number)
        ]

    def run(self, count: int, size: int = 4) -> None:
        """Receive notifications that came together."""
        run = InboundRun(
            self.entry,
            self.source,
            self.payloads(count, size),
            None,
            1,
            None,
            (self.subscription,),
        )
        while run:
            if not self.inbox.offer_inbound_run(run, self.account, self):
                self.offer(run.shift())

    def one(self, size: int = 4) -> None:
        """Receive one notification by itself."""
        [payload] = self.payloads(1, size)
        self.post(payload)

    def at_once(self, size: int = 4) -> bool:
        """Receive one by the fast path, as `ThreadManager.accept` does; True if so."""
        [payload] = self.payloads(1, size)
        message = self.message(payload)
        message._account = self.account
        accepts = not self.inbox.items and self.account.admit_at_once(
            message, self.inbox.lock
        )
        if accepts:
            self.mailbox.append(message)
        else:
            self.offer(message)
        return accepts

    def post(self, payload: bytes) -> None:
        self.offer(self.message(payload))

    def message(self, payload: bytes) -> Incoming:
        return Incoming(
            Kind.NOTIFICATION,
            payload,
            _source=self.source,
            _to=self.entry,
            _size=len(payload),
            subscriptions=(self.subscription,),
        )

    def offer(self, message: Incoming) -> None:
        message._account = self.account
        assert self.inbox.offer(message, self) is Admission.ACCEPTED

    def miss(self, count: int) -> None:
        """Lose notifications that do not arrive."""
        self.number += count
        with self.inbox.lock:
            self.account.miss_newest_locked(count)

    def read(self, count: int) -> None:
        """Read up to that many, as the thread of the task does."""
        self.mailbox += self.inbox.take_now()
        while count and self.mailbox:
            item = self.mailbox[0]
            if isinstance(item, Incoming):
                self.mailbox.popleft()
                if self.account.extract(item, self.inbox.lock):
                    self._note(item)
                    count -= 1
                continue
            if not item:
                self.mailbox.popleft()
                continue
            self.account.begin(item, self.inbox.lock)
            try:
                for message in self.account.read(item, None, self.inbox.lock):
                    self._note(message)
                    count -= 1
                    if not count:
                        break
            finally:
                self.account.settle(self.inbox.lock)

    def separate(self) -> None:
        """Take the messages out of each run, as for a task that moves."""
        place = SimpleNamespace(items=self.mailbox + self.inbox.take_now())
        for item in [*place.items]:
            if isinstance(item, InboundRun) and item:
                with self.inbox.lock:
                    self.account.unpack_locked(item, place)
        self.mailbox = place.items

    def _note(self, message: Incoming) -> None:
        assert message.subscriptions == (self.subscription,)
        assert message.kind is Kind.NOTIFICATION
        self.got.append(_number(message))
        self.gaps.append(message.gap)

    def is_balanced(self) -> bool:
        account = self.account
        counted = account.delivered + account.dropped + account.unread
        return account.accepted == counted

    def gaps_due(self) -> list[int]:
        """Return the gaps that the messages read must have reported."""
        before = [-1, *self.got]
        return [now - last - 1 for last, now in zip(before, self.got, strict=False)]


def _number(message: Incoming) -> int:
    return int(message.payload.rstrip(b"."))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(2, 8), st.sampled_from([4, 9])),
        st.tuples(st.just("one"), st.sampled_from([4, 30])),
        st.tuples(st.just("at_once"), st.sampled_from([4, 30])),
        st.tuples(st.just("miss"), st.integers(1, 3)),
        st.tuples(st.just("read"), st.integers(1, 7)),
        st.tuples(st.just("separate")),
    ),
    max_size=20,
)


@clause("BUS-FLOW-3", "BUS-FLOW-1", "BUS-FLOW-7", "BUS-MSG-15")
@given(steps=STEPS)
def test_each_notification_reports_those_missing_before_it(
    steps: list[tuple[Any, ...]],
) -> None:
    subscriber = Subscriber()
    for name, *arguments in steps:
        getattr(subscriber, name)(*arguments)
        account = subscriber.account
        assert subscriber.is_balanced()
        assert account.unread <= MESSAGES_MAX
        assert account.unread <= 1 or account.unread_bytes <= BYTES_MAX
    last = subscriber.account.unread
    subscriber.read(1000)
    subscriber.one()  # reports whatever was missed at the end
    subscriber.read(1)

    assert subscriber.gaps == subscriber.gaps_due()
    assert subscriber.got[-1] == subscriber.number - 1
    assert len(subscriber.got) >= last + 1
    assert subscriber.account.unread == subscriber.account.unread_bytes == 0


@clause("BUS-FLOW-3", "BUS-MSG-15")
def test_a_full_account_admits_no_notification_at_once_and_drops_none() -> None:
    """The usual way drops the oldest one, and the next one reports that."""
    subscriber = Subscriber()
    assert [subscriber.at_once() for _ in range(MESSAGES_MAX)] == [True] * MESSAGES_MAX
    dropped = subscriber.account.dropped
    [payload] = subscriber.payloads(1, 4)
    message = subscriber.message(payload)
    message._account = subscriber.account

    assert not subscriber.account.admit_at_once(message, subscriber.inbox.lock)
    assert subscriber.account.unread == MESSAGES_MAX
    assert subscriber.account.dropped == dropped == 0
    subscriber.offer(message)
    subscriber.read(100)

    assert subscriber.got == [*range(1, MESSAGES_MAX + 1)]
    assert subscriber.gaps == [1] + [0] * (MESSAGES_MAX - 1)
    assert subscriber.is_balanced()


@clause("BUS-FLOW-3")
def test_a_notification_admitted_at_once_reports_those_missed_before_it() -> None:
    subscriber = Subscriber()
    subscriber.miss(3)

    assert subscriber.at_once()
    subscriber.read(1)

    assert (subscriber.got, subscriber.gaps) == ([3], [3])


@clause("BUS-FLOW-3", "BUS-FLOW-6")
def test_the_last_of_a_long_run_stay_and_single_ones_are_reported() -> None:
    """The sender of a run is in another process, so nothing is reported to it."""
    subscriber = Subscriber()
    subscriber.one()
    subscriber.run(20)
    subscriber.read(100)

    assert subscriber.got == [*range(16, 21)]
    assert subscriber.gaps == [16, 0, 0, 0, 0]
    assert subscriber.reported == [0]


@clause("BUS-FLOW-1")
def test_dropped_runs_hold_no_memory() -> None:
    """If the task reads nothing, its inbox does not fill with empty runs."""
    subscriber = Subscriber()
    for _ in range(500):
        subscriber.run(MESSAGES_MAX)
    assert len(subscriber.inbox.items) <= 130


@clause("BUS-FLOW-1")
def test_a_run_that_was_dropped_as_a_whole_holds_no_payloads() -> None:
    """Its place in the inbox stays for a while."""
    subscriber = Subscriber()
    for _ in range(50):
        subscriber.run(MESSAGES_MAX)
    runs = subscriber.inbox.items
    assert len(runs) == 50
    assert sum(len(run.payloads) for run in runs) == MESSAGES_MAX
    subscriber.read(100)
    assert subscriber.gaps == subscriber.gaps_due()
    assert subscriber.is_balanced()


@clause("BUS-FLOW-1")
def test_runs_that_are_read_are_forgotten() -> None:
    subscriber = Subscriber()
    for _ in range(10):
        subscriber.run(MESSAGES_MAX)
        subscriber.read(MESSAGES_MAX)
    account: Any = subscriber.account
    assert len(account._waiting) == 1


@clause("BUS-FLOW-3", "BUS-MSG-15")
def test_a_run_that_is_being_read_loses_only_unread_messages() -> None:
    """On every schedule of the thread that reads and the one that delivers."""

    def scenario(run: Run) -> None:
        subscriber = Subscriber(messages_max=2)
        subscriber.run(2)
        run.spawn(lambda: subscriber.read(2), name="reads")
        run.spawn(lambda: _deliver(subscriber, (2, 1)), name="delivers")
        run.join()
        subscriber.read(1000)
        assert subscriber.gaps == subscriber.gaps_due()
        assert subscriber.got[-1] == subscriber.number - 1
        assert subscriber.is_balanced()
        assert subscriber.account.unread == 0

    explore(scenario, bound=2, limit=schedules(400), random=schedules(50), seed=1)
    explore(
        scenario,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=[DroppingAccount.read, DroppingAccount.admit_inbound_locked],
    )


def _deliver(subscriber: Subscriber, counts: Iterable[int]) -> None:
    for count in counts:
        subscriber.run(count)


# Interrupts.


@clause("BUS-FLOW-3", "BUS-FLOW-7")
@pytest.mark.parametrize("gap", [0, 3])
def test_an_interrupt_anywhere_in_a_read_loses_no_notification_without_a_gap(
    gap: int,
) -> None:
    """One that was taken out of its run, but not given to the callback, is missing."""

    def case(interrupted_at: Blow) -> None:
        subscriber = Subscriber()
        subscriber.run(MESSAGES_MAX + gap)
        subscriber.mailbox += subscriber.inbox.take_now()
        interrupted_at(lambda: subscriber.read(100))
        assert not subscriber.inbox.lock.locked()
        is_as_ever(subscriber)

    everywhere(case, packages=[bus])


@clause("BUS-FLOW-1", "BUS-FLOW-3", "BUS-FLOW-7")
@pytest.mark.parametrize("full_of", ["runs", "single ones"])
def test_an_interrupt_anywhere_in_a_drop_leaves_it_done_or_not_begun(
    full_of: str,
) -> None:
    """At most the notification that needs room is lost, which takes no room then."""

    def case(interrupted_at: Blow) -> None:
        subscriber = Subscriber()
        if full_of == "runs":
            subscriber.run(1)
            subscriber.run(MESSAGES_MAX - 1)
        else:
            for _ in range(MESSAGES_MAX):
                subscriber.one()
        for size in (4, 30):  # for a long one, several are dropped
            [lost] = subscriber.payloads(1, size)
            interrupted_at(lambda lost=lost: subscriber.post(lost))  # type: ignore[misc]
            if b"%d" % (subscriber.number - 1) not in _unread(subscriber):
                subscriber.number -= 1  # the next one gets its number
        is_as_ever(subscriber)

    everywhere(case, packages=[bus])


@clause("BUS-FLOW-3", "BUS-FLOW-7")
def test_an_interrupt_while_a_run_is_split_loses_no_notification() -> None:
    def case(interrupted_at: Blow) -> None:
        subscriber = Subscriber()
        subscriber.run(MESSAGES_MAX)
        subscriber.mailbox += subscriber.inbox.take_now()
        [run] = subscriber.mailbox
        place = SimpleNamespace(items=subscriber.mailbox)

        def unpack() -> None:
            with subscriber.inbox.lock:
                if run:
                    subscriber.account.unpack_locked(run, place)

        interrupted_at(unpack)
        unpack()
        subscriber.mailbox = place.items
        is_as_ever(subscriber)
        assert not any(subscriber.gaps)

    everywhere(case, packages=[bus])


def _unread(subscriber: Subscriber) -> list[bytes]:
    return [
        each.payload.rstrip(b".")
        for each in subscriber.inbox.items
        if isinstance(each, Incoming) and each.payload is not None
    ]


def is_as_ever(subscriber: Subscriber) -> None:
    """Check that every missing notification is reported, and no room is missing."""
    subscriber.read(100)
    subscriber.one()
    subscriber.read(1)
    assert subscriber.gaps == subscriber.gaps_due()
    assert subscriber.is_balanced()
    assert subscriber.account.unread == subscriber.account.unread_bytes == 0
    subscriber.run(MESSAGES_MAX)
    subscriber.read(100)
    after = range(subscriber.number - MESSAGES_MAX, subscriber.number)
    assert subscriber.got[-MESSAGES_MAX:] == [*after]


@clause("BUS-FLOW-3")
def test_a_withdrawn_message_leaves_its_gap_and_later_ones_to_the_next() -> None:
    subscriber = Subscriber()
    subscriber.miss(2)
    message = subscriber.message(b"1")
    assert subscriber.account.admit_at_once(message, subscriber.inbox.lock)
    subscriber.miss(3)

    subscriber.account.withdraw(message, subscriber.inbox.lock)

    subscriber.one()
    subscriber.read(1)
    assert subscriber.gaps == [5]
