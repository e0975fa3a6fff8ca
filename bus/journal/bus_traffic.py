"""`BusTraffic`: the small checker's state for messages of the bus, and its findings.

It checks the rules B1 to B6. A message may appear in any journal, and journals
are read one after another, or in turns. So only the order within one journal is checked
during the read, and the rest when it is asked. The predicates are those of
`bus.journal.rules`.

The state holds the records of each message packed, 22 bytes each, and unpacks only
messages that may break a rule: objects would take ten times the memory.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.clocks import Clocks
from bus.journal.format import ACCEPTS, Flag, RecordKind
from bus.journal.lifetimes import Lifetimes
from bus.journal.violation import Finding, Place
from bus.journal.wording import AT_PROCESS, INSPECTOR, ON_MACHINE, PID, PROCESS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bus.journal.format import Record
    from bus.journal.reader import JournalFacts

__all__ = ["BusTraffic", "Key", "key_of", "sort_of"]

_EXPLAINS: Final = frozenset(
    {int(RecordKind.DISCARD), int(RecordKind.UNDELIVERED), int(RecordKind.IN_DOUBT)}
)
_KINDS: Final = (
    ACCEPTS
    | _EXPLAINS
    | {
        int(RecordKind.RELAY_OUT),
        int(RecordKind.RELAY_IN),
        int(RecordKind.EXTRACT),
        int(RecordKind.DELIVER),
    }
)
_SORT: Final = int(Flag.NOTIFICATION | Flag.ANSWER)
_NOTIFICATION: Final = int(Flag.NOTIFICATION)

_DELIVER, _OUT, _IN = (
    int(RecordKind.DELIVER),
    int(RecordKind.RELAY_OUT),
    int(RecordKind.RELAY_IN),
)

# The records that show that the receiver of a message was found.
_FOUND: Final = ACCEPTS | {_DELIVER}

# A record of a message: its kind, hop, journal (as a list index), n and mono.
_STEP: Final = struct.Struct("<BBIqq")
_KINDS_OF: Final = slice(None, None, _STEP.size)
_LAST_JOURNAL: Final = slice(2 - _STEP.size, 6 - _STEP.size)

Key = tuple[int, int, int, int]  # origin, sort, mid, destination
_Line = tuple[int, int, int]  # origin, sort, destination
_Target = tuple[int, int]  # task, journal


def key_of(record: Record) -> Key | None:
    """Return the message that a record of the bus concerns, None for no message."""
    if record.kind not in _KINDS:
        return None
    return record.origin, sort_of(record.flags), record.mid, record.flow


def sort_of(flags: int) -> int:
    """Return the sort of the message that a record concerns: 0 for a command."""
    return flags & _SORT


@attrs.frozen
class Crossing:
    """A RELAY_OUT or RELAY_IN record."""

    place: Place
    hop: int


@attrs.define
class Message:
    """All records of one message for one destination.

    accepted: the first record that accepts it. explained: True if some record gives a
    reason for its loss. out, into: its writes to links, its reads from links.
    journals: those that hold a record of it.
    """

    accepted: Place | None = None
    explained: bool = False
    delivered: list[Place] = attrs.field(factory=list)
    out: list[Crossing] = attrs.field(factory=list)
    into: list[Crossing] = attrs.field(factory=list)
    journals: set[int] = attrs.field(factory=set)


@attrs.define
class Span:
    """The reach of some records of one journal: least and greatest n, least time.

    peak: the greatest number delivered there, and its record.
    """

    first: int
    last: int
    mono: int
    peak: tuple[int, int] = (0, 0)


@attrs.define
class Line:
    """All messages of one sort from one registration to another.

    delivered, arrived: the greatest number delivered, or read from a link, anywhere.
    spans: the reach, in each journal, of the records that accept or deliver.
    steps: the packed records of each message, by its number.
    """

    delivered: int = 0
    arrived: int = 0
    spans: dict[int, Span] = attrs.field(factory=dict)
    steps: dict[int, bytes] = attrs.field(factory=dict)


class BusTraffic:
    """The state after all records read so far.

    lifetimes: the registrations and subscriptions.
    """

    def __init__(self) -> None:
        self.lifetimes: Final = Lifetimes()
        self._lines: dict[_Line, Line] = {}
        # Journals of the bus, each with its index in the order of their first records.
        self._journals: dict[int, int] = {}
        self._findings: list[Finding] = []

    def take(self, journal: int, record: Record, task: str) -> None:
        """Add a record of the bus; ``task`` is the name in the record."""
        kind = record.kind
        self._journals.setdefault(journal, len(self._journals))
        if kind in _KINDS:
            self._of_message(journal, record)
        else:
            self.lifetimes.take(journal, record, task)

    def checked(self) -> dict[str, int]:
        """Return the number of units checked by each rule.

        A notification that reached a process counts at its subscribers there, and once
        on each link.
        """
        delivered = relayed = accepted = deliveries = notified = found = 0
        homes, names = self.lifetimes.homes, self.lifetimes.names
        for (_, sort, destination), line in self._lines.items():
            known, to_task = destination in homes, destination in names
            to_process = known and not to_task
            for steps in line.steps.values():
                kinds = steps[_KINDS_OF]
                found += known and not _FOUND.isdisjoint(kinds)
                if to_task and sort == _NOTIFICATION:
                    notified += kinds.count(_DELIVER)
                relayed += _OUT in kinds or _IN in kinds
                if to_process and _DELIVER in kinds:
                    continue
                delivered += _DELIVER in kinds
                accepted += not ACCEPTS.isdisjoint(kinds)
                deliveries += 0 if sort & Flag.ANSWER else kinds.count(_DELIVER)
        return {
            "B1": delivered,
            "B2": relayed,
            "B3": accepted,
            "B4": notified,
            "B5": deliveries,
            "B6": found,
        }

    def shown_names(self, facts: Mapping[int, JournalFacts]) -> dict[int, str]:
        """Return the names of registrations for people.

        That of a process is "process NAME". A name that several processes use is shown
        with the process, and a process name that several machines use with the machine.
        """
        names = self.lifetimes.names
        homes = {each: min(of) for each, of in self.lifetimes.homes.items()}
        processes = {each: PID % (facts[each].pid or "?") for each in homes.values()}
        for registration, name in names.items():
            if name.startswith(INSPECTOR):
                processes[homes[registration]] = name.removeprefix(INSPECTOR)
        machines = [(name, facts[each].machine) for each, name in processes.items()]
        twins = _several(machines)
        processes = {
            each: ON_MACHINE % (facts[each].machine, name) if name in twins else name
            for each, name in processes.items()
        }
        users = [(name, processes[homes[each]]) for each, name in names.items()]
        shared = _several(users)
        shown = {}
        for registration, home in homes.items():
            process = processes[home]
            name = names.get(registration, PROCESS % process)
            shown[registration] = (
                AT_PROCESS % (name, process) if name in shared else name
            )
        return shown

    def settled(self, finding: Finding, facts: Mapping[int, JournalFacts]) -> bool:
        """Return True if a missing record of a message proves that nothing happened."""
        homes = self.lifetimes.homes
        known = finding.flow in homes and finding.origin in homes
        return known and all(facts[each].conclusive for each in self._journals)

    def findings(
        self, facts: Mapping[int, JournalFacts], among: Collection[Key] | None = None
    ) -> Iterator[Finding]:
        """Yield the violations, given the state of each journal.

        Those of an order are yielded once.

        among: the messages to judge, None for all. For some, B4 is left out, and the
          clocks of two boots are not compared: both take all messages.
        """
        found, self._findings = self._findings, []
        yield from found
        if among is None:
            yield from self._unregistered(facts, self._lines)
            yield from self._unsubscribed()
            clocks = self._clocks(facts)
        else:
            lines = {(origin, sort, task) for origin, sort, _, task in among}
            yield from self._unregistered(facts, lines)
            clocks = self._unaligned(facts)
        ended = all(facts[journal].ended for journal in self._journals)
        dead = {journal for journal, each in facts.items() if each.died}
        for key, line, message in self._suspects(among):
            origin, _, _, destination = key
            if len(message.delivered) > 1:
                count = {"count": len(message.delivered)}
                first, second = sorted(message.delivered, key=_order)[:2]
                yield _finding("B1", "twice", key, second, first.n, count)
            homes = {
                journal
                for each in (origin, destination)
                for journal in self.lifetimes.homes.get(each, ())
            }
            died = not dead.isdisjoint(message.journals | homes)
            case = _wrong_way(message)
            if case is None and any(
                clocks.is_early(*places) for places in _crossings(message)
            ):
                case = "early"
            if case is None and not died:
                case = _one_ended(key, message, line, ended=ended)
            if case is not None:
                crossings = sorted(
                    (each.place for each in message.out + message.into), key=_order
                )
                other = {"other_seq": line.arrived}
                yield _finding("B2", case, key, crossings[0], None, other)
            case = None if died else self._loss_case(key, message, line, ended=ended)
            if case is not None:
                other = {"other_seq": line.delivered}
                yield _finding("B3", case, key, message.accepted, None, other)

    def _clocks(self, facts: Mapping[int, JournalFacts]) -> Clocks:
        """Return the clocks of the journals, aligned by the messages on links."""
        clocks = self._unaligned(facts)
        if clocks.several:
            for _, _, message in self._suspects():
                for places in _crossings(message):
                    clocks.add(*places)
            clocks.align()
        return clocks

    def _unaligned(self, facts: Mapping[int, JournalFacts]) -> Clocks:
        return Clocks({each: facts[each].boot for each in self._journals})

    def _of_message(self, journal: int, record: Record) -> None:
        kind, mid, destination = record.kind, record.mid, record.flow
        sort = sort_of(record.flags)
        line = self._lines.get((record.origin, sort, destination))
        if line is None:
            line = self._lines[record.origin, sort, destination] = Line()
        steps = line.steps.get(mid, b"")
        step = _STEP.pack(
            kind, record.hop, self._journals[journal], record.n, record.mono
        )
        # An EXTRACT only shows that this journal holds a record of the message.
        if kind != RecordKind.EXTRACT or steps[_LAST_JOURNAL] != step[_LAST_JOURNAL]:
            line.steps[mid] = steps + step
        if kind in _FOUND:
            span = line.spans.get(journal)
            if span is None:
                line.spans[journal] = Span(record.n, record.n, record.mono)
            else:
                span.last, span.mono = record.n, min(span.mono, record.mono)
        if kind == RecordKind.DELIVER:
            line.delivered = max(line.delivered, mid)
            if not sort & Flag.ANSWER:
                self._in_turn(
                    (record.origin, sort, mid, destination),
                    line.spans[journal],
                    Place(journal, record.n, record.mono),
                )
        elif kind == RecordKind.RELAY_IN:
            line.arrived = max(line.arrived, mid)

    def _unregistered(
        self, facts: Mapping[int, JournalFacts], lines: Iterable[_Line]
    ) -> Iterator[Finding]:
        """Check B6."""
        lifetimes = self.lifetimes
        for key_of_line in lines:
            line, (origin, sort, destination) = self._lines[key_of_line], key_of_line
            left = {} if sort & Flag.ANSWER else lifetimes.left.get(destination, {})
            starts = {
                each: lifetimes.start(destination, facts[each].boot, facts)
                for each in line.spans
            }
            if not any(
                _life_case(starts[each], left.get(each), span.last, span.mono)
                for each, span in line.spans.items()
            ):
                continue
            for mid, place in self._places(line, _FOUND):
                end = left.get(place.journal)
                case = _life_case(starts[place.journal], end, place.n, place.mono)
                if case is not None:
                    other = end if case == "late" else None
                    key = origin, sort, mid, destination
                    yield _finding("B6", case, key, place, other, {})

    def _unsubscribed(self) -> Iterator[Finding]:
        """Check B4."""
        outside = []
        for (origin, sort, task), line in self._lines.items():
            if sort != _NOTIFICATION or task not in self.lifetimes.names:
                continue
            lives = {
                each: self.lifetimes.subscribed(each, task, origin)
                for each in line.spans
            }
            if all(
                _covers(lives[each], span.first, span.last)
                for each, span in line.spans.items()
            ):
                continue
            outside += [
                ((origin, sort, mid, task), place, lives[place.journal])
                for mid, place in self._places(line, {_DELIVER})
                if not _covers(lives[place.journal], place.n, place.n)
            ]
        times = self._deliveries({(key[3], at.journal) for key, at, _ in outside})
        for key, place, lives_of in outside:
            ns = times[key[3], place.journal]
            at = bisect_left(ns, place.n)
            before = ns[at - 1] if at else -1
            if not any(
                begin < place.n and end is not None and before < end < place.n
                for begin, end in lives_of
            ):
                yield _finding("B4", "unsubscribed", key, place, None, {})

    def _deliveries(self, wanted: set[tuple[int, int]]) -> dict[_Target, list[int]]:
        """Return the records that deliver notifications, by task and journal."""
        found: dict[_Target, list[int]] = {each: [] for each in wanted}
        tasks = {task for task, _ in wanted}
        for (_, sort, task), line in self._lines.items():
            if sort == _NOTIFICATION and task in tasks:
                for _, place in self._places(line, {_DELIVER}):
                    if (task, place.journal) in found:
                        found[task, place.journal].append(place.n)
        return {each: sorted(ns) for each, ns in found.items()}

    def _places(
        self, line: Line, kinds: Collection[int]
    ) -> Iterator[tuple[int, Place]]:
        """Yield the records of some kinds, each with the number of its message."""
        journals = list(self._journals)
        for mid, steps in line.steps.items():
            for kind, _, number, n, mono in _STEP.iter_unpack(steps):
                if kind in kinds:
                    yield mid, Place(journals[number], n, mono)

    def _suspects(
        self, among: Iterable[Key] | None = None
    ) -> Iterator[tuple[Key, Line, Message]]:
        """Yield all messages except those delivered once and put on no link."""
        journals = list(self._journals)
        for key in self._keys() if among is None else among:
            origin, sort, mid, destination = key
            line = self._lines[origin, sort, destination]
            steps = line.steps[mid]
            kinds = steps[_KINDS_OF]
            once = kinds.count(_DELIVER) == 1
            if once and _OUT not in kinds and _IN not in kinds:
                continue
            yield key, line, _unpacked(steps, journals)

    def _keys(self) -> Iterator[Key]:
        for (origin, sort, destination), line in self._lines.items():
            for mid in line.steps:
                yield origin, sort, mid, destination

    def _in_turn(self, key: Key, span: Span, place: Place) -> None:
        """Check B5 for one delivery, given those of its line and journal."""
        mid = key[2]
        peak, peak_n = span.peak
        if mid > peak:
            span.peak = mid, place.n
        elif mid < peak:
            found = _finding("B5", "overtaken", key, place, peak_n, {"other_seq": peak})
            self._findings.append(found)

    def _loss_case(
        self, key: Key, message: Message, line: Line, *, ended: bool
    ) -> str | None:
        """Return the case of B3 for a message, None if it holds."""
        _, sort, mid, destination = key
        if message.accepted is None or message.delivered or message.explained:
            return None
        if line.delivered > mid and not sort & Flag.ANSWER:
            return "overtaken"
        if destination in self.lifetimes.left:
            return "unaccounted"
        return None if ended else "unexplained"


def _several(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Return the first parts that occur with several second ones."""
    counts = Counter(first for first, _ in set(pairs))
    return {first for first, count in counts.items() if count > 1}


