"""The small checker's state for the messages of one flow, and its findings.

A correct flow is a queue: each receive takes the oldest message that was sent and not
yet received. That is the fast path, which keeps only the size of a message once it is
received. A message that does not fit is kept as `Odd`: received again, never sent, of
another size, or read from another journal first. It is judged after all records were
read: Q3, Q4, Q5, Q6 and Q8 concern sets, not an order.
"""

from __future__ import annotations

import array
import itertools
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.violation import Finding, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Counts", "End", "Flow"]

# In the list of sizes: this message was not received cleanly, or not yet.
_NOT_CLEAN: Final = -1
# A message this far ahead of its turn is odd: a damaged number must not determine the
# length of the list.
_SKIP_MAX: Final = 4096

_Sent = tuple[int, int, int, int]  # size, journal, n, mono


@attrs.define
class Odd:
    """All SEND and RECEIVE records of a message that left the fast path."""

    sends: int = 0
    receives: int = 0
    first_send: Place | None = None
    receive_places: list[Place | None] = attrs.field(factory=list)
    smallest: int = 2**63
    largest: int = -1

    def send(self, size: int, place: Place | None) -> None:
        """Add a SEND."""
        self.sends += 1
        self.first_send = self.first_send or place
        self._measure(size)

    def receive(self, size: int, place: Place | None) -> None:
        """Add a RECEIVE; ``place`` is None if the fast path has dropped it."""
        self.receives += 1
        self.receive_places.append(place)
        self._measure(size)

    def _measure(self, size: int) -> None:
        self.smallest = min(self.smallest, size)
        self.largest = max(self.largest, size)


@attrs.define
class Counts:
    """The number of messages in a flow that the rules were checked against."""

    sent: int
    received: int
    both: int


@attrs.frozen
class End:
    """The end of a flow.

    receiver_left: the receiving side disconnected. ended: no more records follow in any
    journal of the channel. sender_died: the process of one of them died, other than the
    receiver's. boots: the boot of each journal of the channel, "" if unknown.
    """

    receiver_left: bool
    ended: bool
    sender_died: bool
    boots: Mapping[int, str] = attrs.field(factory=dict)

    def precedes(self, one: Place, other: Place) -> bool:
        """Return True if a record provably precedes another one."""
        if one.journal == other.journal:
            return one.n < other.n
        boot, its_boot = self.boots[one.journal], self.boots[other.journal]
        return bool(boot) and boot == its_boot and one.mono < other.mono


