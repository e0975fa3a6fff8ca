"""`FastDelivery`: the delivery of a frame by the thread that reads it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections import deque

    from bus.core.local.actions import Action

__all__ = ["FastDelivery", "FastReceiver"]


class FastDelivery(enum.Enum):
    """The outcome of a frame that a thread of tasks receives on the fast path.

    REFUSED: the frame must be handled as part of a round of the comm thread.
    QUEUED: its action is queued for `Exchange.act`.
    DELIVERED: its message is in the mailbox of the addressee.
    """

    REFUSED = enum.auto()
    QUEUED = enum.auto()
    DELIVERED = enum.auto()


class FastReceiver(Protocol):
    """The fast path of one link: see `bus.core.remote.fast_path`."""

    def receive(
        self, data: bytes, now: float, todo: deque[Action], *, answers_only: bool
    ) -> bool:
        """Handle a frame and append its action to ``todo``; return False to refuse."""