def _unpacked(steps: bytes, journals: Sequence[int]) -> Message:
    """Return a message with all its records."""
    message = Message()
    for kind, hop, number, n, mono in _STEP.iter_unpack(steps):
        journal = journals[number]
        message.journals.add(journal)
        place = Place(journal, n, mono)
        if kind in ACCEPTS:
            message.accepted = min(message.accepted or place, place, key=_order)
        elif kind == RecordKind.DELIVER:
            message.delivered.append(place)
        elif kind == RecordKind.RELAY_OUT:
            message.out.append(Crossing(place, hop))
        elif kind == RecordKind.RELAY_IN:
            message.into.append(Crossing(place, hop))
        elif kind in _EXPLAINS:
            message.explained = True
    return message


def _life_case(start: int | None, end: int | None, n: int, mono: int) -> str | None:
    """Return the case of B6 of a record, None if its receiver was registered.

    start: the time of the registration. end: the record of the deregistration.
    """
    if start is not None and mono < start:
        return "early"
    return "late" if end is not None and n > end else None


def _covers(lives: Iterable[tuple[int, int | None]], first: int, last: int) -> bool:
    """Return True if one of the subscriptions lasts from a record to another one."""
    return any(begin < first and (end is None or end > last) for begin, end in lives)


def _wrong_way(message: Message) -> str | None:
    """Return the case of B2 that existing records prove, None if there is none."""
    if _repeats(message.out) or _repeats(message.into):
        return "again"
    if any(_turns_back(came, went) for came in message.into for went in message.out):
        return "back"
    return None


