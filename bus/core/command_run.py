"""`CommandRun`: commands that came together from one task of another process.

They differ in nothing but their payload. So until they are read one by one they are
kept as one, and nothing is done for each that can be done for all. How many were read
is known by an iterator that is nowhere else: to advance it is one step, which nothing
can part, and takes no time.
"""

from __future__ import annotations

from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.core.wire import Bodies, Lengths
from bus.message import Incoming, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bus.core.receipts import Receipt
    from bus.core.routing_table import Entry

__all__ = ["CommandRun"]

_COMMAND: Final = Kind.COMMAND
_NONE: Final = Lengths(0, 0)


class CommandRun(Struct, eq=False):
    """Commands of one task for another one, none of which wants an answer.

    payloads: of each, bytes; lengths: how many.
    number: that of the first; the others follow.
    deadline: not worth delivering after that, on the monotonic clock in seconds.
    settled: how many of those that were read its account has in its books; written by
      the thread that hosts the task.
    told: of how many of these the far process knows; written by the comm thread.
    """

    _to: Entry
    source: Entry
    payloads: Sequence[bytes]
    receipt: Receipt
    number: int
    deadline: float | None
    settled: int = 0
    told: int = 0
    _account: Any = None
    lengths: Lengths = _NONE
    _unread: Iterator[bytes] = iter(())

    def __post_init__(self) -> None:
        # Once, while they are in the cache of this processor: for another thread to
        # look at each of them later takes several times as long.
        if self.lengths is _NONE:
            payloads = self.payloads
            known = payloads if isinstance(payloads, Bodies) else Bodies(payloads)
            self.lengths = known.lengths
        self._unread = iter(self.payloads)

    def __len__(self) -> int:
        return length_hint(self._unread)

    @property
    def at(self) -> int:
        """How many were read; a look, from any thread."""
        return len(self.payloads) - length_hint(self._unread)

    @property
    def unsettled(self) -> int:
        """How many were read that its account does not know of; likewise."""
        return self.at - self.settled

    @property
    def unsettled_bytes(self) -> int:
        """How long these are together; likewise."""
        return self.lengths.part(self.settled, self.at).total

    def read(self, reference: Any) -> Iterator[Incoming]:
        """Return commands as their callback gets them, each read when it is taken.

        Nothing of Python runs between the two: no interrupt finds one that was read and
        given to nobody.
        """
        return map(
            Incoming,
            repeat(_COMMAND),
            self._unread,
            repeat(reference),
            repeat(self.source),
            repeat(self._to),
        )

    def take(self, count: int) -> CommandRun:
        """Take out the first of a run of which nothing was read, as a run."""
        payloads, lengths = self.payloads, self.lengths
        if count < len(payloads):
            self.payloads = payloads[count:]
            self.lengths = lengths.part(count, lengths.count)
            payloads, lengths = payloads[:count], lengths.part(0, count)
        else:
            self.payloads, self.lengths = (), _NONE
        self._unread = iter(self.payloads)
        first = CommandRun(
            self._to,
            self.source,
            payloads,
            self.receipt,
            self.number,
            self.deadline,
            lengths=lengths,
        )
        self.number += count
        return first

    def rest(self) -> list[Incoming]:
        """Take out all commands that were not read, in order; it ends before them."""
        start = self.at
        rest, read = self.payloads[start:], self.payloads[:start]
        lengths, nothing = self.lengths.part(0, start), iter(())
        # Nothing is called between these, so no interrupt parts them. The last one is
        # last: who looks how many were read just now sees too few.
        self.payloads, self.lengths, self._unread = read, lengths, nothing
        return [
            Incoming(
                _COMMAND,
                payload,
                None,
                self.source,
                self._to,
                self._account,
                len(payload),
                self.deadline,
                self.receipt,
                number,
            )
            for number, payload in enumerate(rest, self.number + start)
        ]
