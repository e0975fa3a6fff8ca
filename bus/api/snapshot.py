"""What `Bus.inspect` shows: a bus as it was at one moment, for people and for tests."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from bus.address import is_system
from bus.api.subscription import Subscription
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bus.address import Address
    from bus.api.receiver import Receiver
    from bus.core.routing_table import Entry, Visibility
    from bus.core.specification import Specification
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = [
    "Books",
    "BusSnapshot",
    "SubscriptionInfo",
    "TaskInfo",
    "ThreadInfo",
    "inspect",
]


@attrs.frozen
class Books:
    """What became of the messages for one receiver (BUS-FLOW-7).

    ``accepted == delivered + dropped + expired + returned + unread``, always at rest,
    and within the calls that are in progress at any time.

    delivered: handed to a callback. dropped: for newer ones. expired: too late.
    returned: sent elsewhere, since the receiver left or heard no more.
    turned_away: refused, or dropped for older ones; never accepted.
    """

    accepted: int
    delivered: int
    dropped: int
    expired: int
    returned: int
    unread: int
    unread_bytes: int
    turned_away: int


@attrs.frozen
class SubscriptionInfo:
    """One thing a task asked to hear.

    notifications: the books of what came for it.
    gap: how many were dropped since one was last extracted (BUS-FLOW-3).
    """

    specification: Specification
    notifications: Books
    gap: int


@attrs.frozen
class TaskInfo:
    """One task.

    commands: the books of what was sent to it by name.
    subscriptions: what it hears, in the order it asked.
    questions: how many answers it waits for.
    failures: callbacks that raised. late: answers that nobody waited for any more.
    unasked: answers it gave that nobody wanted. undelivered: what it sent, nobody got.
    """

    address: Address
    visibility: Visibility
    thread: str
    commands: Books
    subscriptions: tuple[SubscriptionInfo, ...]
    questions: int
    failures: int
    late: int
    unasked: int
    undelivered: int


@attrs.frozen
class ThreadInfo:
    """One thread.

    busy_s: for how long its callback has been running, or it has looked for one, in
      seconds; None if it waits.
    callbacks: how many have run. wakeups: how often it had to be woken.
    """

    name: str
    tasks: tuple[str, ...]
    busy_s: float | None
    callbacks: int
    wakeups: int


@attrs.frozen
class BusSnapshot:
    """A bus in one process.

    parked: messages that wait for a name, by name.
    """

    bus: str
    machine: str
    process: str
    threads: tuple[ThreadInfo, ...]
    tasks: tuple[TaskInfo, ...]
    parked: Mapping[str, int]


def inspect(
    exchange: Exchange, bus: str, managers: Iterable[ThreadManager]
) -> BusSnapshot:
    """Look at a bus as it is now; managers: of its threads.

    What the bus has registered for itself is left out.
    """
    entries = exchange.look(
        lambda: [
            each
            for each in exchange.manager.table
            if not each.remote and not is_system(each.name)
        ]
    )
    parked = exchange.look(exchange.manager.parked.waiting)
    hosted = [(entry, entry.place) for entry in entries]
    now = _sync.monotonic()
    return BusSnapshot(
        bus=bus,
        machine=exchange.manager.machine,
        process=exchange.manager.process,
        threads=tuple(_thread_info(manager, hosted, now) for manager in managers),
        tasks=tuple(
            _task_info(entry, place) for entry, place in hosted if place is not None
        ),
        parked=MappingProxyType(parked),
    )


def _thread_info(
    manager: ThreadManager,
    hosted: Iterable[tuple[Entry, ThreadManager | None]],
    now: float,
) -> ThreadInfo:
    since = manager.since
    return ThreadInfo(
        name=manager.name,
        tasks=tuple(entry.name for entry, place in hosted if place is manager),
        busy_s=None if since is None else max(0.0, now - since),
        callbacks=manager.callbacks,
        wakeups=manager.inbox.wakeups,
    )


def _task_info(entry: Entry, place: ThreadManager) -> TaskInfo:
    receiver: Receiver = entry.box.client
    return TaskInfo(
        address=entry.address,
        visibility=entry.visibility,
        thread=place.name,
        commands=_books(receiver.account),
        subscriptions=tuple(
            SubscriptionInfo(
                each.specification, _books(each._account), each._account.gap
            )
            for each in list(receiver.interests)
            if isinstance(each, Subscription)
        ),
        questions=len(receiver.questions),
        failures=receiver.failures,
        late=receiver.late,
        unasked=receiver.unasked,
        undelivered=receiver.undelivered,
    )


def _books(account: Account) -> Books:
    return Books(
        accepted=account.accepted,
        delivered=account.delivered,
        dropped=account.dropped,
        expired=account.expired,
        returned=account.returned,
        unread=account.unread,
        unread_bytes=account.unread_bytes,
        turned_away=account.turned_away,
    )
