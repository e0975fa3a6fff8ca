"""`IncomingStreams`: who sends to this process, and in which epoch each is.

One stream for each sender, that of its newest epoch; of what is over a tombstone
remains as long as anything of it can be under way, so that nothing of it is ever
accepted again (AMO-16, AMO-21, AMO-22). Only an opened stream accepts messages, and
only what is addressed to this incarnation of the receiver (AMO-19). This decides and
does nothing else, as `IncomingStream`; time comes in as an argument.
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
        life_s: how long it is remembered that a stream has ended (AMO-21).
        ended_max: of how many; beyond that what ended first is forgotten.
        ordered: see `IncomingStream`.
    """

    __slots__ = (
        "_ended",
        "_ended_max",
        "_life_s",
        "_ordered",
        "_ranges_max",
        "_senders",
        "_window",
        "incarnation",
        "refused",
    )

    def __init__(
        self,
        incarnation: int,
        *,
        window: int,
        ranges_max: int,
        life_s: float,
        ended_max: int,
        ordered: bool = True,
    ) -> None:
        self.incarnation: Final = incarnation
        self._window = window
        self._ranges_max = ranges_max
        self._life_s = life_s
        self._ended_max = ended_max
        self._ordered = ordered
        self._senders: dict[str, _Sender[M]] = {}
        # Of these, whose stream has ended, in order, and how long that is remembered.
        self._ended: dict[str, float] = {}
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
            known = self._senders[sender] = _Sender(epoch, self._stream(first))
        known.open = True
        self._ended.pop(sender, None)
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

    def accept_next(
        self,
        sender: str,
        epoch: int,
        incarnation: int,
        first: int,
        count: int,
        floor: int,
    ) -> bool:
        """Record a run to be handed over whole; see `IncomingStream.accept_next`."""
        if self._refusal(sender, epoch, incarnation) is not None:
            return False
        return self._senders[sender].stream.accept_next(first, count, floor)

    def opened(self, sender: str, epoch: int) -> IncomingStream[M] | None:
        """Return the stream of a sender's epoch; None unless it is open."""
        if self._refusal(sender, epoch, self.incarnation) is not None:
            return None
        return self._senders[sender].stream

    def acknowledgement(self, sender: str) -> Acknowledgement:
        """Return what a known sender is to be told. KeyError if it never opened one."""
        return self._senders[sender].stream.acknowledgement

    def close(self, sender: str, epoch: int, floor: int, now: float) -> list[M]:
        """End a stream at its sender's final floor; return what to hand over yet.

        Nothing if that stream is not open. Its tombstone remains (AMO-21).
        """
        if self._refusal(sender, epoch, self.incarnation) is not None:
            return []
        handed = self._senders[sender].stream.give_up_below(floor)
        self.end(sender, now)
        return handed

    def end(self, sender: str, now: float) -> None:
        """End the stream of a sender that was given up; its tombstone remains (AMO-21).

        What is missing of it is given up, and dropped what waited for that: nobody
        sends it again.
        """
        known = self._senders.get(sender)
        if known is None or sender in self._ended:
            return
        known.open = False
        known.stream = self._stream(known.stream.next)
        self._ended[sender] = now + self._life_s
        while len(self._ended) > self._ended_max:
            self._forget(next(iter(self._ended)))

    def next_deadline(self) -> float | None:
        """Return when the first tombstone is to be forgotten; None for never."""
        return next(iter(self._ended.values()), None)

    def expire(self, now: float) -> None:
        """Forget the streams that ended long enough ago for all that was under way."""
        while self._ended:
            sender, until = next(iter(self._ended.items()))
            if until > now:
                return
            self._forget(sender)

    def _forget(self, sender: str) -> None:
        del self._ended[sender], self._senders[sender]

    def _stream(self, first: int) -> IncomingStream[M]:
        return IncomingStream(
            first,
            window=self._window,
            ranges_max=self._ranges_max,
            ordered=self._ordered,
        )

    def _refusal(self, sender: str, epoch: int, incarnation: int) -> Refusal | None:
        if incarnation != self.incarnation:
            return Refusal.OLD_INCARNATION
        known = self._senders.get(sender)
        if known is None or epoch > known.epoch or not known.open:
            return Refusal.NOT_OPEN
        return None if epoch == known.epoch else Refusal.OLD_EPOCH
