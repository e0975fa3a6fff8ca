"""`SharedMemoryInfo`: the shared memory of a process, as its leases use it (MC-39)."""

from __future__ import annotations

from msgspec import Struct

__all__ = [
    "ArenaRecipientInfo",
    "LentViewsInfo",
    "LongMessageCounters",
    "SharedMemoryInfo",
    "SlabInfo",
]


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
