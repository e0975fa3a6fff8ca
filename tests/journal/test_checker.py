"""The small checker: clean traffic passes, a planted fault is named, and only that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.journal.checker import CheckResult, check
from bus.journal.format import Kind
from bus.journal.reader import open_journals
from bus.journal.rules import RULES, Basis, Verdict
from specs.clauses import clause
from tests.journal.by_hand import (
    A_LEAVES,
    BROKEN,
    CLEAN,
    FLOW,
    at_a,
    at_b,
    dropped,
    met,
    received,
    sent,
)
from tests.journal.histories import (
    FAULTS,
    Condition,
    History,
    Key,
    clean,
    journal_id,
    plant,
    store,
)
from tests.journal.predicates import would_be_violations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bus.journal.rules import Violation

HELD = dict.fromkeys(RULES, Verdict.PASS)


def checked(history: History, **condition: object) -> CheckResult:
    """The result over a history whose journals are all in one condition."""
    given = Condition(**condition)  # type: ignore[arg-type] # as the class says
    with tempfile.TemporaryDirectory() as folder:
        conditions = dict.fromkeys(range(history.journals), given)
        store(history, Path(folder), conditions=conditions)
        return check(open_journals(folder))


def verdicts(result: CheckResult) -> dict[str, Verdict]:
    return {each.rule: each.verdict for each in result.verdicts}


def found(result: CheckResult) -> set[tuple[Key, Verdict]]:
    return {(each.key, each.verdict) for each in result.violations}


@clause("J1", "Q1", "Q2", "Q3", "Q4", "Q5", "Q7", "Q8")
@pytest.mark.parametrize("history", CLEAN.values(), ids=CLEAN)
def test_what_keeps_every_promise_passes(history: History) -> None:
    """Traffic that keeps the rules is PASS on all, also with nothing to check."""
    result = checked(history)

    assert result.violations == ()
    assert verdicts(result) == HELD
    assert result.verdict is Verdict.PASS


@clause("Q1", "Q2", "Q3", "Q4", "Q5", "Q7", "Q8")
@pytest.mark.parametrize(
    ("rule", "case", "history", "seq", "text"), BROKEN.values(), ids=BROKEN
)
def test_a_broken_promise_is_named_and_nothing_else(
    rule: str, case: str, history: History, seq: int | None, text: str
) -> None:
    """One fault is one violation: its rule, its message, and why."""
    result = checked(history)

    (violation,) = result.violations
    assert (violation.rule, violation.case) == (rule, case)
    assert violation.verdict is Verdict.FAIL
    if seq is not None:
        assert (violation.flow, violation.seq) == (FLOW, seq)
    assert text in violation.explanation
    assert verdicts(result) == HELD | {rule: Verdict.FAIL}


def violation(history: History) -> Violation:
    (one,) = checked(history).violations
    return one


def test_a_violation_tells_where_when_and_between_whom() -> None:
    one = violation(met(*sent(1, 2, 3), *received(1, 3, 2)))

    assert (one.n, one.other_n) == (9, 8)
    assert one.journal == journal_id(0)
    assert one.mono == 10**12 + 9000
    assert (one.sender, one.receiver, one.port) == ("b", "a", 5)


def test_a_duplicate_is_told_with_the_first_receive() -> None:
    one = violation(met(*sent(1, 2), *received(1, 2), *received(2), *received(2)))

    assert one.explanation == "received 3 times"
    assert one.n == 8


def test_names_that_are_not_known_are_not_compared() -> None:
    ends = [at_a(Kind.ACCEPT_END), attrs.evolve(at_b(Kind.CONNECT_END), peer="")]

    assert checked(History(ends)).verdict is Verdict.PASS


def test_sides_in_different_journals_are_not_compared_in_time() -> None:
    history = met()
    for entry in history.entries:
        entry.journal = int(entry.kind is Kind.CONNECT_END)
    history.journals = 2
    late = attrs.evolve(at_a(Kind.ACCEPT_BEGIN, seq=1), channel=0)
    history.entries = [history.entries[2], history.entries[1], late]
    history.number()

    assert checked(history).verdict is Verdict.PASS


def test_a_message_may_be_received_in_another_journal_whichever_is_read_first() -> None:
    for sender in (0, 1):
        history = met(*sent(1, 2), *received(1, 2), *sent(3))
        history.journals = 2
        for entry in history.entries:
            entry.journal = sender if entry.kind is Kind.SEND else 1 - sender
        history.number()

        result = checked(history)
        assert result.verdict is Verdict.PASS
        assert {each.rule: each.checked for each in result.verdicts}["Q5"] == 3


def test_each_rule_says_how_much_it_checked() -> None:
    result = checked(met(*sent(1, 2, 3), *received(1, 2, 2), A_LEAVES, *dropped(3)))

    assert {each.rule: each.checked for each in result.verdicts} == {
        "J1": 1,
        "Q1": 1,
        "Q2": 3,
        "Q3": 2,
        "Q4": 2,
        "Q5": 3,
        "Q7": 6,
        "Q8": 2,
    }


def test_a_wild_number_does_not_fill_the_memory() -> None:
    result = checked(met(*sent(1, 2**63), *received(1, 2**63)))

    assert result.verdict is Verdict.PASS


# From finding to verdict.

INCOMPLETE: Mapping[str, tuple[dict[str, object], str]] = {
    "open": ({"closed": False, "sealed": False}, "open"),
    "lost": ({"lost": 3}, "lost"),
    "gaps": ({"holes": (2,)}, "gaps"),
    "damaged": ({"damaged": True}, "damaged"),
}


@clause("J1")
@pytest.mark.parametrize(("condition", "case"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_journal_is_told_and_why(
    condition: dict[str, object], case: str
) -> None:
    """A damaged journal is FAIL, one incomplete in another way UNKNOWN."""
    result = checked(clean(3), **condition)

    one = result.violations[0]
    damaged = case == "damaged"
    assert (one.rule, one.case, one.journal) == ("J1", case, journal_id(0))
    assert one.verdict is (Verdict.FAIL if damaged else Verdict.UNKNOWN)
    assert result.verdict is one.verdict
    (first, *rest) = result.verdicts
    assert first.why == ("" if damaged else one.explanation)
    lossy = case != "open"
    # Whatever was lost may have broken a rule; a mere lack of an end has not.
    if lossy:
        assert {each.verdict for each in rest} == {Verdict.UNKNOWN}


@clause("J1")
def test_a_journal_without_its_beginning_is_incomplete(tmp_path: Path) -> None:
    """Records that are numbered from elsewhere than 0 are not all there were."""
    store(clean(3), tmp_path, slots=16, conditions={0: Condition(beginning=1)})

    (one, *_) = check(open_journals(tmp_path)).violations
    assert (one.case, one.explanation) == (
        "beginning",
        "the records before 16 are gone",
    )


@clause("J1")
def test_a_journal_without_records_is_incomplete(tmp_path: Path) -> None:
    """An empty journal proves nothing."""
    (path,) = store(History(), tmp_path)
    (path / "seg-00000.qbj").unlink()

    result = check(open_journals(tmp_path))
    assert [one.case for one in result.violations] == ["empty"]
    assert set(verdicts(result).values()) == {Verdict.UNKNOWN}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("condition", ["open", "lost", "late"])
def test_only_what_rests_on_an_absence_is_unknown(name: str, condition: str) -> None:
    rule, _, history, _, _ = BROKEN[name]
    states: dict[str, dict[str, object]] = {
        "open": {"closed": False, "sealed": False},
        "lost": {"lost": 3},
        "late": {"late": True},
    }

    result = checked(history, **states[condition])

    absent = RULES[rule].basis is Basis.ABSENCE
    expected = Verdict.UNKNOWN if absent else Verdict.FAIL
    assert {one.verdict for one in result.violations if one.rule == rule} == {expected}
    assert verdicts(result)[rule] is expected


def test_other_journals_do_not_excuse_a_violation() -> None:
    history = clean(5, journals=2, channels=2)
    key = plant(history, "alone", Random(1))
    assert key is not None
    guilty = next(e.journal for e in history.entries if e.flow >> 1 == key[1] >> 1)  # type: ignore[operator] # Q1 has a flow
    with tempfile.TemporaryDirectory() as folder:
        unclosed = {1 - guilty: Condition(closed=False, sealed=False)}
        store(history, Path(folder), conditions=unclosed)
        result = check(open_journals(folder))

    assert (key, Verdict.FAIL) in found(result)


def test_a_message_under_way_when_its_process_died_is_unknown() -> None:
    result = checked(met(*sent(1, 2), *received(1)), closed=False, sealed=False)

    assert [(one.rule, one.case, one.seq) for one in result.violations] == [
        ("J1", "open", None),
        ("Q5", "unexplained", 2),
    ]
    assert result.verdict is Verdict.UNKNOWN
    assert verdicts(result)["Q3"] is Verdict.PASS


# Random traffic.


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_what_the_model_does_passes(seed: int, journals: int) -> None:
    result = checked(clean(seed, journals=journals))

    assert result.violations == ()
    assert verdicts(result) == HELD


@settings(max_examples=40)
@given(st.sampled_from(sorted(FAULTS)), st.integers(0, 10**6))
def test_a_planted_fault_is_found_and_nothing_else(fault: str, seed: int) -> None:
    history = clean(seed)
    key = plant(history, fault, Random(seed))

    expected = set() if key is None else {(key, Verdict.FAIL)}
    assert found(checked(history)) == expected


CONDITIONS = [
    Condition(),
    Condition(closed=False, sealed=False),
    Condition(lost=2),
    Condition(holes=(7, 8, 30)),
    Condition(late=True),
    Condition(damaged=True),
    Condition(beginning=1),
]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=5),
    conditions=st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=2),
    crossing=st.booleans(),
)
def test_traffic_that_breaks_much_at_once_is_judged_word_for_word(
    seed: int, faults: list[str], conditions: list[Condition], crossing: bool
) -> None:
    history = clean(seed, channels=3, steps=100, journals=2)
    rng = Random(seed)
    for fault in faults:
        try:
            plant(history, fault, rng)
        except (IndexError, ValueError):
            continue  # an earlier fault took away what this one needs
    if crossing:
        for entry in history.entries:
            entry.journal = rng.randrange(2)
    history.number()

    with tempfile.TemporaryDirectory() as folder:
        store(history, Path(folder), conditions=dict(enumerate(conditions)))
        result = check(open_journals(folder))
        expected = would_be_violations(open_journals(folder))

    assert found(result) == expected
