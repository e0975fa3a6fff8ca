"""Bounds and times of a bus that no operator chooses; `BusConfig` has the settings.

Each of them is read by several modules, or replaced by a test; all others stand beside
the code that reads them. Code reads ``constants.NAME`` at each use, and imports no name
from here, so that a test replaces a constant in one place.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AUTH_TIMEOUT_S",
    "BACKLOG_BYTES",
    "BACKLOG_FRAMES",
    "ENDED_STREAMS_MAX",
    "ENDED_STREAM_S",
    "LINK_FRAMES",
    "LINK_LINGER_S",
    "PARKED_PER_NAME",
    "PARKED_PER_PROCESS",
    "PUBLIC_TASKS_PER_PROCESS",
    "RELAYS_PER_PROCESS",
    "RELINK_TIMEOUT_S",
    "SEARCHES_IN_ALL",
    "SEARCHES_PER_PROCESS",
    "STREAM_WINDOW",
    "STUCK_CALLBACK_S",
    "SUBSCRIPTIONS_IN_ALL",
    "SUBSCRIPTIONS_PER_PROCESS",
    "UNAUTHENTICATED_BYTES",
    "UNAUTHENTICATED_LINKS",
]

# Messages that wait for one name, and for all names (BUS-FLOW-1): a wrong name must not
# take the room of all others.
PARKED_PER_NAME: Final = 256
PARKED_PER_PROCESS: Final = 4096

# Items that a process keeps for one other process, and for all others (BUS-FLOW-1).
# They bound the memory that a broken or hostile peer can take.
SEARCHES_PER_PROCESS: Final = 4096
SEARCHES_IN_ALL: Final = 16_384
PUBLIC_TASKS_PER_PROCESS: Final = 100_000
RELAYS_PER_PROCESS: Final = 100_000
SUBSCRIPTIONS_PER_PROCESS: Final = 10_000
SUBSCRIPTIONS_IN_ALL: Final = 65_536

# Frames that a link holds in each direction (BUS-CHAN-8); further ones wait in the
# process.
LINK_FRAMES: Final = 256

# Further frames for a process, and their length, before its link is aborted
# (BUS-CHAN-8). They are more than can wait for a process that reads: each of its tasks,
# up to `PUBLIC_TASKS_PER_PROCESS`, takes four frames from its export to its end, at
# worst all at once; messages take at most one frame per number of the stream. The
# length is that of the windows of 128 tasks, full of unread messages.
BACKLOG_FRAMES: Final = 2**19
BACKLOG_BYTES: Final = 2**30

# Time without a link after which a process is declared lost (BUS-MOVE-8). A process
# that lives dials again at once.
RELINK_TIMEOUT_S: Final = 0.5

# Time for which an unused relay or link is kept (BUS-DEREG-13): the next message in
# this time needs no search and no handshake.
LINK_LINGER_S: Final = 1.0

# Bounds on peers that have sent no greeting (BUS-SEC-9): the time for it, the number of
# their links, and the bytes that are read from each. A peer in order greets at once.
AUTH_TIMEOUT_S: Final = 5.0
UNAUTHENTICATED_LINKS: Final = 64
UNAUTHENTICATED_BYTES: Final = 4096

# Distance of a sender's numbers from its floor (AMO-13). It bounds the numbers that may
# be missing at the receiver. The default window of one task does not fill it.
STREAM_WINDOW: Final = 16_384

# How long an ended stream is remembered, and how many of them (AMO-21): its messages
# may still be on their way.
ENDED_STREAM_S: Final = 3600.0
ENDED_STREAMS_MAX: Final = 4096

# Time for which a callback may delay the end of its thread before it is logged
# (BUS-DEREG-12).
STUCK_CALLBACK_S: Final = 5.0
