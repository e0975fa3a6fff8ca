"""The small checker: journals in, verdicts and violations out, in plain Python.

It is one of two that must agree; the other is Spark's, and neither knows of the other
(see `bus.journal.rules`, which holds every predicate). The fold is `traffic`; this
module judges its findings by how far the journals can be trusted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from bus.journal.bus_traffic import BusTraffic, Key
from bus.journal.reader import FactsBuilder, JournalFacts, StoredJournal
from bus.journal.results import FIRST_PER_RULE, Result, first_of_each
from bus.journal.rules import RULES, SORTS, Basis, RuleVerdict, Verdict, worst
from bus.journal.traffic import Channel, Traffic
from bus.journal.violation import Finding, Violation
from bus.journal.wording import counted

__all__ = ["CheckResult", "check", "judged"]

_ORDER: Final = list(RULES)


@attrs.frozen
class CheckResult:
    """The result of a check.

    verdicts: one for each rule, in their order.
    violations: all would-be ones, by rule, then journal and record.
    problems: the read errors, one line each.
    """

    verdicts: tuple[RuleVerdict, ...]
    violations: tuple[Violation, ...]
    facts: tuple[JournalFacts, ...]
    problems: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """FAIL if any rule's is; else UNKNOWN if any is; else PASS."""
        return worst(each.verdict for each in self.verdicts)

    @property
    def summary(self) -> Result:
        """The result without the violations, which are listed elsewhere."""
        first = tuple(first_of_each(FIRST_PER_RULE, self.violations))
        return Result(self.verdicts, len(self.violations), first, self.problems)


def check(journals: Iterable[StoredJournal]) -> CheckResult:
    """Check journals against all rules, together: messages cross between journals."""
    traffic = Traffic()
    facts: dict[int, JournalFacts] = {}
    problems: list[str] = []
    read: list[tuple[StoredJournal, FactsBuilder]] = []
    for journal in journals:
        traffic.enter(journal.id, journal.name)
        builder = FactsBuilder(journal)
        for segment in journal.segments(builder.add_damaged):
            builder.add(segment)
            traffic.take(segment.records())
        read.append((journal, builder))
    for journal, builder in read:
        facts[journal.id] = builder.result()
        problems += journal.problems
    facts = traffic.deaths.judge(facts)
    violations = [
        *_incomplete(facts.values()),
        *judged(traffic, facts),
    ]
    violations.sort(key=_place)
    verdicts = _verdicts(violations, _checked(traffic, facts), facts.values())
    return CheckResult(
        tuple(verdicts), tuple(violations), tuple(facts.values()), tuple(problems)
    )


def _incomplete(facts: Iterable[JournalFacts]) -> Iterator[Violation]:
    """Yield the violations of J1."""
    cases = RULES["J1"].cases
    for each in facts:
        if each.complete:
            continue
        holds = {
            "damaged": each.damaged > 0,
            "unbegun": not each.begun,
            "empty": not each.records,
            "lost": each.lost > 0,
            "gaps": each.gaps > 0,
            "beginning": bool(each.first),
            "open": not each.ended,
        }
        case = next(name for name in cases if holds[name])
        fields = attrs.asdict(each) | {"gaps": each.gaps}
        yield Violation(
            rule="J1",
            verdict=Verdict.FAIL if each.damaged else Verdict.UNKNOWN,
            case=case,
            explanation=cases[case].format(**fields),
            journal=each.journal,
            n=each.last,
        )


def judged(
    traffic: Traffic,
    facts: Mapping[int, JournalFacts],
    channels: Collection[int] | None = None,
    messages: Collection[Key] | None = None,
) -> Iterator[Violation]:
    """Yield all would-be violations but those of J1.

    channels, messages: those to judge, None for all; see `Traffic.findings`.
    """
    yield from _judged_of_channels(traffic, facts, channels)
    yield from _judged_of_bus(traffic.bus, facts, messages)


