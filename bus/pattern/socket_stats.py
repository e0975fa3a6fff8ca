"""`SocketStats`: the account of one socket."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from bus.pattern.drop_reason import DropReason
from bus.pattern.pipe import PeerStats

__all__ = ["SocketStats"]


@attrs.frozen(kw_only=True)
class SocketStats:
    """The account of one socket; totals since it was opened.

    node: its node id.
    sent: messages that the application has sent.
    delivered: messages that the application has taken.
    received_queued: those that have arrived and wait to be taken.
    dropped: by reason, of all connections together, also of closed ones.
    peers: the connections that are open now.
    """

    node: int
    sent: int
    delivered: int
    received_queued: int
    dropped: Mapping[DropReason, int]
    peers: tuple[PeerStats, ...]
