"""The results of `Bus.inspect`: a snapshot of a bus, for diagnostics and tests."""

from __future__ import annotations

import enum
import operator
from collections.abc import Mapping
from typing import Self

from msgspec import Struct
from msgspec.structs import astuple

from bus.model.address import Address
from bus.model.registration import Visibility
from bus.model.specification import Specification

__all__ = [
    "ArenaRecipientInfo",
    "BusSnapshot",
    "Counters",
    "LentViewsInfo",
    "LongMessageCounters",
    "MachineInfo",
    "MachineState",
    "PeerInfo",
    "RelayInfo",
    "SentCounters",
    "SharedMemoryInfo",
    "SlabInfo",
    "SubscriptionInfo",
    "TaskInfo",
    "TaskTotals",
    "ThreadInfo",
]


class MachineState(enum.Enum):
    """The progress of one master towards a link with another one.

    LINKED: a link is open.
    DIALLING: this master dials the other one, again and again.
    WAITING: the other master is to dial this one: it has the lower id (OPEN-20), or had
      dialled the lost link.
    REFUSED: as DIALLING, but one of the two machines has refused the other one.
    CONFLICT: another machine has its name, which may be that of this one; it gets no
      link (BUS-DISC-8).
    """

    LINKED = "linked"
    DIALLING = "dialling"
    WAITING = "waiting"
    REFUSED = "refused"
    CONFLICT = "conflict"


class MachineInfo(Struct, frozen=True, kw_only=True):
    """Another machine that a master has found, was given, or is linked with.

    name: its name; in a conflict perhaps that of this machine; None for a static
      address whose machine is not known yet.
    address: where its master listens; None if this master was never given an address,
      since the other one has dialled. In a conflict it may be the host that has
      dialled, without a port.
    state: the progress towards a link with it.
    since_s: for how long it has been linked or, in any other state, without a link, in
      seconds; None if its first dial has not ended.
    round_trip_s: the time from the last PING to its answer, in seconds; None without a
      link, or before the first answer.
    why: the reason why there is no link; empty if it is linked, or no dial has failed.
    """

    name: str | None
    address: str | None
    state: MachineState
    since_s: float | None
    round_trip_s: float | None
    why: str


class LongMessageCounters(Struct, frozen=True, kw_only=True):
    """The counters of long messages for processes of the same machine (MC-38).

    Each recipient of a message counts. At any time ``shared`` is ``released`` and the
    present leases together.

    shared: messages that lay in the arena.
    released: those among them whose lease has ended, also by the loss of the link.
    beyond_share: messages that travelled by the link, as the recipient would have held
      more than its share of the arena (MC-31).
    no_room: messages that travelled by the link, as the arena had no room for them.
    not_mapped: messages that travelled by the link, as the recipient had refused to map
      the slab, or had not answered yet. The first message in each slab is one.
    """

    shared: int
    released: int
    beyond_share: int
    no_room: int
    not_mapped: int


class SlabInfo(Struct, frozen=True, kw_only=True):
    """A slab of an arena.

    number: its number; a slab made later has a higher one.
    buffer_bytes: the size of each buffer, in bytes.
    buffers, used: the number of its buffers, and of those that hold a message.
    loans: the messages that tasks of this process write in place, and those written so
      that it still has (MC-41).
    leases: the messages that recipients hold; each recipient of a message counts.
    abandoned: the messages that recipients of lost links may still read (MC-32).
    """

    number: int
    buffer_bytes: int
    buffers: int
    used: int
    loans: int
    leases: int
    abandoned: int


class ArenaRecipientInfo(Struct, frozen=True, kw_only=True):
    """A process that reads the arena of this one.

    process: its name; empty if its link is about to be closed.
    pid: its process id, as the kernel gives it to this process.
    since_s: the age of its oldest lease, in seconds; None without a lease.
    leases: the messages that it holds.
    held_bytes: the size of the buffers of these messages, in bytes.
    slabs_mapped, slabs_refused: the number of open slabs that it has mapped, and of
      those that it could not map.
    messages: the counters of the long messages for it, since its link was opened.
    """

    process: str
    pid: int
    since_s: float | None
    leases: int
    held_bytes: int
    slabs_mapped: int
    slabs_refused: int
    messages: LongMessageCounters


class LentViewsInfo(Struct, frozen=True, kw_only=True):
    """The messages that this process reads in the arena of another one.

    process: the name of that process; empty if its link is about to be closed.
    slabs: the number of its slabs that are mapped.
    views: the messages of which a view is left.
    since_s: the age of the oldest of these messages, in seconds; None without one.
    """

    process: str
    slabs: int
    views: int
    since_s: float | None


class SharedMemoryInfo(Struct, frozen=True, kw_only=True):
    """The arena of a process, and the arenas of others that it reads.

    The leases of all slabs are those of all recipients together. The messages of which
    a recipient has a view are those that it holds, except for reports in transit.

    bytes_max, size: the limit of the arena, and the size of its open slabs, in bytes.
    share_bytes: the maximum that one recipient may hold, in bytes (MC-31).
    slabs: its open slabs, the oldest first.
    recipients: the processes that read it, in the order of their first long message.
    messages: the counters of the long messages for all recipients, past ones included.
    stray_releases: the number of releases of a lease that does not exist (MC-21).
    lent: the other arenas, in the order of their first slab.
    """

    bytes_max: int
    size: int
    share_bytes: int
    slabs: tuple[SlabInfo, ...]
    recipients: tuple[ArenaRecipientInfo, ...]
    messages: LongMessageCounters
    stray_releases: int
    lent: tuple[LentViewsInfo, ...]


class _Summable(Struct, frozen=True):
    def __add__(self, other: Self) -> Self:
        return type(self)(*map(operator.add, astuple(self), astuple(other)))


class Counters(_Summable, frozen=True):
    """The counters of the messages for one receiver, or sums of them (BUS-FLOW-7).

    ``accepted == delivered + dropped + expired + returned + unread``, always.

    accepted: messages put on the account of the receiver.
    delivered: messages handed to a callback.
    dropped: accepted messages dropped for newer ones.
    expired: messages extracted after their deadline.
    returned: messages sent elsewhere, as the receiver deregistered or unsubscribed.
    unread, unread_bytes: messages that are unread now, and their size in bytes.
    refused: messages rejected, or dropped in favour of older ones; never accepted.
    """

    accepted: int = 0
    delivered: int = 0
    dropped: int = 0
    expired: int = 0
    returned: int = 0
    unread: int = 0
    unread_bytes: int = 0
    refused: int = 0


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


class TaskTotals(_Summable, frozen=True):
    """The sums of the counters of all tasks that a process has had (BUS-FLOW-9).

    Departed tasks and cancelled subscriptions stay in them. The tasks of the bus itself
    are in none.

    commands: of the commands to the tasks.
    notifications: of the notifications for their subscriptions.
    missed, failures, late, unasked, undelivered, no_subscriber: see `SubscriptionInfo`
      and `TaskInfo`.
    """

    commands: Counters = Counters()
    notifications: Counters = Counters()
    missed: int = 0
    failures: int = 0
    late: int = 0
    unasked: int = 0
    undelivered: int = 0
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
    totals: the sums of the counters of all its tasks, departed ones included.
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
    totals: TaskTotals
    parked: Mapping[str, int]
    peers: tuple[PeerInfo, ...]
    sent: SentCounters
    notifying: Counters | None
    machines: tuple[MachineInfo, ...]
    ignored_announcements: Mapping[str, int]
    shared_memory: SharedMemoryInfo | None
