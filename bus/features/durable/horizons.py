"""`Horizons`: how far each stream to this process may have been handed over (AMO-20).

A horizon is raised before the messages below it are handed over: `raise_over` returns
an action that stores the new one before any of these messages goes to a task. After a
restart the stored horizons tell which messages are refused. The epoch of a sender is
stored with its first message: until then, no message of that epoch has been handed
over, so that nothing needs to be refused.

This module only takes decisions; `bus.features.durable.store` has the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bus.kernel.streams.incoming_stream import NUMBERS
from bus.kernel.tasks.actions import FeatureAction

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Horizon", "Horizons", "Store"]


class Horizon(NamedTuple):
    """The horizon of one sender's newest epoch.

    number: the greatest number that may have been handed over; 0 for none.
    """

    epoch: int
    number: int

    def covers(self, other: Horizon) -> bool:
        """Return True if this horizon refuses all messages that the other refuses."""
        return self >= other


class Store(FeatureAction):
    """Store a horizon before the following actions hand over messages (AMO-20).

    sender: the process that sent these messages.
    """

    sender: str
    horizon: Horizon


class Horizons:
    """The horizons of all senders to one process.

    Args:
        stored: the horizons on stable storage, by sender.
        ahead: how far above a message that is handed over its horizon is put. With 0
            each message needs a horizon of its own.

    Attributes:
        failed: True once the storage has failed; then nothing is covered any more.

    Invariant: the horizon of a sender never falls, by epoch, then by number.
    """

    __slots__ = ("_ahead", "_by_sender", "failed")

    def __init__(self, stored: Mapping[str, Horizon], *, ahead: int) -> None:
        self._by_sender: Final[dict[str, Horizon]] = dict(stored)
        self._ahead: Final = ahead
        self.failed: bool = False

    def of(self, sender: str) -> Horizon | None:
        """Return the horizon of a sender; None if it sent no message so far."""
        return self._by_sender.get(sender)

    def covers(self, sender: str, epoch: int, number: int) -> bool:
        """Return True if a message may be handed over without another write."""
        known = self._by_sender.get(sender)
        return (
            known is not None
            and known.epoch == epoch
            and number <= known.number
            and not self.failed
        )

    def raise_over(self, sender: str, epoch: int, number: int) -> Store | None:
        """Raise the horizon over a message that is about to be handed over.

        Return the action that comes first; None if the present one covers the message.
        The epoch is the newest of its sender: streams refuse all older ones.
        """
        if self.covers(sender, epoch, number):
            return None
        # At most the last number: no message has a higher one (AMO-15).
        raised = Horizon(epoch, min(number + self._ahead, NUMBERS - 1))
        self._by_sender[sender] = raised
        return Store(sender, raised)

    def fail(self) -> None:
        """Cover nothing more: the storage takes no further horizon."""
        self.failed = True