class Flow:
    """The messages of one direction of one channel, over all journals.

    number: the flow. top: the greatest `seq` received so far.
    """

    __slots__ = (
        "_clean",
        "_dropped",
        "_early",
        "_odd",
        "_sizes",
        "_waiting",
        "number",
        "top",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.top = 0
        # The size of message i + 1, if it was sent once and received once, in order.
        self._sizes = array.array("q")
        self._clean = 0
        self._waiting: dict[int, _Sent] = {}
        self._odd: dict[int, Odd] = {}
        self._dropped: set[int] = set()
        # Places of the SEND and the RECEIVE of messages on the fast path whose times
        # are in the wrong order; which of them share a clock is known at the end.
        self._early: dict[int, tuple[Place, Place]] = {}

    def send(self, seq: int, size: int, journal: int, n: int, mono: int) -> None:
        """Add a SEND record."""
        if seq in self._waiting or seq in self._odd or self._passed(seq):
            self._odd_one(seq).send(size, Place(journal, n, mono))
        else:
            self._waiting[seq] = size, journal, n, mono

    def receive(self, seq: int, size: int, journal: int, n: int, mono: int) -> None:
        """Add a RECEIVE record."""
        self.top = max(self.top, seq)
        sent = self._waiting.get(seq)
        skipped = seq - len(self._sizes) - 1
        if sent is None or sent[0] != size or not 0 <= skipped <= _SKIP_MAX:
            self._odd_one(seq).receive(size, Place(journal, n, mono))
            return
        if sent[3] > mono and sent[1] != journal:
            self._early[seq] = Place(*sent[1:]), Place(journal, n, mono)
        del self._waiting[seq]
        self._sizes.extend([_NOT_CLEAN] * skipped)
        self._sizes.append(size)
        self._clean += 1

    def drop(self, seq: int) -> None:
        """Add a DROP record of an accepted message."""
        self._dropped.add(seq)

    def counts(self) -> Counts:
        """Return the numbers of messages."""
        odd = self._odd.values()
        return Counts(
            sent=self._clean + len(self._waiting) + sum(o.sends > 0 for o in odd),
            received=self._clean + sum(o.receives > 0 for o in odd),
            both=self._clean + sum(o.sends > 0 and o.receives > 0 for o in odd),
        )

    def findings(self, end: End) -> Iterator[Finding]:
        """Yield the violations, after the last record."""
        # A sender that died may have completed one send without recording it.
        under_way = self._last_sent() + 1 if end.sender_died else None
        for seq, (_, journal, n, mono) in self._waiting.items():
            yield from self._lost(seq, Place(journal, n, mono), end)
        for seq, (sent, received) in self._early.items():
            if seq not in self._odd:
                yield from self._caused(seq, sent, received, end)
        for seq, odd in self._odd.items():
            if odd.sends == odd.receives == 1:
                first, (where,) = odd.first_send, odd.receive_places
                # Neither is None: the fast path has dropped no record of it.
                assert first is not None
                assert where is not None
                yield from self._caused(seq, first, where, end)
            if odd.receives > 1:
                yield self._repeated(seq, odd)
            if odd.receives and not odd.sends and seq != under_way:
                where = odd.receive_places[0]
                yield Finding("Q4", "foreign", self.number, seq, where)
            if odd.sends and not odd.receives:
                yield from self._lost(seq, odd.first_send, end)
            if odd.sends and odd.receives and odd.smallest != odd.largest:
                sizes = {"smallest": odd.smallest, "largest": odd.largest}
                where = odd.receive_places[-1]
                yield Finding("Q8", "size", self.number, seq, where, facts=sizes)

    def _caused(
        self, seq: int, sent: Place, received: Place, end: End
    ) -> Iterator[Finding]:
        """Check Q6 for a message with one SEND and one RECEIVE."""
        if end.precedes(received, sent):
            yield Finding("Q6", "early", self.number, seq, received, sent.n)

    def _repeated(self, seq: int, odd: Odd) -> Finding:
        """Return the violation of Q3 by a message that was received again."""
        first, second = odd.receive_places[:2]
        facts = {"count": odd.receives}
        other_n = first.n if first else None
        return Finding("Q3", "twice", self.number, seq, second, other_n, facts)

    def _last_sent(self) -> int:
        """Return the greatest number of a SEND, 0 if there is none."""
        passed = len(self._sizes)
        while passed and self._sizes[passed - 1] == _NOT_CLEAN:
            passed -= 1
        odd = (seq for seq, odd in self._odd.items() if odd.sends)
        return max(itertools.chain((passed,), self._waiting, odd))

    def _lost(self, seq: int, place: Place | None, end: End) -> Iterator[Finding]:
        """Check Q5 for a message that was sent and not received."""
        if seq in self._dropped:
            return
        facts: dict[str, object] = {}
        if self.top > seq:
            case, facts = "overtaken", {"other_seq": self.top}
        elif end.receiver_left and not end.sender_died:
            case = "unaccounted"
        elif not end.ended:
            case = "unexplained"
        else:
            return
        yield Finding("Q5", case, self.number, seq, place, facts=facts)

    def _passed(self, seq: int) -> bool:
        return seq <= len(self._sizes) and self._sizes[seq - 1] != _NOT_CLEAN

    def _odd_one(self, seq: int) -> Odd:
        """Return the message as an odd one, with its earlier records."""
        odd = self._odd.get(seq)
        if odd is not None:
            return odd
        odd = self._odd[seq] = Odd()
        waiting = self._waiting.pop(seq, None)
        if waiting is not None:
            size, journal, n, mono = waiting
            odd.send(size, Place(journal, n, mono))
        elif self._passed(seq):
            size, self._sizes[seq - 1] = self._sizes[seq - 1], _NOT_CLEAN
            self._clean -= 1
            odd.send(size, None)
            odd.receive(size, None)
        return odd
