"""The result of `Bus.inspect`: a snapshot of a bus, for diagnostics and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from bus.address import Address, is_system
from bus.api.receiver import Receiver
from bus.api.subscription import Subscription
from bus.core.local.routing_table import Entry
from bus.core.peer.relay import Relay
from bus.core.peer.relay_counters import RelayCounters
from bus.core.remote.known_machines import KnownMachines
from bus.core.remote.remote_manager import RemoteManager
from bus.machine_info import MachineInfo
from bus.registration import Visibility
from bus.shared_memory_info import SharedMemoryInfo
from bus.specification import Specification
from bus.threads.account import Account
from bus.threads.comm import Comm
from bus.threads.exchange import Exchange
from bus.threads.thread_manager import ThreadManager
from queuebroker import _sync

__all__ = [
    "BusSnapshot",
    "Counters",
    "PeerInfo",
    "RelayInfo",
    "SentCounters",
    "SubscriptionInfo",
    "TaskInfo",
    "ThreadInfo",
    "inspect",
]


class Counters(Struct, frozen=True):
    """The counters of the messages for one receiver (BUS-FLOW-7).

    ``accepted == delivered + dropped + expired + returned + unread`` holds exactly at
    rest. Otherwise it holds except for the calls in progress.

    accepted: messages put on the account of the receiver.
    delivered: messages handed to a callback.
    dropped: accepted messages dropped for newer ones.
    expired: messages extracted after their deadline.
    returned: messages sent elsewhere, as the receiver deregistered or unsubscribed.
    unread, unread_bytes: messages that are unread now, and their size in bytes.
    refused: messages rejected, or dropped in favour of older ones; never accepted.
    """

    accepted: int
    delivered: int
    dropped: int
    expired: int
    returned: int
    unread: int
    unread_bytes: int
    refused: int


class SubscriptionInfo(Struct, frozen=True):
    """A subscription of a task.

    specification: the name or pattern of the notifiers.
    notifications: the counters of the notifications for the subscription.
    gap: the number of dropped notifications that no extracted or unread one reports
      (BUS-FLOW-3).
    missed: the number of notifications dropped before they reached this process, as the
      gaps of later ones report; no other counter here includes them.
    """

    specification: Specification
    notifications: Counters
    gap: int
    missed: int


class TaskInfo(Struct, frozen=True):
    """A task of this process.

    address: the full address of the task.
    visibility: its visibility.
    thread: the name of the thread that hosts it.
    commands: the counters of the commands sent to it.
    subscriptions: its subscriptions, in order of creation.
    questions: the number of its open questions.
    failures: the number of callbacks that raised.
    late: the number of answers that arrived after their question had closed.
    unasked: the number of answers it gave that no task requested.
    undelivered: the number of undeliverable commands that requested no answer.
    no_subscriber: the number of its notifications without a subscriber (BUS-FLOW-8).
    """

    address: Address
    visibility: Visibility
    thread: str
    commands: Counters
    subscriptions: tuple[SubscriptionInfo, ...]
    questions: int
    failures: int
    late: int
    unasked: int
    undelivered: int
    no_subscriber: int = 0


class ThreadInfo(Struct, frozen=True):
    """A thread of the bus in this process.

    name: the name of the thread.
    tasks: the names of the tasks that it hosts.
    busy_s: the time, in seconds, since the current callback, or the search for one,
      began; None if the thread waits.
    callbacks: the number of callbacks run.
    wakeups: the number of times that a sender woke the thread.
    """

    name: str
    tasks: tuple[str, ...]
    busy_s: float | None
    callbacks: int
    wakeups: int


class SentCounters(Struct, frozen=True):
    """The counters of messages sent to tasks of other processes (BUS-FLOW-7).

    ``posted == taken + dropped + returned + failed + in_doubt + in_transit``, always.

    posted: messages of all kinds, each counted when it enters a relay. If a returned
      message enters another relay, it is counted a second time.
    taken: messages extracted by their addressees, or given to all subscribers.
    dropped: messages dropped for newer ones, or because no subscriber is left.
    returned: messages sent elsewhere.
    failed: messages that expired, found no room, or had no addressee.
    in_doubt: messages that may or may not have been taken: the link was lost before
      the acknowledgement.
    in_transit: messages that wait for a link, or are in transit.
    """

    posted: int
    taken: int
    dropped: int
    returned: int
    failed: int
    in_doubt: int
    in_transit: int


class RelayInfo(Struct, frozen=True):
    """The relay of one task of another process.

    address: the address of that task.
    sent: the counters of the messages sent to it.
    """

    address: Address
    sent: SentCounters


class PeerInfo(Struct, frozen=True):
    """A peer: another process with which this one exchanges messages.

    machine, process: the names of the machine and of the process.
    open: True if a link to it is open now.
    sent: the counters of the messages sent to its tasks, deregistered ones included.
    notifications: the notifications among ``sent``; each counts once, for any number
      of subscribers.
    relays: the relays of its tasks.
    """

    machine: str
    process: str
    open: bool
    sent: SentCounters
    notifications: SentCounters
    relays: tuple[RelayInfo, ...]


class BusSnapshot(Struct, frozen=True):
    """A snapshot of a bus in one process.

    bus, machine, process: the names of the bus, the machine and the process.
    threads: the threads of the bus in this process.
    tasks: the tasks of this process, in order of registration.
    parked: the number of messages parked for each name.
    peers: the other processes with which this one exchanges messages.
    sent: the counters of messages sent to other processes, lost ones included.
    notifying: the counters of notifications on their way to the relays of other
      processes. Each counts once for all processes; it is delivered when it reaches
      the relays. None while this process is alone on the bus.
    machines: the other machines that this process knows, while it is the master of its
      machine (BUS-DISC-13).
    ignored_announcements: the number of ignored announcements of machines, by reason
      (BUS-DISC-11).
    shared_memory: the arena of this process, and its use of others (MC-39); None while
      this process is alone on the bus, or if `BusConfig.shared_memory` is False.
    """

    bus: str
    machine: str
    process: str
    threads: tuple[ThreadInfo, ...]
    tasks: tuple[TaskInfo, ...]
    parked: Mapping[str, int]
    peers: tuple[PeerInfo, ...]
    sent: SentCounters
    notifying: Counters | None
    machines: tuple[MachineInfo, ...]
    ignored_announcements: Mapping[str, int]
    shared_memory: SharedMemoryInfo | None


def inspect(
    exchange: Exchange, bus: str, managers: Iterable[ThreadManager]
) -> BusSnapshot:
    """Return a snapshot of a bus, without the tasks that the bus itself registers.

    managers: the managers of the threads of the bus.
    """
    entries = exchange.query(
        lambda: [
            each
            for each in exchange.manager.table
            if not each.remote and not is_system(each.name)
        ]
    )
    parked = exchange.query(exchange.manager.parked.waiting)
    comm = exchange.comm
    sent, peers = _NOTHING, tuple[PeerInfo, ...]()
    machines: list[MachineInfo] = []
    if comm is not None:
        sent, peers = exchange.query(lambda: _of_others(comm.remote))
        machines = exchange.query(lambda: _known_machines(comm.remote))
    hosted = [(entry, entry.host) for entry in entries]
    now = _sync.monotonic()
    return BusSnapshot(
        bus=bus,
        machine=exchange.manager.machine,
        process=exchange.manager.process,
        threads=tuple(_thread_info(manager, hosted, now) for manager in managers),
        tasks=tuple(
            _task_info(entry, host) for entry, host in hosted if host is not None
        ),
        parked=parked,
        peers=peers,
        sent=sent,
        notifying=None if comm is None else _notifying(comm),
        machines=tuple(machines),
        ignored_announcements={} if comm is None else dict(comm.ignored_announcements),
        shared_memory=None if comm is None else comm.shared_memory(),
    )


def _of_others(remote: RemoteManager) -> tuple[SentCounters, tuple[PeerInfo, ...]]:
    """Return the counters and the peers; the caller holds the exchange's lock."""
    present = list(remote.topology.peers.values())
    peers = tuple(
        PeerInfo(
            machine=peer.machine,
            process=peer.key[1],
            open=peer.session.ready,
            sent=_sent(peer.counters, peer.all_relays()),
            notifications=_sent(peer.notifications, [peer.audience]),
            relays=tuple(
                RelayInfo(each.entry.address, _sent(each.counters, [each]))
                for each in peer.relays.values()
                if not is_system(each.entry.name)
            ),
        )
        for peer in present
    )
    relays = [relay for peer in present for relay in peer.all_relays()]
    return _sent(remote.topology.counters, relays), peers


