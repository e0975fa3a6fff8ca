"""The summary of a check, and its output for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bus.journal.results import (
    FIRST_PER_RULE,
    Result,
    first_of_each,
    result_fields,
    violation_fields,
    write,
)
from bus.journal.rules import RuleVerdict, Verdict
from bus.journal.violation import Violation

if TYPE_CHECKING:
    from pathlib import Path

VERDICTS = (
    RuleVerdict("Q2", Verdict.FAIL, 30, 20, 0, ""),
    RuleVerdict("Q3", Verdict.PASS, 30, 0, 0, ""),
)


def violations(rule: str, count: int) -> list[Violation]:
    return [
        Violation(rule, Verdict.FAIL, "case", "why", flow=2**63 + seq, seq=seq)
        for seq in range(1, count + 1)
    ]


def test_the_first_of_each_rule_are_taken_in_their_order() -> None:
    found = violations("Q2", 4) + violations("Q3", 1)

    first = [(one.rule, one.seq) for one in first_of_each(2, found)]

    assert first == [("Q2", 1), ("Q2", 2), ("Q3", 1)]


def test_a_result_is_as_bad_as_its_worst_verdict() -> None:
    assert Result(VERDICTS, 20, (), ()).verdict is Verdict.FAIL
    assert Result(VERDICTS[1:], 0, (), ()).verdict is Verdict.PASS


def test_identifiers_are_text_for_readers_that_have_only_floats() -> None:
    (violation,) = violations("Q2", 1)

    fields = violation_fields(violation)

    assert fields["flow"] == "8000000000000001"
    assert fields["journal"] is None
    (row,) = result_fields(Result((), 0, (), ()), [{"journal": -1}])["journals"]
    assert row == {"journal": "f" * 16}


def test_the_written_files_hold_the_result_of_the_check(tmp_path: Path) -> None:
    found = violations("Q2", 20)
    result = Result(VERDICTS, 20, tuple(found[:FIRST_PER_RULE]), ("a problem",))
    verdicts, lines = tmp_path / "verdicts.json", tmp_path / "violations.jsonl"

    write(
        result,
        found[:15],
        [{"journal": 7, "records": 1}],
        verdicts_path=verdicts,
        violations_path=lines,
    )

    fields = json.loads(verdicts.read_text())
    assert (fields["verdict"], fields["violations"], fields["listed"]) == (
        *("FAIL", 20, 15),
    )
    assert [row["rule"] for row in fields["verdicts"]] == ["Q2", "Q3"]
    assert fields["journals"] == [{"journal": f"{7:016x}", "records": 1}]
    assert fields["problems"] == ["a problem"]
    assert [json.loads(line) for line in lines.read_text().splitlines()] == [
        violation_fields(violation) for violation in found[:15]
    ]
