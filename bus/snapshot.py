"""The result of `Bus.inspect`: a snapshot of a bus, for diagnostics and tests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from bus.address import Address
from bus.machine_info import MachineInfo
from bus.registration import Visibility
from bus.shared_memory_info import SharedMemoryInfo
from bus.specification import Specification

__all__ = [
    "BusSnapshot",
    "Counters",
    "PeerInfo",
    "RelayInfo",
    "SentCounters",
    "SubscriptionInfo",
    "TaskInfo",
    "ThreadInfo",
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