def _known_machines(remote: RemoteManager) -> list[MachineInfo]:
    """Return the other machines; the caller holds the exchange's lock."""
    known = KnownMachines(remote.topology, remote.links)
    return known.report(_sync.monotonic())


def _sent(counters: RelayCounters, relays: Iterable[Relay]) -> SentCounters:
    return SentCounters(
        posted=counters.posted,
        taken=counters.taken,
        dropped=counters.dropped,
        returned=counters.returned,
        failed=counters.failed,
        in_doubt=counters.in_doubt,
        in_transit=sum([each.in_transit for each in relays]),
    )


_NOTHING: Final = SentCounters(0, 0, 0, 0, 0, 0, 0)


def _thread_info(
    manager: ThreadManager,
    hosted: Iterable[tuple[Entry, ThreadManager | None]],
    now: float,
) -> ThreadInfo:
    since = manager.scheduler.since
    return ThreadInfo(
        name=manager.name,
        tasks=tuple(entry.name for entry, host in hosted if host is manager),
        busy_s=None if since is None else max(0.0, now - since),
        callbacks=manager.scheduler.callbacks,
        wakeups=manager.inbox.wakeups,
    )


def _task_info(entry: Entry, host: ThreadManager) -> TaskInfo:
    receiver: Receiver = entry.mailbox.client
    return TaskInfo(
        address=entry.address,
        visibility=entry.visibility,
        thread=host.name,
        commands=_counters(receiver.account),
        subscriptions=tuple(
            SubscriptionInfo(
                each.specification,
                _counters(each._account),
                each._account.gap + each._account.behind,
                each._account.missed,
            )
            for each in list(receiver.interests)
            if isinstance(each, Subscription)
        ),
        questions=len(receiver.questions),
        failures=receiver.failures,
        late=receiver.asker.late,
        unasked=receiver.responder.unasked,
        undelivered=receiver.delivery_failures.undelivered,
        no_subscriber=entry.no_subscriber,
    )


def _counters(account: Account) -> Counters:
    return Counters(
        accepted=account.accepted,
        delivered=account.delivered,
        dropped=account.dropped,
        expired=account.expired,
        returned=account.returned,
        unread=account.unread,
        unread_bytes=account.unread_bytes,
        refused=account.refused,
    )


def _notifying(comm: Comm) -> Counters:
    account = comm.account
    # Under the lock: a batch reserves and releases room for many at a time.
    with comm.audience.host.inbox.lock:
        unread, unread_bytes = account.waiting
        delivered, dropped = account.delivered, account.dropped
    return Counters(
        accepted=delivered + dropped + unread,
        delivered=delivered,
        dropped=dropped,
        expired=0,
        returned=0,
        unread=unread,
        unread_bytes=unread_bytes,
        refused=0,
    )
