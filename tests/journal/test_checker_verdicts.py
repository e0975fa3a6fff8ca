"""From finding to verdict: the rules that an incomplete journal leaves unknown."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.rules import RULES, Basis, Verdict, worst
from specs.clauses import clause
from tests.journal.by_hand import BROKEN, met, received, sent
from tests.journal.checking import checked, found, verdicts
from tests.journal.histories import Condition, History, clean, journal_id, plant, store

if TYPE_CHECKING:
    from collections.abc import Mapping

INCOMPLETE: Mapping[str, tuple[dict[str, object], str]] = {
    "open": ({"closed": False, "sealed": False}, "open"),
    "lost": ({"lost": 3}, "lost"),
    "gaps": ({"holes": (2,)}, "gaps"),
    "damaged": ({"damaged": True}, "damaged"),
}


@clause("J1")
@pytest.mark.parametrize(("condition", "case"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_incomplete_journal_is_reported_with_the_reason(
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
    # A lost record may have broken a rule; a missing end has not.
    if lossy:
        assert {each.verdict for each in rest} == {Verdict.UNKNOWN}


@clause("J1")
def test_a_journal_without_its_beginning_is_incomplete(tmp_path: Path) -> None:
    """If the first record number is not 0, earlier records are missing."""
    store(clean(3), tmp_path, slots=16, conditions={0: Condition(beginning=1)})

    (one, *_) = check(open_journals(tmp_path)).violations
    assert (one.case, one.explanation) == (
        "beginning",
        "the records before 16 are missing",
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
def test_only_a_violation_that_rests_on_an_absence_is_unknown(
    name: str, condition: str
) -> None:
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


def test_a_rule_that_checked_nothing_is_not_pass() -> None:
    """A journal without operations has only J1, one with connections only Q1."""
    empty, meeting = checked(History()), checked(met())

    assert verdicts(empty) == {
        rule: Verdict.PASS if rule == "J1" else Verdict.NOTHING for rule in RULES
    }
    assert empty.verdict is Verdict.PASS
    assert verdicts(meeting) == {
        rule: Verdict.PASS if rule in {"J1", "Q1"} else Verdict.NOTHING
        for rule in RULES
    }


def test_nothing_to_check_yields_to_every_other_verdict() -> None:
    assert worst([]) is Verdict.NOTHING
    for other in (Verdict.PASS, Verdict.UNKNOWN, Verdict.FAIL):
        assert worst([Verdict.NOTHING, other]) is other


def test_a_lost_record_may_have_been_the_one_to_check() -> None:
    lossy = checked(met(), lost=1)

    assert verdicts(lossy)["Q5"] is Verdict.UNKNOWN
