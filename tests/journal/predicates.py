"""The predicates of `bus.journal.rules`, word for word, over whole lists of records.

Quadratic and without a thought for memory: so plain that a reader can hold it against
the text. It is what the small checker is compared with on traffic that breaks several
promises at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import Kind
from bus.journal.rules import RULES, Basis, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts, StoredJournal
    from tests.journal.histories import Key

__all__ = ["would_be_violations"]

_CHANNEL_KINDS: Final = range(16, 39)


@attrs.frozen
class Seen:
    """A record and its journal, names resolved."""

    journal: int
    record: Record
    task: str
    peer: str


def would_be_violations(journals: list[StoredJournal]) -> set[tuple[Key, Verdict]]:
    """What any checker has to find."""
    facts = {journal.id: journal.facts() for journal in journals}
    seen = [
        Seen(journal.id, r, journal.name(r.task), journal.name(r.peer))
        for journal in journals
        for r in journal.records()
    ]
    channel_records = [
        s for s in seen if s.record.kind in _CHANNEL_KINDS and s.record.flow >> 1
    ]
    found: set[tuple[Key, Verdict]] = {
        (("J1", None, None, None, each.journal), verdict)
        for each in facts.values()
        if not each.complete
        for verdict in [Verdict.FAIL if each.damaged else Verdict.UNKNOWN]
    }
    everything = [
        *_q1(seen, channel_records),
        *_q2_to_q4(channel_records),
        *_q5(channel_records, facts),
        *_q7(channel_records),
        *_q8(channel_records),
    ]
    for rule, flow, seq, n in everything:
        of = {s.journal for s in channel_records if s.record.flow >> 1 == flow >> 1}
        settled = all(facts[journal].conclusive for journal in of)
        fails = RULES[rule].basis is Basis.PRESENCE or settled
        verdict = Verdict.FAIL if fails else Verdict.UNKNOWN
        found.add(((rule, flow, seq, n, None), verdict))
    return found


Part = tuple[str, int, int | None, int | None]


def _q1(seen: list[Seen], channel_records: list[Seen]) -> Iterator[Part]:
    for channel in {s.record.flow >> 1 for s in channel_records}:
        mine = [s for s in channel_records if s.record.flow >> 1 == channel]
        accepts = [s for s in mine if s.record.kind == Kind.ACCEPT_END]
        connects = [s for s in mine if s.record.kind == Kind.CONNECT_END]
        if (
            len(accepts) != 1
            or len(connects) != 1
            or not _meet(seen, accepts[0], connects[0])
        ):
            yield "Q1", channel << 1, None, None


def _meet(seen: list[Seen], a: Seen, c: Seen) -> bool:
    if a.record.port != c.record.port:
        return False
    for name, called in ((a.task, c.peer), (a.peer, c.task)):
        if name and called and name != called:
            return False
    if a.journal != c.journal:
        return True
    for mine, begin, other in (
        (a, Kind.ACCEPT_BEGIN, c),
        (c, Kind.CONNECT_BEGIN, a),
    ):
        begins = [
            s.record.n
            for s in seen
            if s.journal == mine.journal
            and s.record.kind == begin
            and s.record.seq == mine.record.seq > 0
        ]
        if begins and min(begins) > other.record.n:
            return False
    return True


def _of(records: list[Seen], kind: Kind, flow: int, seq: int) -> list[Seen]:
    return [
        s
        for s in records
        if (s.record.kind, s.record.flow, s.record.seq) == (kind, flow, seq)
    ]


def _messages(records: list[Seen], kind: Kind) -> set[tuple[int, int]]:
    return {
        (s.record.flow, s.record.seq)
        for s in records
        if s.record.kind == kind and s.record.seq
    }


def _q2_to_q4(records: list[Seen]) -> Iterator[Part]:
    receives = [s for s in records if s.record.kind == Kind.RECEIVE and s.record.seq]
    for s in receives:
        r = s.record
        if any(
            o.journal == s.journal
            and o.record.flow == r.flow
            and o.record.n < r.n
            and o.record.seq > r.seq
            for o in receives
        ):
            yield "Q2", r.flow, r.seq, r.n
    for flow, seq in _messages(records, Kind.RECEIVE):
        if len(_of(records, Kind.RECEIVE, flow, seq)) > 1:
            yield "Q3", flow, seq, None
        if not _of(records, Kind.SEND, flow, seq):
            yield "Q4", flow, seq, None


def _q5(records: list[Seen], facts: dict[int, JournalFacts]) -> Iterator[Part]:
    for flow, seq in _messages(records, Kind.SEND):
        if _of(records, Kind.RECEIVE, flow, seq) or _of(records, Kind.DROP, flow, seq):
            continue
        overtaken = any(
            f == flow and s > seq for f, s in _messages(records, Kind.RECEIVE)
        )
        left = any(
            s.record.kind == Kind.CLOSE_LOCAL and s.record.flow == flow for s in records
        )
        of = {s.journal for s in records if s.record.flow >> 1 == flow >> 1}
        ended = all(facts[journal].closed for journal in of)
        if overtaken or left or not ended:
            yield "Q5", flow, seq, None


def _q7(records: list[Seen]) -> Iterator[Part]:
    def end(journal: int, flow: int) -> float:
        closes = [
            s.record.n
            for s in records
            if s.record.kind == Kind.CLOSE_LOCAL
            and (s.journal, s.record.flow) == (journal, flow)
        ]
        return min(closes, default=float("inf"))

    for s in records:
        r = s.record
        received = r.kind == Kind.RECEIVE and r.n > end(s.journal, r.flow)
        sent = r.kind == Kind.SEND and r.n > end(s.journal, r.flow ^ 1)
        accepted = r.kind == Kind.SEND and r.n > end(s.journal, r.flow)
        if received or sent or accepted:
            yield "Q7", r.flow, None, r.n


def _q8(records: list[Seen]) -> Iterator[Part]:
    both = _messages(records, Kind.SEND) & _messages(records, Kind.RECEIVE)
    for flow, seq in both:
        sends = _of(records, Kind.SEND, flow, seq)
        receives = _of(records, Kind.RECEIVE, flow, seq)
        if len({s.record.size for s in sends + receives}) > 1:
            yield "Q8", flow, seq, None
