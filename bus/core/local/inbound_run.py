"""`InboundRun`: messages that arrived together from one task of another process.

They are commands, or notifications for one subscriber, and differ only in their
payloads. So they are kept as one object until they are read one by one, and shared work
is done once for all. An iterator knows how many were read. Advancing it is a single
fast step that no interrupt can split. Under the policy `drop-oldest`, where other
threads drop messages out of a run, `bus.threads.dropping_account` advances it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any, Final

from msgspec import Struct

from bus.core.local.routing_table import Entry
from bus.core.streams.receipts import Receipt
from bus.core.wire import Bodies, Lengths
from bus.message import Incoming, Kind

__all__ = ["InboundRun"]

_NONE: Final = Lengths(0, 0)


class InboundRun(Struct, eq=False):
    """Messages of one task for another, none of which wants an answer.

    payloads: the bytes of each message; lengths: their lengths.
    receipt: where the extraction of commands is reported; None for notifications.
    number: of the first message; the others have the numbers after it.
    deadline: when they are no longer worth delivering, on the monotonic clock in
      seconds.
    subscriptions: those that the notifications match; empty for commands.
    settled: how many messages the account has counted as read or dropped; written by
      the thread that hosts the task, or, under `drop-oldest`, by the holder of the lock
      of its inbox.
    reported: how many of the settled commands were reported to the remote process;
      written by the comm thread.
    """

    _to: Entry
    source: Entry
    payloads: Sequence[bytes]
    receipt: Receipt | None
    number: int
    deadline: float | None
    subscriptions: tuple[Any, ...] = ()
    settled: int = 0
    reported: int = 0
    _account: Any = None
    lengths: Lengths = _NONE
    _unread: Iterator[bytes] = iter(())

    def __post_init__(self) -> None:
        # Compute the lengths now, while the payloads are in this processor's cache: a
        # pass by another thread later takes several times as long.
        if self.lengths is _NONE:
            payloads = self.payloads
            known = payloads if isinstance(payloads, Bodies) else Bodies(payloads)
            self.lengths = known.lengths
        self._unread = iter(self.payloads)

    def __len__(self) -> int:
        return length_hint(self._unread)

    @property
    def kind(self) -> Kind:
        """The kind of the messages."""
        return Kind.NOTIFICATION if self.subscriptions else Kind.COMMAND

    @property
    def at(self) -> int:
        """The number of messages read or dropped; a snapshot, from any thread."""
        return self.lengths.count - length_hint(self._unread)

    @property
    def unsettled(self) -> int:
        """The number of read messages not yet counted by the account; likewise."""
        return self.at - self.settled

    @property
    def unsettled_bytes(self) -> int:
        """The total length of these messages, in bytes; likewise."""
        return self.lengths.part(self.settled, self.at).total

    @property
    def _dropped(self) -> bool:
        # Read by `bus.threads.mailbox.without_dropped`, as of a single message.
        return not self

    def read(self, reference: Any) -> Iterator[Incoming]:
        """Return an iterator of messages for a callback; each step reads one.

        No Python code runs between reading a message and returning it. So no interrupt
        finds a message that was read but not given to the callback.
        """
        usual = (
            repeat(self.kind),
            self._unread,
            repeat(reference),
            repeat(self.source),
            repeat(self._to),
        )
        if not self.subscriptions:
            return map(Incoming, *usual)
        # Up to the subscriptions, in the order of the fields.
        others = (self._account, 0, None, None, 0, 0, None, 0, self.subscriptions)
        return map(Incoming, *usual, *map(repeat, others))

    def take(self, count: int) -> InboundRun:
        """Remove and return the first messages as a run; none may have been read."""
        payloads, lengths = self.payloads, self.lengths
        if count < len(payloads):
            self.payloads = payloads[count:]
            self.lengths = lengths.part(count, lengths.count)
            payloads, lengths = payloads[:count], lengths.part(0, count)
        else:
            self.payloads, self.lengths = (), _NONE
        self._unread = iter(self.payloads)
        first = InboundRun(
            self._to,
            self.source,
            payloads,
            self.receipt,
            self.number,
            self.deadline,
            self.subscriptions,
            lengths=lengths,
        )
        self.number += count
        return first

    def rest(self) -> list[Incoming]:
        """Remove and return the unread messages, in order; the run ends before them."""
        start = self.at
        rest, read = self.payloads[start:], self.payloads[:start]
        lengths, nothing = self.lengths.part(0, start), iter(())
        # One statement without a call, which no interrupt can split. `_unread` is
        # assigned last: a thread that calls `at` meanwhile sees too few messages as
        # read.
        self.payloads, self.lengths, self._unread = read, lengths, nothing
        return [
            Incoming(
                self.kind,
                payload,
                None,
                self.source,
                self._to,
                self._account,
                len(payload),
                self.deadline,
                self.receipt,
                number,
                subscriptions=self.subscriptions,
            )
            for number, payload in enumerate(rest, self.number + start)
        ]