def _judged_of_channels(
    traffic: Traffic,
    facts: Mapping[int, JournalFacts],
    among: Collection[int] | None,
) -> Iterator[Violation]:
    settled: dict[Channel, bool] = {}
    for finding in traffic.findings(facts, among):
        channel = traffic.channels[finding.flow >> 1]
        if channel not in settled:
            conclusive = all(facts[one].conclusive for one in channel.journals)
            settled[channel] = conclusive and channel.is_whole
        receiver, place = finding.flow & 1, finding.place
        yield Violation(
            rule=finding.rule,
            verdict=_worth(finding, settled[channel]),
            case=finding.case,
            explanation=finding.explanation,
            flow=finding.flow,
            seq=finding.seq,
            n=place.n if place else None,
            journal=place.journal if place else None,
            mono=place.mono if place else None,
            other_n=finding.other_n,
            sender=channel.names[1 - receiver],
            receiver=channel.names[receiver],
            port=channel.port,
        )


def _judged_of_bus(
    bus: BusTraffic, facts: Mapping[int, JournalFacts], among: Collection[Key] | None
) -> Iterator[Violation]:
    found = list(bus.findings(facts, among))
    names = bus.shown_names(facts) if found else {}
    for finding in found:
        assert finding.origin is not None
        assert finding.sort is not None
        place = finding.place
        yield Violation(
            rule=finding.rule,
            verdict=_worth(finding, bus.settled(finding, facts)),
            case=finding.case,
            explanation=finding.explanation,
            flow=finding.flow,
            seq=finding.seq,
            n=place.n if place else None,
            journal=place.journal if place else None,
            mono=place.mono if place else None,
            other_n=finding.other_n,
            sender=names.get(finding.origin, ""),
            receiver=names.get(finding.flow, ""),
            origin=finding.origin,
            sort=SORTS[finding.sort],
        )


def _worth(finding: Finding, settled: bool) -> Verdict:
    """Return FAIL if no missing record can explain it, else UNKNOWN."""
    basis = RULES[finding.rule].basis_of(finding.case)
    conclusive = basis is Basis.PRESENCE or settled
    return Verdict.FAIL if conclusive else Verdict.UNKNOWN


def _checked(traffic: Traffic, facts: Mapping[int, JournalFacts]) -> dict[str, int]:
    """Return the number of units checked by each rule."""
    counts = [
        flow.counts() for channel in traffic.channels.values() for flow in channel.flows
    ]
    received = sum(each.received for each in counts)
    both = sum(each.both for each in counts)
    return {
        "J1": len(facts),
        "Q1": len(traffic.channels),
        "Q2": traffic.receives,
        "Q3": received,
        "Q4": received,
        "Q5": sum(each.sent for each in counts),
        "Q6": both,
        "Q7": traffic.operations,
        "Q8": both,
        **traffic.bus.checked(),
    }


def _verdicts(
    violations: Iterable[Violation],
    checked: Mapping[str, int],
    facts: Iterable[JournalFacts],
) -> Iterator[RuleVerdict]:
    lossy = sum(each.lossy for each in facts)
    found: dict[str, list[Violation]] = {rule: [] for rule in RULES}
    for violation in violations:
        found[violation.rule].append(violation)
    for rule, broken in found.items():
        violated = sum(each.verdict is Verdict.FAIL for each in broken)
        unknown = len(broken) - violated
        verdict = worst(each.verdict for each in broken)
        why = ""
        if verdict is Verdict.NOTHING and lossy:
            verdict = Verdict.UNKNOWN
        elif verdict is Verdict.NOTHING and checked[rule]:
            verdict = Verdict.PASS
        if verdict is Verdict.UNKNOWN:
            why = _why(rule, broken, lossy)
        yield RuleVerdict(rule, verdict, checked[rule], violated, unknown, why)


def _why(rule: str, unknown: list[Violation], lossy: int) -> str:
    if rule == "J1":
        return unknown[0].explanation
    if unknown:
        return f"{len(unknown)} cannot be judged: a journal is open or missing"
    return (
        f"records of {counted(lossy, 'journal')} are missing;"
        " a violation may be among them"
    )


def _place(violation: Violation) -> tuple[int, int, int, int]:
    return (
        _ORDER.index(violation.rule),
        violation.journal or 0,
        violation.n or 0,
        violation.seq or 0,
    )
