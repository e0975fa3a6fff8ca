"""The bound on unread messages, at the limit: the message and its sender."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bus.process.account import Account, Admission
from bus.process.dropping_account import new_account
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.station import Station, run_due
from tests.support import Threads

if TYPE_CHECKING:
    from bus.kernel.tasks.runs import InboundRun
    from bus.model.message import Incoming
    from bus.model.snapshot import Counters
    from queuebroker.testing import Run

LONG = 2**20 + 1  # more bytes than the bound of a clerk


@clause("BUS-FLOW-1")
def test_a_message_longer_than_the_bound_finds_room_where_nothing_is_unread() -> None:
    account = Account(messages_max=2, bytes_max=10, overflow="block")
    message = Station().message("c", "long", size=11)

    assert not account.full(11)
    assert account.admit_locked(message, []) is Admission.ACCEPTED
    assert account.full(1)
    assert account.extract(message, _sync.Lock())
    assert not account.full(11)


@clause("BUS-FLOW-1", "BUS-FLOW-3")
@pytest.mark.parametrize("reason", ["full", "gap"])
def test_no_message_is_admitted_at_once_if_there_is_a_reason(reason: str) -> None:
    """The usual way applies the policy, and reports the gap."""
    account, lock = (
        Account(messages_max=2, bytes_max=10, overflow="block"),
        _sync.Lock(),
    )
    station = Station()
    assert account.admit_at_once(station.message("c", "first", size=1), lock)
    account.gap = int(reason == "gap")
    size = 10 if reason == "full" else 1

    assert not account.admit_at_once(station.message("c", "next", size=size), lock)
    assert (account.unread, account.unread_bytes) == (1, 1)
    account.gap = 0
    assert account.admit_at_once(station.message("c", "next", size=1), lock)


@clause("BUS-FLOW-1")
@pytest.mark.parametrize(("messages_max", "bytes_max"), [(2, 9), (9, 2)])
def test_a_sender_and_the_reader_together_exceed_no_bound(
    messages_max: int, bytes_max: int
) -> None:
    """The reader takes messages, and posts some to itself, while another one counts."""

    def scenario(run: Run) -> None:
        account = Account(
            messages_max=messages_max, bytes_max=bytes_max, overflow="block"
        )
        lock, station = _sync.Lock(), Station()
        messages = [station.message("c", "text", size=1) for _ in range(5)]
        unread: list[Incoming] = []

        def admitted(message: Incoming) -> None:
            unread.append(message)
            assert len(unread) <= 2

        def send() -> None:
            with lock:
                if account.admit_locked(messages[4], []) is Admission.ACCEPTED:
                    admitted(messages[4])

        for message in messages[:2]:
            assert account.admit_at_once(message, lock)
            admitted(message)
        run.spawn(send, name="sends")
        for message in messages[2:4]:
            account.extract(unread.pop(0), lock)
            if account.admit_at_once(message, lock):
                admitted(message)
        run.join()
        assert account.unread == account.unread_bytes == len(unread)

    explore(
        scenario,
        bound=2,
        limit=schedules(2_000),
        random=schedules(200),
        seed=1,
        bytecode=[
            *(Account.admit_locked, Account.admit_at_once, Account._over),
            Account.extract,
        ],
    )


@clause("BUS-FLOW-9")
def test_each_report_balances_and_no_count_falls_in_the_middle_of_a_call() -> None:
    """The reader exceeds the bound meanwhile, and expires a message."""

    def scenario(run: Run) -> None:
        account = Account(messages_max=1, bytes_max=9, overflow="block")
        lock, station = _sync.Lock(), Station()
        first, second = (station.message("c", "text", size=1) for _ in range(2))
        reports: list[Counters] = []

        def watch() -> None:
            reports.extend(account.counters(lock) for _ in range(3))

        assert account.admit_at_once(first, lock)
        run.spawn(watch, name="watches")
        assert not account.admit_at_once(second, lock)
        assert account.discard(first, lock, "expired")
        run.join()

        reports.append(account.counters(lock))
        for each in reports:
            ended = each.delivered + each.dropped + each.expired + each.returned
            assert each.accepted == ended + each.unread
            assert 0 <= each.unread <= 1
            assert each.unread_bytes >= 0
        for one, other in itertools.pairwise(reports):
            assert one.accepted <= other.accepted
            assert one.delivered <= other.delivered
            assert one.expired <= other.expired
        assert (reports[-1].accepted, reports[-1].expired) == (1, 1)

    explore(
        scenario,
        bound=2,
        limit=schedules(2_000),
        random=schedules(200),
        seed=1,
        bytecode=[Account.admit_at_once, Account._over, Account.discard],
    )


@clause("BUS-FLOW-1", "BUS-FLOW-2")
def test_a_sender_of_a_long_message_does_not_sleep_where_nothing_is_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The receiver reads the last message just as the sender is about to wait for room.

    The sender used to check only the byte count, found no room, and slept until its
    timeout.
    """
    station = Station()
    host = station.home
    host.adopt()
    station.register("c", host, overflow="block")
    station.send("c", "short")
    admit = Account.admit_locked
    looks: list[Admission] = []

    def admit_then_read(
        account: Account, message: Incoming, dropped: list[Incoming | InboundRun]
    ) -> Admission:
        looks.append(admit(account, message, dropped))
        if len(looks) == 2:  # the sender's last check before it waits
            account.extracted += 1
            account.extracted_bytes += 1
        return looks[-1]

    monkeypatch.setattr(Account, "admit_locked", admit_then_read)
    monkeypatch.setattr(_sync, "park", lambda *_: pytest.fail("it sleeps"))
    with Threads() as threads:
        threads.start(partial(station.send, "c", "long", size=LONG)).result()

    assert looks == [Admission.FULL, Admission.FULL, Admission.ACCEPTED]


