"""`IncomingStreams`: the senders to this process, and the epoch of each.

There is one stream for each sender, in its newest epoch. When a stream ends, a
tombstone remains while any of its messages can be under way, so that none of them is
ever accepted again (AMO-16, AMO-21, AMO-22). Only an open stream accepts messages, and
only those addressed to this incarnation of the receiver (AMO-19). Like
`IncomingStream`, this only takes decisions; time is an argument.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from bus.kernel.streams.incoming_stream import Acknowledgement, IncomingStream

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Horizons", "IncomingStreams", "Opened", "Refusal"]

M = TypeVar("M")


class Refusal(enum.Enum):
    """The reason for which all messages of a run were refused."""

    NOT_OPEN = "not open"  # unknown sender, or a closed stream
    OLD_EPOCH = "old epoch"
    OLD_INCARNATION = "old incarnation"


class Horizons(Protocol):
    """A slot: the horizons of all senders to a durable process (AMO-20).

    failed: True once they cannot be stored; then no message is handed over.
    """

    failed: bool

    def of(self, sender: str) -> tuple[int, int] | None:
        """Return the epoch and the number of a sender's horizon, or None."""

    def covers(self, sender: str, epoch: int, number: int) -> bool:
        """Return True if a message may be handed over without another write."""

    def raise_over(self, sender: str, epoch: int, number: int) -> Any:
        """Raise the horizon over a message that is about to be handed over.

        Return the action that comes first, or None.
        """


class Opened(Struct, frozen=True):
    """The reply to a sender that opens a stream.

    refusal: the reason if the stream was not opened, or None. After a refusal the
      sender may retry with a greater epoch.
    epoch: the newest epoch of that sender known here.
    has: the messages already received in that epoch; the sender may send the others.
    resumed: True if this epoch is continued at its horizon, after a restart (AMO-20).
    """

    refusal: Refusal | None
    epoch: int
    has: Acknowledgement
    resumed: bool = False


class _Sender(Struct, Generic[M]):
    """The newest epoch of a sender, and its stream, open or not."""

    epoch: int
    stream: IncomingStream[M]
    open: bool = True


class IncomingStreams(Generic[M]):
    """All streams into one incarnation of one process.

    Args:
        incarnation: this start of the process; every frame names it (AMO-19).
        window: the most numbers a correct sender has outstanding (AMO-13).
        ranges_max: ranges of missing numbers kept for each stream (AMO-14).
        life_s: how long an ended stream is remembered (AMO-21).
        ended_max: the most ended streams remembered; the one that ended first is
          forgotten first.
        ordered: see `IncomingStream`.
        horizons: those of all senders; None if nothing outlives this process. A stream
            of which nothing else is remembered continues above its horizon (AMO-20).
    """

    __slots__ = (
        "_ended",
        "_ended_max",
        "_horizons",
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
        horizons: Horizons | None = None,
    ) -> None:
        self.incarnation: Final = incarnation
        self._window = window
        self._ranges_max = ranges_max
        self._life_s = life_s
        self._ended_max = ended_max
        self._ordered = ordered
        self._horizons = horizons
        self._senders: dict[str, _Sender[M]] = {}
        # The senders whose streams have ended, in order, with the time to forget each.
        self._ended: dict[str, float] = {}
        # Messages refused because of their sender, epoch or incarnation, by reason.
        self.refused: dict[Refusal, int] = dict.fromkeys(Refusal, 0)

    def open(self, sender: str, epoch: int, first: int = 1) -> Opened:
        """Begin a sender's epoch, or resume it where a lost link interrupted it.

        A greater epoch supersedes the known one: all messages still under way in the
        older epoch are refused from now on. A closed stream that is re-opened resumes
        above all its earlier numbers.
        """
        known = remembered = self._senders.get(sender)
        if known is None:
            known = self._at_horizon(sender)
        if known is not None and epoch < known.epoch:
            return Opened(Refusal.OLD_EPOCH, known.epoch, known.stream.acknowledgement)
        resumed = remembered is None and known is not None and epoch == known.epoch
        if known is None or epoch > known.epoch:
            known = _Sender(epoch, self._stream(first))
        self._senders[sender] = known
        known.open = True
        self._ended.pop(sender, None)
        return Opened(None, epoch, known.stream.acknowledgement, resumed)

    def newest_epoch(self, sender: str) -> int:
        """Return the newest epoch known of a sender; 0 for none."""
        known = self._senders.get(sender) or self._at_horizon(sender)
        return 0 if known is None else known.epoch

    def accept(
        self,
        sender: str,
        epoch: int,
        incarnation: int,
        first: int,
        messages: Sequence[M],
        floor: int,
    ) -> list[M] | Refusal:
        """Record a run of messages; return those to hand over, or the refusal of all.

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
        """Record a run to hand over as a whole; see `IncomingStream.accept_next`."""
        if self._refusal(sender, epoch, incarnation) is not None:
            return False
        return self._senders[sender].stream.accept_next(first, count, floor)

    def find_open(self, sender: str, epoch: int) -> IncomingStream[M] | None:
        """Return the stream of a sender's epoch; None unless it is open."""
        if self._refusal(sender, epoch, self.incarnation) is not None:
            return None
        return self._senders[sender].stream

    def acknowledgement(self, sender: str) -> Acknowledgement:
        """Return the acknowledgement for a sender; KeyError if it opened no stream."""
        return self._senders[sender].stream.acknowledgement

    def close(self, sender: str, epoch: int, floor: int, now: float) -> list[M]:
        """End a stream at its sender's final floor; return messages to hand over.

        Returns an empty list if that stream is not open. Its tombstone remains
        (AMO-21).
        """
        if self._refusal(sender, epoch, self.incarnation) is not None:
            return []
        handed = self._senders[sender].stream.give_up_below(floor)
        self.end(sender, now)
        return handed

    def end(self, sender: str, now: float) -> None:
        """End the stream of a dropped sender; its tombstone remains (AMO-21).

        Its missing numbers are given up, and the messages held behind them are dropped:
        no sender repeats the missing ones.
        """
        known = self._senders.get(sender)
        if known is None or sender in self._ended:
            return
        known.open = False
        known.stream = self._stream(known.stream.next)
        self._ended[sender] = now + self._life_s
        while len(self._ended) > self._ended_max:
            self._forget(next(iter(self._ended)))

    def expire(self, now: float) -> float | None:
        """Forget streams that ended too long ago to have messages under way.

        Returns when the first tombstone left is to be forgotten; None for never.
        """
        while self._ended:
            sender, until = next(iter(self._ended.items()))
            if until > now:
                return until
            self._forget(sender)
        return None

    def _forget(self, sender: str) -> None:
        del self._ended[sender], self._senders[sender]

    def _at_horizon(self, sender: str) -> _Sender[M] | None:
        """Return the state of a sender as its horizon has it; None without one."""
        horizon = None if self._horizons is None else self._horizons.of(sender)
        if horizon is None:
            return None
        epoch, number = horizon
        return _Sender(epoch, self._stream(number + 1))

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
