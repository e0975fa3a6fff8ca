"""`inspect` and `report`: the state of a process, for its user and for other processes.

The state of the manager is read under the exchange's lock, and the counters of an
account under that of the inbox. No process that is never inspected loads this module.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from bus.features.subscriptions.api import Subscription
from bus.kernel.peer.run_queue import ENDS
from bus.kernel.wire import LinkKind
from bus.model.address import is_system
from bus.model.snapshot import (
    BusSnapshot,
    Counters,
    PeerInfo,
    RelayInfo,
    SentCounters,
    SubscriptionInfo,
    TaskInfo,
    TaskTotals,
    ThreadInfo,
)
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bus.api.receiver import Receiver
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.peer.run_queue import RelayCounters
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.snapshot import MachineInfo, SharedMemoryInfo
    from bus.process.comm import Comm
    from bus.process.exchange import Exchange
    from bus.process.thread_manager import ThreadManager

__all__ = ["brief", "inspect", "report"]


def inspect(
    exchange: Exchange,
    bus: str,
    managers: Iterable[ThreadManager],
    *,
    sums: bool = True,
) -> BusSnapshot:
    """Return a snapshot of a bus, without the tasks that the bus itself registers.

    managers: the managers of the threads of the bus.
    sums: False to leave the totals at 0; they take half of the time.
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
    ignored: Mapping[str, int] = {}
    if comm is not None:
        sent, peers = exchange.query(lambda: _of_others(comm.remote))
        masters = comm.remote.links.masters
        machines = exchange.query(lambda: masters.known(_sync.monotonic()))
        ignored = dict(masters.ignored_announcements())
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
        totals=exchange.totals() if sums else TaskTotals(),
        parked=parked,
        peers=peers,
        sent=sent,
        notifying=None if comm is None else _notifying(comm),
        machines=tuple(machines),
        ignored_announcements=ignored,
        shared_memory=None if comm is None else comm.bodies.info(),
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
    lock = host.inbox.lock
    return TaskInfo(
        address=entry.address,
        visibility=entry.visibility,
        thread=host.name,
        commands=receiver.account.counters(lock),
        subscriptions=tuple(
            SubscriptionInfo(
                each.specification,
                each._account.counters(lock),
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


# The report to other processes.


def report(
    exchange: Exchange,
    bus: str,
    managers: Sequence[ThreadManager],
    since: float,
    *,
    whole: bool = True,
) -> dict[str, Any]:
    """Return the state of a bus in this process, as plain values.

    Called in the thread of the inspector, whose processor time is part of the report:
    a program that asks again and again adjusts its interval to the cost.

    managers: as for `inspect`.
    since: when this process joined the bus.
    whole: False to leave out the sums, the names that a master knows, and relays that
      have no message, and have lost none: a process may have one for each task of the
      others.
    """
    seen = inspect(exchange, bus, managers, sums=whole)
    told = _head(exchange, bus, since) | {
        "threads": _threads(seen, managers),
        "parked": dict(seen.parked),
        "gave_up": exchange.query(lambda: exchange.manager.parked.given_up),
        "links": [],
        "relays": [],
        "shared_memory": _shared_memory(seen.shared_memory),
    }
    if whole:
        told["totals"] = to_builtins(seen.totals)
    if seen.notifying is not None:
        told["notifying"] = asdict(seen.notifying)
    comm = exchange.comm
    if comm is not None:
        told |= exchange.query(lambda: _about_others(comm.remote, whole))
    if told["role"] == "master":
        told["machines"] = [
            asdict(each) | {"state": each.state.value} for each in seen.machines
        ]
        told["ignored_announcements"] = dict(seen.ignored_announcements)
    return told


def brief(
    exchange: Exchange, bus: str, managers: Sequence[ThreadManager], since: float
) -> dict[str, Any]:
    """Return the part of a report whose cost does not grow with the tasks.

    The arguments are those of `report`. Tasks, relays and shared memory are left out.
    """
    now = _sync.monotonic()
    comm = exchange.comm
    told = _head(exchange, bus, since) | {
        "threads": [
            _thread(_thread_info(manager, (), now), manager) for manager in managers
        ],
        "links": [],
    }
    if comm is not None:
        remote = comm.remote
        told |= exchange.query(
            lambda: {"role": remote.topology.role.value, "links": _links(remote)}
        )
    return told


def _head(exchange: Exchange, bus: str, since: float) -> dict[str, Any]:
    """Return the identity of the process, and its times."""
    return {
        "bus": bus,
        "machine": exchange.manager.machine,
        "process": exchange.manager.process,
        "pid": os.getpid(),
        "role": "master",
        "since_s": _sync.monotonic() - since,
        "processor_s": _sync.process_time(),
        "inspector_s": _sync.thread_time(),
    }


def _threads(
    seen: BusSnapshot, managers: Sequence[ThreadManager]
) -> list[dict[str, Any]]:
    """Describe each thread, and the tasks in it.

    blocked: the number of senders that wait for room in the thread.
    """
    tasks = {each.address.module: each for each in seen.tasks}
    return [
        _thread(thread, manager)
        | {"tasks": [_task(tasks[name]) for name in thread.tasks if name in tasks]}
        for thread, manager in zip(seen.threads, managers, strict=True)
    ]


def _thread(thread: ThreadInfo, manager: ThreadManager) -> dict[str, Any]:
    return {
        "name": thread.name,
        "busy_s": thread.busy_s,
        "callbacks": thread.callbacks,
        "wakeups": thread.wakeups,
        "blocked": len(manager.inbox.room),
    }


def _task(task: TaskInfo) -> dict[str, Any]:
    return {
        "name": task.address.module,
        "visibility": task.visibility.value,
        "commands": asdict(task.commands),
        "subscriptions": [
            {
                "to": str(each.specification),
                "notifications": asdict(each.notifications),
                "gap": each.gap,
                "missed": each.missed,
            }
            for each in task.subscriptions
        ],
        "questions": task.questions,
        "failures": task.failures,
        "late": task.late,
        "unasked": task.unasked,
        "undelivered": task.undelivered,
        "no_subscriber": task.no_subscriber,
    }


def _shared_memory(memory: SharedMemoryInfo | None) -> dict[str, Any] | None:
    """Describe the shared memory; slabs of one size are described together.

    An arena may have thousands of slabs, but only a few sizes of buffers.
    """
    if memory is None:
        return None
    sizes: dict[int, dict[str, int]] = {}
    for slab in memory.slabs:
        size = sizes.setdefault(slab.buffer_bytes, dict.fromkeys(_SLAB_COUNTS, 0))
        size["slabs"] += 1
        for each in _SLAB_COUNTS[1:]:
            size[each] += getattr(slab, each)
    slabs = [{"buffer_bytes": size, **sizes[size]} for size in sorted(sizes)]
    told: dict[str, Any] = to_builtins(memory)
    return told | {"slabs": slabs}


_SLAB_COUNTS: Final = ("slabs", "buffers", "used", "loans", "leases", "abandoned")


def _about_others(remote: RemoteManager, whole: bool) -> dict[str, Any]:
    """Describe the other processes; on a master, also all processes and name owners.

    Call under the exchange's lock. whole: as for `report`.
    """
    topology = remote.topology
    peers = topology.peers.values()
    relays = [relay for peer in peers for relay in peer.all_relays()]
    told: dict[str, Any] = {
        "role": topology.role.value,
        "links": _links(remote),
        "relays": [
            _relay(relay)
            for peer in topology.peers.values()
            for relay in peer.relays.values()
            if whole or _is_busy(relay)
        ],
        "relay_counters": asdict(_sent(topology.counters, relays)),
    }
    if topology.is_master and whole:
        machine, me = topology.key
        slaves = [each.key[1] for each in topology.slaves()]
        told["processes"] = [me, *slaves]
        told["users"] = {
            name: owner[1]
            for name, owner in remote.name_registry.users.owners().items()
            if owner[0] == machine
        }
    return told


def _links(remote: RemoteManager) -> list[dict[str, Any]]:
    return [
        _link(remote, peer)
        for peer in remote.topology.peers.values()
        if peer.session.link is not None
    ]


def _link(remote: RemoteManager, peer: Peer) -> dict[str, Any]:
    link = remote.links.by_number.get(peer.session.link or 0)
    kind = LinkKind.DATA if link is None or link.kind is None else link.kind
    credentials = None if link is None else link.credentials
    return {
        "machine": peer.key[0],
        "process": peer.key[1],
        "kind": kind.value,
        "ready": peer.session.ready,
        "direct": credentials is None or credentials.is_direct,
        "counters": _ends(peer.counters),
        "unresponsive": peer.unresponsive,
    }


def _relay(relay: Relay) -> dict[str, Any]:
    address = relay.entry.address
    return {
        "name": address.module,
        "machine": address.machine,
        "process": relay.peer.key[1],
        "state": relay.state.value,
        "queue": relay.queued,
        "unacked": relay.under_way,
        "asked": len(relay.asked),
        "counters": _ends(relay.counters),
    }


def _is_busy(relay: Relay) -> bool:
    counters = relay.counters
    lost = counters.dropped or counters.failed or counters.in_doubt
    return bool(relay.queued or relay.under_way or lost)


def _ends(counters: RelayCounters) -> dict[str, int]:
    return {each: getattr(counters, each) for each in ("posted", *ENDS)}