@clause("BUS-FLOW-6")
def test_a_task_that_opens_reports_the_messages_it_drops_to_their_senders() -> None:
    """More messages are parked for the name than the task has room for."""
    station = Station()
    host = station.home
    host.adopt()
    station.send("c", 1, 2, 3)

    clerk, _ = station.register("c", host, capacity=1, overflow="drop-oldest")
    run_due(host)

    assert clerk.read == [3]
    assert clerk.gaps == [2]
    assert station.sender.dropped == [1, 2]


@clause("BUS-FLOW-6")
def test_a_task_that_opens_reports_the_messages_it_refuses_to_their_senders() -> None:
    station = Station()
    host = station.home
    host.adopt()
    station.send("c", 1, 2, 3)

    clerk, _ = station.register("c", host, capacity=1, overflow="drop-newest")
    host.poll(0)

    assert clerk.read == [1]
    assert [payload for payload, _ in station.sender.failures] == [2, 3]


@clause("BUS-FLOW-3")
def test_a_refused_notification_hands_on_its_gap() -> None:
    """It arrived over a link, after others that the sender's process had dropped."""
    account = Account(messages_max=1, bytes_max=10, overflow="drop-newest")
    first, refused, last = (_notified(gap) for gap in (0, 5, 0))
    assert account.admit_locked(first, []) is Admission.ACCEPTED

    assert account.admit_locked(refused, []) is Admission.DROPPED
    assert account.extract(first, _sync.Lock())
    assert account.admit_locked(last, []) is Admission.ACCEPTED

    assert (first.gap, last.gap) == (0, 6)


@clause("BUS-FLOW-3")
def test_drops_behind_the_unread_are_reported_once() -> None:
    """By the next accepted message, wherever the drops happened."""
    account = new_account(messages_max=4, bytes_max=10, overflow="drop-oldest")
    account.miss_newest_locked(3)
    messages = [_notified(0), _notified(0)]

    for message in messages:
        assert account.admit_locked(message, []) is Admission.ACCEPTED

    assert [message.gap for message in messages] == [3, 0]


def _notified(gap: int) -> Incoming:
    message = Station().message("c", "m")
    message.gap = gap
    return message


@clause("BUS-FLOW-3", "BUS-DEREG-8")
def test_commands_taken_over_carry_no_gap_of_the_last_owner() -> None:
    """The dropped commands belonged to another task."""
    station = Station()
    host = station.home
    host.adopt()
    _, entry = station.register("c", host, capacity=1, overflow="drop-oldest")
    station.send("c", 1, 2, 3)
    station.exchange.deregister(entry, final=False)

    clerk, _ = station.register("c", host)
    run_due(host)

    assert (clerk.read, clerk.gaps) == ([3], [0])
