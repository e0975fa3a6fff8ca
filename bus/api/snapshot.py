"""What `Bus.inspect` shows: a bus as it was at one moment, for people and for tests."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from bus.address import is_system
from bus.api.subscription import Subscription
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bus.address import Address
    from bus.api.receiver import Receiver
    from bus.core.neighbourhood import Neighbourhood
    from bus.core.relay import Relay
    from bus.core.relay_books import RelayBooks
    from bus.core.routing_table import Entry, Visibility
    from bus.specification import Specification
    from bus.threads.account import Account
    from bus.threads.exchange import Exchange
    from bus.threads.thread_manager import ThreadManager

__all__ = [
    "Books",
    "BusSnapshot",
    "PeerInfo",
    "RelayInfo",
    "SentBooks",
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
    gap: how many were dropped of which neither one that was extracted tells, nor one
      that is unread (BUS-FLOW-3).
    missed: notifications dropped before they reached this process, as later ones report
      by their gaps; no other counter here includes them.
    """

    specification: Specification
    notifications: Books
    gap: int
    missed: int


@attrs.frozen
class TaskInfo:
    """One task.

    commands: the books of what was sent to it by name.
    subscriptions: what it hears, in the order it asked.
    questions: how many answers it waits for.
    failures: callbacks that raised. late: answers that nobody waited for any more.
    unasked: answers it gave that nobody wanted. undelivered: what it sent, nobody got.
    unheard: notifications that it sent without a subscriber (BUS-FLOW-8).
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
    unheard: int = 0


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
class SentBooks:
    """What became of what was sent to tasks of other processes (BUS-FLOW-7).

    ``posted == taken + dropped + returned + failed + in_doubt + present``, always.

    posted: messages of all kinds, from when they enter a relay; again if they are back.
    taken: extracted by their addressees, or given to all who hear them.
    dropped: for newer ones, or since nobody is there who wants them.
    returned: sent elsewhere. failed: too late, too many, or nowhere to go to.
    in_doubt: nobody knows whether they were taken.
    present: wait for a link, or are under way.
    """

    posted: int
    taken: int
    dropped: int
    returned: int
    failed: int
    in_doubt: int
    present: int


@attrs.frozen
class RelayInfo:
    """What stands here for one task of another process.

    address: of that task. sent: what became of what was sent to it.
    """

    address: Address
    sent: SentBooks


@attrs.frozen
class PeerInfo:
    """Another process that this one speaks with.

    machine, process: what these are called.
    open: whether there is a link with it just now.
    sent: what was sent to its tasks, also to those that have left.
    notifications: those of it that are notifications; each counts once, whoever hears.
    relays: of its tasks that are known here.
    """

    machine: str
    process: str
    open: bool
    sent: SentBooks
    notifications: SentBooks
    relays: tuple[RelayInfo, ...]


@attrs.frozen
class BusSnapshot:
    """A bus in one process.

    parked: messages that wait for a name, by name.
    peers: the other processes that it speaks with.
    sent: what was sent to other processes, also to those that are lost.
    notifying: the books of notifications on their way to the relays of others, once for
      all processes; delivered means that it is there. None for a bus without others.
    """

    bus: str
    machine: str
    process: str
    threads: tuple[ThreadInfo, ...]
    tasks: tuple[TaskInfo, ...]
    parked: Mapping[str, int]
    peers: tuple[PeerInfo, ...]
    sent: SentBooks
    notifying: Books | None


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
    remote = exchange.manager.remote
    sent, peers = _NOTHING, tuple[PeerInfo, ...]()
    if remote is not None:
        sent, peers = exchange.look(lambda: _of_others(remote))
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
        peers=peers,
        sent=sent,
        notifying=None if exchange.comm is None else _books(exchange.comm.account),
    )


def _of_others(remote: Neighbourhood) -> tuple[SentBooks, tuple[PeerInfo, ...]]:
    """Look at what was sent to other processes; under the exchange's lock."""
    present = list(remote.neighbours.peers.values())
    peers = tuple(
        PeerInfo(
            machine=peer.machine,
            process=peer.key[1],
            open=peer.session.ready,
            sent=_sent(peer.books, peer.all_relays()),
            notifications=_sent(peer.notifications, [peer.audience]),
            relays=tuple(
                RelayInfo(each.entry.address, _sent(each.books, [each]))
                for each in peer.relays.values()
                if not is_system(each.entry.name)
            ),
        )
        for peer in present
    )
    relays = [relay for peer in present for relay in peer.all_relays()]
    return _sent(remote.neighbours.books, relays), peers


def _sent(books: RelayBooks, relays: Iterable[Relay]) -> SentBooks:
    return SentBooks(
        posted=books.posted,
        taken=books.taken,
        dropped=books.dropped,
        returned=books.returned,
        failed=books.failed,
        in_doubt=books.in_doubt,
        present=sum([each.present for each in relays]),
    )


_NOTHING: Final = SentBooks(0, 0, 0, 0, 0, 0, 0)


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
                each.specification,
                _books(each._account),
                each._account.gap + each._account.behind,
                each._account.missed,
            )
            for each in list(receiver.interests)
            if isinstance(each, Subscription)
        ),
        questions=len(receiver.questions),
        failures=receiver.failures,
        late=receiver.late,
        unasked=receiver.unasked,
        undelivered=receiver.undelivered,
        unheard=entry.unheard,
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
