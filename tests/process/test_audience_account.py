"""Notifications for remote subscribers: bounded, in order, each drop reported once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bus
from bus.api.sender import Sender
from bus.features.watching.inspection import _notifying
from bus.process.accounts import AudienceAccount
from bus.process.send_batch import SendBatch
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.process.outbox import Notifier, Process, missing
from tests.strikes import Blow, everywhere

if TYPE_CHECKING:
    from queuebroker.testing import Run

MESSAGES_MAX = 6


def waiting(process: Process) -> int:
    return process.host.account.waiting[0]


def is_empty(process: Process) -> bool:
    account = process.host.account
    return (
        account.unread == 0
        and account.waiting == (0, 0)
        and account._posted_bytes == account._left_bytes
        and not account._waiting
        and not account._send_batches
    )


@clause("BUS-FLOW-3", "BUS-FLOW-1", "BUS-MSG-15")
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["numbers", "objects", "round"]),
            st.sampled_from([0, 1]),
            st.integers(1, 9),
        ),
        max_size=14,
    ),
    bytes_max=st.sampled_from([10, 1000]),
)
def test_each_notification_reports_those_dropped_before_it(
    steps: list[tuple[str, int, int]], bytes_max: int
) -> None:
    process = Process(task_fifo_messages=MESSAGES_MAX, task_fifo_bytes=bytes_max)
    notifiers = [Notifier(process), Notifier(process, "e")]
    for name, which, count in steps:
        if name == "round":
            process.round()
        else:
            getattr(notifiers[which], f"notify_{name}")(count)
        account = process.host.account
        assert account.unread <= MESSAGES_MAX
        sent = sum(notifier.number for notifier in notifiers)
        assert account.delivered + account.dropped + waiting(process) == sent
        lost = sum(len(notifier.lost) for notifier in notifiers)
        assert account.dropped == lost
    process.round()
    for notifier in notifiers:
        notifier.notify_objects(1)  # reports the drops at the end
        process.round()

    for notifier in notifiers:
        received = notifier.received()
        assert [gap for _, gap in received] == missing(received)
        assert received[-1][0] == notifier.number
    assert is_empty(process)


@clause("BUS-FLOW-3")
def test_a_gap_of_one_notifier_is_due_until_its_next_notification_is_taken() -> None:
    """A notification that took the fast path meanwhile would not report it."""
    process = Process(task_fifo_messages=MESSAGES_MAX)
    account = process.host.account
    one, other = Notifier(process), Notifier(process, "e")
    one.notify_objects(MESSAGES_MAX)
    other.notify_objects(1)  # drops the first of the other notifier

    assert (account.has_gap(one.entry), account.has_gap(other.entry)) == (True, False)
    process.round()

    assert not account.has_gap(one.entry)
    assert [gap for _, gap in one.received()] == [1] + [0] * (MESSAGES_MAX - 2)


@clause("BUS-MSG-15", "BUS-RELAY-6")
def test_notifications_of_bytes_share_one_place_in_the_inbox() -> None:
    process = Process()
    notifier = Notifier(process)
    notifier.notify_numbers(100)
    assert len(process.host.inbox.items) == 1
    process.round()
    assert [number for number, _ in notifier.received()] == [*range(1, 101)]
    assert is_empty(process)


@clause("BUS-MSG-15")
def test_two_threads_of_a_task_may_notify_at_the_same_time() -> None:
    """Each notification leaves or is dropped, once, and those of a thread in order."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=2)  # soon full
        notifier = Notifier(process)
        notifier.send(b"1")
        other = run.spawn(lambda: _send(notifier, b"x", b"y"), name="two")
        process.round()
        notifier.send(b"2")
        notifier.send(b"3")
        other.join()
        process.round()
        received = [payload for payload, _ in process.remote.notified]
        assert sorted(received + notifier.lost) == [b"1", b"2", b"3", b"x", b"y"]
        for own in (b"123", b"xy"):
            numbers = [each for each in received if each in own]
            assert numbers == sorted(numbers)

    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=[Sender.notify_bytes, SendBatch.confirm, SendBatch.take],
    )


