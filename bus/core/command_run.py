"""`CommandRun`: commands that came together from one task of another process.

They differ in nothing but their payload. So until they are read one by one they are
kept as one, and nothing is done for each that can be done for all.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from bus.message import Incoming, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.receipts import Receipt
    from bus.core.routing_table import Entry

__all__ = ["CommandRun"]

_COMMAND: Final = Kind.COMMAND
_UNKNOWN: Final = array("I")


class CommandRun(Struct, eq=False):
    """Commands of one task for another one, none of which wants an answer.

    payloads: of each, bytes; lengths: how many.
    number: that of the first; the others follow.
    deadline: not worth delivering after that, on the monotonic clock in seconds.
    at: how many were read; written by the thread that hosts the task.
    told: of how many of these the far process knows; written by the comm thread.
    """

    _to: Entry
    source: Entry
    payloads: Sequence[bytes]
    receipt: Receipt
    number: int
    deadline: float | None
    at: int = 0
    told: int = 0
    _account: Any = None
    lengths: array[int] = _UNKNOWN

    def __post_init__(self) -> None:
        # Once, while they are in the cache of this processor: for another thread to
        # look at each of them later takes several times as long.
        if self.lengths is _UNKNOWN:
            self.lengths = array("I", map(len, self.payloads))

    def __len__(self) -> int:
        return len(self.payloads) - self.at

    def take(self, count: int) -> CommandRun:
        """Take out the first of a run of which nothing was read, as a run."""
        payloads, lengths = self.payloads, self.lengths
        if count < len(payloads):
            self.payloads, self.lengths = payloads[count:], lengths[count:]
            payloads, lengths = payloads[:count], lengths[:count]
        else:
            self.payloads, self.lengths = (), array("I")
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
        rest, self.payloads = self.payloads[start:], self.payloads[:start]
        self.lengths = self.lengths[:start]
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
