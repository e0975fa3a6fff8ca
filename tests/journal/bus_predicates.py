"""The predicates of B1 to B6, word for word, over whole lists of records.

The part of `tests.journal.predicates` that covers the bus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.clocks import DRIFT_NS, WINDOW_NS
from bus.journal.format import Flag, RecordKind
from bus.journal.rules import RULES, SORTS, Basis, Verdict
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts
    from tests.journal.histories import Key

__all__ = ["Seen", "of_the_bus"]

_ACCEPTED: Final = (RecordKind.COMMAND, RecordKind.RESPOND, RecordKind.NOTIFY)
_EXPLAINED: Final = (RecordKind.DISCARD, RecordKind.UNDELIVERED, RecordKind.IN_DOUBT)
_STEPS: Final = (
    *_ACCEPTED,
    *_EXPLAINED,
    *(
        RecordKind.RELAY_OUT,
        RecordKind.RELAY_IN,
        RecordKind.EXTRACT,
        RecordKind.DELIVER,
    ),
)


@attrs.frozen
class Seen:
    """A record and its journal, names resolved."""

    journal: int
    record: Record
    task: str
    peer: str

    @property
    def line(self) -> tuple[int, int, int]:
        """(origin, sort, destination)."""
        r = self.record
        return r.origin, r.flags & (Flag.NOTIFICATION | Flag.ANSWER), r.flow

    @property
    def is_answer(self) -> bool:
        return bool(self.record.flags & Flag.ANSWER)


Facts = dict[int, "JournalFacts"]
# rule, case, one of the message's records, n
Part = tuple[str, str, Seen, int | None]


def of_the_bus(seen: list[Seen], facts: Facts) -> set[tuple[Key, Verdict]]:
    """Return the violations that any checker must find."""
    homes: dict[int, set[int]] = {}
    for s in seen:
        if s.record.kind == RecordKind.REGISTER:
            homes.setdefault(s.record.flow, set()).add(s.journal)
    steps = [s for s in seen if s.record.kind in _STEPS]
    found: set[tuple[Key, Verdict]] = set()
    left = {s.record.flow for s in seen if s.record.kind == RecordKind.DEREGISTER}
    of_bus = [facts[s.journal] for s in seen if 64 <= s.record.kind <= 88]
    ended = all(each.ended for each in of_bus)
    messages = {(s.line, s.record.mid) for s in steps}
    crossings = [
        crossing
        for message in messages
        for crossing in _crossings(
            [s for s in steps if (s.line, s.record.mid) == message]
        )
    ]
    early = [each for each in crossings if _early(each, crossings, facts)]
    for line, mid in messages:
        mine = [s for s in steps if (s.line, s.record.mid) == (line, mid)]
        theirs = [s for s in steps if s.line == line]
        where = {s.journal for s in mine}
        where |= homes.get(line[0], set()) | homes.get(line[2], set())
        struck = any(facts[journal].died for journal in where)
        known = line[0] in homes and line[2] in homes
        settled = known and all(each.conclusive for each in of_bus)
        for rule, case, s, n in (
            *_b1(mine),
            *_b2(mine, theirs, early, struck, ended),
            *_b3(mine, theirs, struck, ended, left),
            *_b4(mine, seen),
            *_b5(mine, theirs),
            *_b6(mine, seen, facts),
        ):
            fails = settled or RULES[rule].basis_of(case) is Basis.PRESENCE
            r = s.record
            key = rule, r.flow, r.mid, n, None, r.origin, SORTS[line[1]]
            found.add((key, Verdict.FAIL if fails else Verdict.UNKNOWN))
    return found


def _only(kind: RecordKind, of: list[Seen]) -> list[Seen]:
    return [s for s in of if s.record.kind == kind]


def _b1(mine: list[Seen]) -> Iterator[Part]:
    delivers = _only(RecordKind.DELIVER, mine)
    if len(delivers) > 1:
        yield "B1", "twice", delivers[0], None


def _twice(crossings: list[Seen]) -> bool:
    return any(
        a is not b and (a.journal == b.journal or a.record.hop == b.record.hop)
        for a in crossings
        for b in crossings
    )


def _later(kind: RecordKind, one: Seen, theirs: list[Seen]) -> bool:
    return not one.is_answer and any(
        s.record.mid > one.record.mid for s in _only(kind, theirs)
    )


def _b2(
    mine: list[Seen],
    theirs: list[Seen],
    early: list[Crossing],
    struck: bool,
    ended: bool,
) -> Iterator[Part]:
    out, into = _only(RecordKind.RELAY_OUT, mine), _only(RecordKind.RELAY_IN, mine)
    hops_out, hops_into = ({s.record.hop for s in each} for each in (out, into))
    if _twice(out) or _twice(into):
        yield "B2", "again", mine[0], None
    elif any(
        i.journal == o.journal
        and i.record.n < o.record.n
        and o.record.hop <= i.record.hop
        for i in into
        for o in out
    ):
        yield "B2", "back", mine[0], None
    elif any(each in early for each in _crossings(mine)):
        yield "B2", "early", mine[0], None
    elif struck:
        return
    elif hops_into - hops_out:
        yield "B2", "foreign", mine[0], None
    elif not hops_out - hops_into or any(s.record.kind in _EXPLAINED for s in mine):
        return
    elif _later(RecordKind.RELAY_IN, mine[0], theirs):
        yield "B2", "overtaken", mine[0], None
    elif not ended:
        yield "B2", "unexplained", mine[0], None


Crossing = tuple[Seen, Seen]


def _crossings(mine: list[Seen]) -> list[Crossing]:
    out, into = _only(RecordKind.RELAY_OUT, mine), _only(RecordKind.RELAY_IN, mine)
    of_hops = [
        [[s for s in each if s.record.hop == hop] for each in (out, into)]
        for hop in range(256)
    ]
    return [(o[0], i[0]) for o, i in of_hops if len(o) == len(i) == 1]


def _early(one: Crossing, crossings: list[Crossing], facts: Facts) -> bool:
    start, end = (facts[s.journal].boot for s in one)
    if not (start and end):
        return False
    if start == end:
        return _difference(one) < 0

    def way(other: Crossing) -> tuple[str, str, int]:
        """The two boots, and the window on the clock of the lesser one."""
        boots = [facts[s.journal].boot for s in other]
        mono = other[boots.index(min(boots))].record.mono
        return boots[0], boots[1], mono // WINDOW_NS

    mine = [_difference(each) for each in crossings if way(each) == way(one)]
    back = end, start, way(one)[2]
    theirs = [_difference(each) for each in crossings if way(each) == back]
    if not theirs or min(mine) + min(theirs) >= -DRIFT_NS:
        return False
    wrong = [each for each in mine if each + min(theirs) < -DRIFT_NS]
    others = [each for each in theirs if each + min(mine) < -DRIFT_NS]
    return _difference(one) in wrong and len(wrong) <= len(others)


def _difference(crossing: Crossing) -> int:
    return crossing[1].record.mono - crossing[0].record.mono


def _b3(
    mine: list[Seen], theirs: list[Seen], struck: bool, ended: bool, left: set[int]
) -> Iterator[Part]:
    kinds = {s.record.kind for s in mine}
    if not kinds & {*_ACCEPTED} or struck:
        return
    if kinds & {RecordKind.DELIVER, *_EXPLAINED}:
        return
    if _later(RecordKind.DELIVER, mine[0], theirs):
        yield "B3", "overtaken", mine[0], None
    elif mine[0].record.flow in left:
        yield "B3", "unaccounted", mine[0], None
    elif not ended:
        yield "B3", "unexplained", mine[0], None


def _b5(mine: list[Seen], theirs: list[Seen]) -> Iterator[Part]:
    for s in _only(RecordKind.DELIVER, mine):
        if not s.is_answer and any(
            o.journal == s.journal
            and o.record.n < s.record.n
            and o.record.mid > s.record.mid
            for o in _only(RecordKind.DELIVER, theirs)
        ):
            yield "B5", "overtaken", s, s.record.n


def _name(registration: int, seen: list[Seen]) -> str:
    named = [
        s.task
        for s in _only(RecordKind.REGISTER, seen)
        if s.record.flow == registration and s.task
    ]
    return min(named, default="")


def _matches(pattern: str, name: str) -> bool:
    return not (pattern and name) or Specification(pattern).matches(name)


def _b4(mine: list[Seen], seen: list[Seen]) -> Iterator[Part]:
    task = mine[0].record.flow
    if mine[0].line[1] != Flag.NOTIFICATION or not _name(task, seen):
        return
    notifier = _name(mine[0].record.origin, seen)
    for r in _only(RecordKind.DELIVER, mine):
        here = [s for s in seen if s.journal == r.journal and s.record.flow == task]
        delivers = [
            s.record.n
            for s in _only(RecordKind.DELIVER, here)
            if s.line[1] == Flag.NOTIFICATION
        ]
        if not any(
            s.record.n < r.record.n
            and _matches(s.task, notifier)
            and _reaches(s, r.record.n, here, delivers)
            for s in _only(RecordKind.SUBSCRIBE, here)
        ):
            yield "B4", "unsubscribed", r, r.record.n


def _reaches(subscribed: Seen, n: int, here: list[Seen], delivers: list[int]) -> bool:
    ends = [
        s.record.n
        for s in _only(RecordKind.UNSUBSCRIBE, here)
        if s.record.mid == subscribed.record.mid
    ]
    end = min(ends, default=n + 1)
    return end > n or not any(end < other < n for other in delivers)


def _b6(mine: list[Seen], seen: list[Seen], facts: Facts) -> Iterator[Part]:
    flow = mine[0].record.flow
    for s in mine:
        if s.record.kind not in {*_ACCEPTED, RecordKind.DELIVER}:
            continue
        boot = facts[s.journal].boot
        starts = [
            o.record.mono
            for o in _only(RecordKind.REGISTER, seen)
            if o.record.flow == flow and facts[o.journal].boot == boot != ""
        ]
        ends = [
            o.record.n
            for o in _only(RecordKind.DEREGISTER, seen)
            if o.record.flow == flow and o.journal == s.journal
        ]
        if starts and s.record.mono < min(starts):
            yield "B6", "early", s, s.record.n
        elif not s.is_answer and ends and min(ends) < s.record.n:
            yield "B6", "late", s, s.record.n
