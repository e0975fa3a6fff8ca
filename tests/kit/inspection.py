"""The visible state of a bus: its tasks, its counters, and its inspector's report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bus.features.watching.inspector import inspector_of
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus import (
        Bus,
        BusSnapshot,
        Counters,
        SentCounters,
        SharedMemoryInfo,
        TaskInfo,
        TaskTotals,
    )

__all__ = [
    "all_acknowledged",
    "counters_of",
    "fallen",
    "info",
    "is_there",
    "report",
    "sent_counters_of",
    "unbalanced",
    "unbalanced_memory",
]


def report(bus: Bus, process: str | None = None) -> Any:
    """Return the report of the inspector of a process; by default that of `bus`."""
    return bus.call(inspector_of(process or bus.process), timeout=LIMIT_S)


def info(bus: Bus, name: str) -> TaskInfo:
    """Return the visible state of one task."""
    [found] = [each for each in bus.tasks() if each.address.module == name]
    return found


def all_acknowledged(bus: Bus) -> None:
    """Wait until every message to another process is acknowledged.

    An acknowledgement may come later than the effect of its message. If a test kills
    the receiver in between, the message is rightly in doubt.
    """
    until(lambda: bus.inspect().sent.in_transit == 0, "all is acknowledged")


def is_there(bus: Bus, name: str) -> bool:
    """Return True if a task is registered by a name, private or not."""
    return any(each.address.module == name for each in bus.tasks())


def counters_of(snapshot: BusSnapshot) -> Iterator[tuple[str, Counters]]:
    """Yield all counters, each with the name of its owner."""
    for task in snapshot.tasks:
        yield task.address.module, task.commands
        for each in task.subscriptions:
            yield f"{task.address.module} of {each.specification}", each.notifications


def sent_counters_of(snapshot: BusSnapshot) -> Iterator[tuple[str, SentCounters]]:
    """Yield all counters of messages to other processes, each with its owner."""
    yield "all", snapshot.sent
    for peer in snapshot.peers:
        yield peer.process, peer.sent
        yield f"hearers in {peer.process}", peer.notifications
        for relay in peer.relays:
            yield f"{relay.address.module} in {peer.process}", relay.sent


def unbalanced(snapshot: BusSnapshot) -> list[str]:
    """Return the counters that do not balance (BUS-FLOW-7)."""
    sent = [
        f"{whose}: {counters}"
        for whose, counters in sent_counters_of(snapshot)
        if counters.posted
        != counters.taken
        + counters.dropped
        + counters.returned
        + counters.failed
        + counters.in_doubt
        + counters.in_transit
        or counters.in_transit < 0
    ]
    return sent + [
        f"{whose}: {counters}"
        for whose, counters in (
            *counters_of(snapshot),
            ("commands to all", snapshot.totals.commands),
            ("notifications for all", snapshot.totals.notifications),
        )
        if counters.accepted
        != counters.delivered
        + counters.dropped
        + counters.expired
        + counters.returned
        + counters.unread
        or min(counters.unread, counters.unread_bytes) < 0
    ]


def fallen(before: TaskTotals, after: TaskTotals) -> list[str]:
    """Return the sums that are lower in the later report (BUS-FLOW-9)."""
    found = []
    for earlier, later in (
        (before, after),
        (before.commands, after.commands),
        (before.notifications, after.notifications),
    ):
        for name in earlier.__struct_fields__:
            if name in {"commands", "notifications", "unread", "unread_bytes"}:
                continue
            if getattr(later, name) < getattr(earlier, name):
                found.append(f"{name}: {before} -> {after}")
    return found


def unbalanced_memory(memory: SharedMemoryInfo) -> list[str]:
    """Return the accounts of an arena that do not balance (MC-39)."""
    recipients, slabs = memory.recipients, memory.slabs
    leases = sum(each.leases for each in recipients)
    faults = {
        "the leases of slabs": sum(each.leases for each in slabs) == leases,
        "the bytes that recipients hold": sum(
            each.buffer_bytes * each.leases for each in slabs
        )
        == sum(each.held_bytes for each in recipients),
        "the size": sum(each.buffer_bytes * each.buffers for each in slabs)
        == memory.size
        <= memory.bytes_max,
        "the shared messages": memory.messages.shared
        == memory.messages.released + leases,
        "an age without a lease": all(
            (each.since_s is None) == (not each.leases) for each in recipients
        ),
        "the used buffers": all(
            (each.used <= each.buffers)
            and bool(each.used) == bool(each.loans + each.leases + each.abandoned)
            for each in slabs
        ),
        "the messages for a recipient": all(
            each.messages.shared == each.messages.released + each.leases
            for each in recipients
        ),
    }
    return [f"{what}: {memory}" for what, good in faults.items() if not good]
