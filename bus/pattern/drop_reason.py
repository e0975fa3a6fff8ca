"""`DropReason`: why a message did not reach a peer, or not the application."""

from __future__ import annotations

import enum

__all__ = ["DropReason"]


class DropReason(enum.Enum):
    """The reasons for which a bus socket drops messages; each is counted apart."""

    # In C: that of `Enum` is a Python function, and within it a signal handler may run.
    # Its drops would be lost between the two steps of ``counts[reason] += count``.
    __hash__ = object.__hash__

    NO_PEER = "no peer"  # sent without a connection (BP-5)
    SEND_QUEUE = "send queue full"  # the peer does not read fast enough (BP-4)
    RECEIVE_QUEUE = "receive queue full"  # the application does not (BP-6)
    SYSTEM = "system buffer full"  # a datagram of a group, before this process read it
    DUPLICATE = "duplicate"  # came a second time, by another path (BP-16)
    REPEAT = "repeat"  # equals a recent message of an SP peer (BP-16, opt-in)
    LOST = "connection lost"  # still queued at that time
    CLOSED = "socket closed"  # still queued at that time
    TOO_LONG = "too long"  # above the limit of a group, or of native frames
    HOPS = "too many hops"  # of a PAIR1 message
