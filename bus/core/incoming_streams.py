"""`IncomingStreams`: who sends to this process, and in which epoch each is.

One stream for each sender, that of its newest epoch; of what is over a tombstone
remains, so that nothing of it is ever accepted again (AMO-16, AMO-21, AMO-22). Only an
opened stream accepts messages, and only what is addressed to this incarnation of the
receiver (AMO-19). This decides and does nothing else, as `IncomingStream`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from bus.core.incoming_stream import Acknowledgement, IncomingStream

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["IncomingStreams", "Opened", "Refusal"]

M = TypeVar("M")


class Refusal(enum.Enum):
    """Why messages were refused, wholly."""

    NOT_OPEN = "not open"  # no such sender, or a stream that is closed
    OLD_EPOCH = "old epoch"
    OLD_INCARNATION = "old incarnation"


@attrs.frozen
class Opened:
    """The answer to a sender who opens a stream.

    refusal: why it was not opened; the sender may try with a greater epoch.
    epoch: the newest epoch of that sender that is known here.
    has: what was received in that epoch already; the rest may be sent.
    """

    refusal: Refusal | None
    epoch: int
    has: Acknowledgement


@attrs.define
class _Sender(Generic[M]):
    """One sender's newest epoch, and its stream, open or not."""

    epoch: int
    stream: IncomingStream[M]
    open: bool = True


class IncomingStreams(Generic[M]):
    """All streams into one incarnation of one process.

    Args:
        incarnation: this start of the process; every frame names it (AMO-19).
        window: numbers a correct sender has outstanding at most (AMO-13).
        ranges_max: ranges of missing numbers kept of each stream (AMO-14).
        ordered: see `IncomingStream`.
    """

    __slots__ = (
        "_ordered",
        "_ranges_max",
        "_senders",
        "_window",
        "incarnation",
        "refused",
    )

    def __init__(
        self, incarnation: int, *, window: int, ranges_max: int, ordered: bool = True
    ) -> None:
        self.incarnation: Final = incarnation
        self._window = window
        self._ranges_max = ranges_max
        self._ordered = ordered
        self._senders: dict[str, _Sender[M]] = {}
        # Messages refused because of where they came from, by reason.
        self.refused: dict[Refusal, int] = dict.fromkeys(Refusal, 0)

    def open(self, sender: str, epoch: int, first: int = 1) -> Opened:
        """Let a sender's epoch begin, or go on where a lost link left it.

        A greater epoch supersedes what was known; what is still on its way in the older
        one is refused from now on, wholly. A closed stream that is opened again goes on
        above all it ever had.
        """
        known = self._senders.get(sender)
        if known is not None and epoch < known.epoch:
            return Opened(Refusal.OLD_EPOCH, known.epoch, known.stream.acknowledgement)
        if known is None or epoch > known.epoch:
            known = self._senders[sender] = _Sender(
                epoch,
                IncomingStream(
                    first,
                    window=self._window,
                    ranges_max=self._ranges_max,
                    ordered=self._ordered,
                ),
            )
        known.open = True
        return Opened(None, epoch, known.stream.acknowledgement)

    def accept(
        self,
        sender: str,
        epoch: int,
        incarnation: int,
        first: int,
        messages: Sequence[M],
        floor: int,
    ) -> list[M] | Refusal:
        """Record a run of messages; return what to hand over, or why all are refused.

        Raises:
            WireError: as `IncomingStream.accept`.
        """
        refusal = self._refusal(sender, epoch, incarnation)
        if refusal is not None:
            self.refused[refusal] += len(messages)
            return refusal
        return self._senders[sender].stream.accept(first, messages, floor)

    def acknowledgement(self, sender: str) -> Acknowledgement:
        """Return what a known sender is to be told. KeyError if it never opened one."""
        return self._senders[sender].stream.acknowledgement

    def close(self, sender: str, epoch: int, floor: int) -> list[M]:
        """End a stream at its sender's final floor; return what to hand over yet.

        Nothing if that stream is not open. Its tombstone remains (AMO-21).
        """
        if self._refusal(sender, epoch, self.incarnation) is not None:
            return []
        known = self._senders[sender]
        known.open = False
        return known.stream.give_up_below(floor)

    def _refusal(self, sender: str, epoch: int, incarnation: int) -> Refusal | None:
        if incarnation != self.incarnation:
            return Refusal.OLD_INCARNATION
        known = self._senders.get(sender)
        if known is None or epoch > known.epoch or not known.open:
            return Refusal.NOT_OPEN
        return None if epoch == known.epoch else Refusal.OLD_EPOCH