@pytest.mark.deep
@clause("BUS-FLOW-3", "BUS-MSG-15")
def test_notifications_sent_while_others_are_dropped_or_taken_keep_their_order() -> (
    None
):
    """On every schedule of a notifier, another one that needs room, and the links."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=2)
        one, other = Notifier(process), Notifier(process, "e")
        one.notify_numbers(1)
        first = run.spawn(lambda: one.notify_numbers(2), name="notifies")
        second = run.spawn(lambda: other.notify_objects(2), name="needs room")
        process.round()
        first.join()
        second.join()
        process.round()
        account = process.host.account
        assert account.delivered + account.dropped == 5
        for notifier in (one, other):
            notifier.notify_objects(1)
            process.round()
            received = notifier.received()
            assert [gap for _, gap in received] == missing(received)
        assert is_empty(process)

    explore(program, bound=2, limit=schedules(400), random=schedules(50), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(2_000),
        random=schedules(150),
        seed=1,
        bytecode=[
            Sender.notify_bytes,
            SendBatch.confirm,
            SendBatch.take,
            SendBatch.drop_oldest_locked,
            AudienceAccount.admit_locked,
        ],
    )


def _send(notifier: Notifier, *payloads: bytes) -> None:
    for payload in payloads:
        notifier.send(payload)


@pytest.mark.deep
@clause("BUS-FLOW-1", "BUS-FLOW-3", "BUS-FLOW-7")
@pytest.mark.parametrize("form", ["bytes", "objects", "long"])
@pytest.mark.parametrize(
    "state", ["new", "posted", "taken", "full of a batch", "full of objects"]
)
def test_an_interrupt_anywhere_loses_one_notification_and_no_room(
    state: str, form: str
) -> None:
    """Each one of another notifier that is dropped is reported, and counted once."""

    def case(interrupted_at: Blow) -> None:
        process = Process(task_fifo_messages=3)
        mine, other = Notifier(process), Notifier(process, "e")
        if state in {"posted", "taken"}:
            mine.notify_numbers(1)
        if state == "taken":
            process.round()
        if state == "full of a batch":
            other.notify_numbers(3)
        if state == "full of objects":
            other.notify_objects(3)
        act = {
            "bytes": lambda: mine.notify_numbers(1),
            "objects": lambda: mine.notify_objects(1),
            "long": lambda: mine.notify_numbers(1, size=2_000),
        }[form]
        interrupted_at(act)
        process.round()
        account: Any = process.host.account
        account._reclaim_locked(2_000)  # as if there was no room
        assert is_empty(process)
        other.notify_objects(1)  # reports the last drop
        process.round()

        received = other.received()
        assert [gap for _, gap in received] == missing(received)
        assert account.delivered == len(process.remote.notified)
        assert account.dropped == other.number - len(received)

    everywhere(case, packages=[bus])


@clause("BUS-FLOW-7")
def test_the_number_accepted_never_falls() -> None:
    """On every schedule of a batch that reserves room and a thread that looks."""

    def program(run: Run) -> None:
        process = Process(task_fifo_messages=MESSAGES_MAX)
        notifier = Notifier(process)
        host = process.host
        comm: Any = SimpleNamespace(account=host.account, audience=host.audience)
        other = run.spawn(lambda: notifier.notify_numbers(2), name="notifies")
        accepted = [_notifying(comm).accepted for _ in range(2)]
        other.join()
        accepted.append(_notifying(comm).accepted)
        assert accepted == sorted(accepted)
        assert accepted[-1] == 2

    explore(
        program,
        bound=2,
        limit=schedules(400),
        random=schedules(50),
        seed=1,
        bytecode=[SendBatch._admit_locked],
    )
