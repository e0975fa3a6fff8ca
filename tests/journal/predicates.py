"""The predicates of `bus.journal.rules`, word for word, over whole lists of records.

They take quadratic time and unbounded memory, but are so plain that a reader can
compare them with the text. They are the reference for the small checker on traffic that
breaks several promises at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RecordKind
from bus.journal.reader import JournalFacts
from bus.journal.rules import RULES, Basis, Verdict
from bus.model.events import BusReason
from queuebroker.observer import SHARED_CHANNELS
from tests.journal.bus_predicates import Seen, of_the_bus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.reader import StoredJournal
    from tests.journal.histories import Key

__all__ = ["would_be_violations"]

_CHANNEL_KINDS: Final = range(16, 39)


def would_be_violations(journals: list[StoredJournal]) -> set[tuple[Key, Verdict]]:
    """Return the violations that any checker must find."""
    seen = [
        Seen(journal.id, r, journal.name(r.task), journal.name(r.peer))
        for journal in journals
        for r in journal.records()
    ]
    facts = {journal.id: journal.facts() for journal in journals}
    facts = {one: _with_death(each, seen, facts) for one, each in facts.items()}
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
        *_q1(seen, channel_records, facts),
        *_q2_q3(channel_records),
        *_q4(channel_records, facts),
        *_q5(channel_records, facts),
        *_q6(channel_records, facts),
        *_q7(channel_records),
        *_q8(channel_records),
    ]
    for rule, flow, seq, n in everything:
        of = {s.journal for s in channel_records if s.record.flow >> 1 == flow >> 1}
        settled = all(facts[journal].conclusive for journal in of) and (
            flow >> 1 < SHARED_CHANNELS or _acting(flow >> 1, channel_records) == {0, 1}
        )
        fails = RULES[rule].basis is Basis.PRESENCE or settled
        verdict = Verdict.FAIL if fails else Verdict.UNKNOWN
        found.add(((rule, flow, seq, n, None), verdict))
    return found | of_the_bus(seen, facts)


Part = tuple[str, int, int | None, int | None]
Facts = dict[int, JournalFacts]


def _with_death(one: JournalFacts, seen: list[Seen], facts: Facts) -> JournalFacts:
    """Return its facts, with `died`."""
    own = [s.record.mono for s in seen if s.journal == one.journal]
    died = [
        s
        for s in seen
        if s.record.kind == RecordKind.LINK_DOWN
        and s.record.reason == BusReason.DIED
        and s.journal != one.journal
        and facts[s.journal].boot == one.boot
        and (s.record.mid, s.peer) == (one.pid, one.machine)
        and own
        and s.record.mono >= max(own)
    ]
    return attrs.evolve(one, died=bool(died) and not one.closed)


def _acting(channel: int, records: list[Seen]) -> set[int]:
    """Return the sides that acted."""
    return {
        r.flow & 1 ^ (r.kind == RecordKind.SEND)
        for r in (s.record for s in records if s.record.flow >> 1 == channel)
        if (r.kind in (RecordKind.SEND, RecordKind.RECEIVE) and r.seq)
        or r.kind == RecordKind.CLOSE_LOCAL
    }


def _sender_died(flow: int, records: list[Seen], facts: Facts) -> bool:
    of = {s.journal for s in records if s.record.flow >> 1 == flow >> 1}
    receivers = {
        s.journal
        for s in records
        if s.record.flow == flow
        and (
            (s.record.kind == RecordKind.RECEIVE and s.record.seq)
            or s.record.kind == RecordKind.CLOSE_LOCAL
        )
    }
    return any(facts[journal].died for journal in of - receivers)


def _q1(seen: list[Seen], channel_records: list[Seen], facts: Facts) -> Iterator[Part]:
    for channel in {s.record.flow >> 1 for s in channel_records}:
        mine = [s for s in channel_records if s.record.flow >> 1 == channel]
        accepts = [s for s in mine if s.record.kind == RecordKind.ACCEPT_END]
        connects = [s for s in mine if s.record.kind == RecordKind.CONNECT_END]
        died = any(facts[s.journal].died for s in mine)
        if died and len(accepts) + len(connects) == 1:
            continue
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
        (a, RecordKind.ACCEPT_BEGIN, c),
        (c, RecordKind.CONNECT_BEGIN, a),
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


def _of(records: list[Seen], kind: RecordKind, flow: int, seq: int) -> list[Seen]:
    return [
        s
        for s in records
        if (s.record.kind, s.record.flow, s.record.seq) == (kind, flow, seq)
    ]


def _messages(records: list[Seen], kind: RecordKind) -> set[tuple[int, int]]:
    return {
        (s.record.flow, s.record.seq)
        for s in records
        if s.record.kind == kind and s.record.seq
    }


def _q2_q3(records: list[Seen]) -> Iterator[Part]:
    receives = [
        s for s in records if s.record.kind == RecordKind.RECEIVE and s.record.seq
    ]
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
    for flow, seq in _messages(records, RecordKind.RECEIVE):
        if len(_of(records, RecordKind.RECEIVE, flow, seq)) > 1:
            yield "Q3", flow, seq, None


def _q4(records: list[Seen], facts: Facts) -> Iterator[Part]:
    for flow, seq in _messages(records, RecordKind.RECEIVE):
        if _of(records, RecordKind.SEND, flow, seq):
            continue
        sends = [s for f, s in _messages(records, RecordKind.SEND) if f == flow]
        following = seq == max(sends, default=0) + 1
        if not (following and _sender_died(flow, records, facts)):
            yield "Q4", flow, seq, None


def _q5(records: list[Seen], facts: Facts) -> Iterator[Part]:
    for flow, seq in _messages(records, RecordKind.SEND):
        if _of(records, RecordKind.RECEIVE, flow, seq) or _of(
            records, RecordKind.DROP, flow, seq
        ):
            continue
        overtaken = any(
            f == flow and s > seq for f, s in _messages(records, RecordKind.RECEIVE)
        )
        left = any(
            s.record.kind == RecordKind.CLOSE_LOCAL and s.record.flow == flow
            for s in records
        )
        of = {s.journal for s in records if s.record.flow >> 1 == flow >> 1}
        ended = all(facts[journal].ended for journal in of)
        unaccounted = left and not _sender_died(flow, records, facts)
        if overtaken or unaccounted or not ended:
            yield "Q5", flow, seq, None


def _q6(records: list[Seen], facts: Facts) -> Iterator[Part]:
    both = _messages(records, RecordKind.SEND) & _messages(records, RecordKind.RECEIVE)
    for flow, seq in both:
        sends = _of(records, RecordKind.SEND, flow, seq)
        receives = _of(records, RecordKind.RECEIVE, flow, seq)
        if len(sends) == len(receives) == 1 and before(receives[0], sends[0], facts):
            yield "Q6", flow, seq, None


def before(one: Seen, other: Seen, facts: Facts) -> bool:
    """Whether a record provably precedes another one."""
    if one.journal == other.journal:
        return one.record.n < other.record.n
    boots = facts[one.journal].boot, facts[other.journal].boot
    return boots[0] == boots[1] != "" and one.record.mono < other.record.mono


def _q7(records: list[Seen]) -> Iterator[Part]:
    def end(journal: int, flow: int) -> float:
        closes = [
            s.record.n
            for s in records
            if s.record.kind == RecordKind.CLOSE_LOCAL
            and (s.journal, s.record.flow) == (journal, flow)
        ]
        return min(closes, default=float("inf"))

    for s in records:
        r = s.record
        received = r.kind == RecordKind.RECEIVE and r.n > end(s.journal, r.flow)
        sent = r.kind == RecordKind.SEND and r.n > end(s.journal, r.flow ^ 1)
        accepted = r.kind == RecordKind.SEND and r.n > end(s.journal, r.flow)
        accepted = accepted and r.flow < 2**62
        if received or sent or accepted:
            yield "Q7", r.flow, None, r.n


def _q8(records: list[Seen]) -> Iterator[Part]:
    both = _messages(records, RecordKind.SEND) & _messages(records, RecordKind.RECEIVE)
    for flow, seq in both:
        sends = _of(records, RecordKind.SEND, flow, seq)
        receives = _of(records, RecordKind.RECEIVE, flow, seq)
        if len({s.record.size for s in sends + receives}) > 1:
            yield "Q8", flow, seq, None