def _crossings(message: Message) -> Iterator[tuple[Place, Place]]:
    """Yield the write and the read of each hop that has one of each."""
    for went in message.out:
        for came in message.into:
            if (
                went.hop == came.hop
                and _is_alone(went, message.out)
                and _is_alone(came, message.into)
            ):
                yield went.place, came.place


def _is_alone(one: Crossing, among: list[Crossing]) -> bool:
    # Nearly always there is only one, which need not be compared.
    return len(among) == 1 or sum(each.hop == one.hop for each in among) == 1


def _one_ended(key: Key, message: Message, line: Line, *, ended: bool) -> str | None:
    """Return the case of B2 that rests on a missing record, None if there is none."""
    out, into = ({each.hop for each in of} for of in (message.out, message.into))
    if into - out:
        return "foreign"
    if message.explained or not out - into:
        return None
    _, sort, mid, _ = key
    if line.arrived > mid and not sort & Flag.ANSWER:
        return "overtaken"
    return None if ended else "unexplained"


def _repeats(crossings: list[Crossing]) -> bool:
    """Return True if two of them have one hop, or one journal."""
    hops = {each.hop for each in crossings}
    journals = {each.place.journal for each in crossings}
    return min(len(hops), len(journals)) < len(crossings)


def _turns_back(came: Crossing, went: Crossing) -> bool:
    """Return True if a message left where it arrived, under a hop not greater."""
    return (
        came.place.journal == went.place.journal
        and came.place.n < went.place.n
        and went.hop <= came.hop
    )


def _finding(
    rule: str,
    case: str,
    key: Key,
    place: Place | None,
    other_n: int | None,
    facts: Mapping[str, object],
) -> Finding:
    origin, sort, mid, destination = key
    return Finding(
        rule, case, destination, mid, place, other_n, facts, origin=origin, sort=sort
    )


def _order(place: Place) -> tuple[int, int]:
    return place.journal, place.n
