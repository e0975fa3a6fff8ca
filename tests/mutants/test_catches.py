"""A run begins with the test that caught a mutant before, and trusts it no further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.mutants import __main__ as command
from tests.mutants.catches import read_catches, write_catches
from tests.mutants.mutant import Mutant
from tests.mutants.trial import Result

if TYPE_CHECKING:
    from pathlib import Path

CLAUSES = frozenset({"QB-RDV-3"})
ONE = "tests/mutants/test_catches.py::one"
TWO = "tests/mutants/test_catches.py::two"


def test_catches_are_read_as_they_were_written(tmp_path: Path) -> None:
    catches = {"M2": "a.py::test[x y]", "M10": "b.py::other"}

    write_catches(catches, tmp_path / "catches.txt")

    assert read_catches(tmp_path / "catches.txt") == catches
    assert read_catches(tmp_path / "missing.txt") == {}


@pytest.mark.parametrize(
    ("before", "fails", "ran"),
    [
        (ONE, {ONE}, [ONE, ONE]),
        (ONE, {TWO}, [ONE, ONE, "", ""]),  # it does not catch it now
        (ONE + "[gone]", {TWO}, [ONE + "[gone]", ONE + "[gone]", "", ""]),
        ("gone.py::test", {TWO}, ["", ""]),  # its file is not there
        ("", {TWO}, ["", ""]),
    ],
)
def test_the_test_of_an_earlier_catch_is_tried_first(
    monkeypatch: pytest.MonkeyPatch, before: str, fails: set[str], ran: list[str]
) -> None:
    tried: list[str] = []
    mutant = Mutant("M1", "a fault", ())

    def trial(
        which: Mutant, clauses: frozenset[str], *, only: frozenset[str], part: int = 1
    ) -> Result:
        if not part:
            return Result(frozenset(), {})  # the tests without a fault are in part 1
        tried.append("".join(only))
        tests = {ONE, TWO} & (only or {ONE, TWO})
        failed: dict[str, Any] = {
            test: tuple(clauses) for test in tests & fails if which is mutant
        }
        return Result(frozenset(tests - failed.keys()), failed)

    monkeypatch.setattr(command, "run_trial", trial)
    monkeypatch.setattr(command, "PACKAGES", ())
    monkeypatch.setattr(
        command, "read_catches", lambda: {"M1": before} if before else {}
    )

    [row] = command.run([(mutant, CLAUSES)])

    assert [row.caught_by] == list(fails)
    assert tried == ran


def test_a_test_that_fails_without_the_fault_is_no_catch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trial(_: Mutant, clauses: frozenset[str], **__: object) -> Result:
        return Result(frozenset(), {ONE: tuple(clauses)})

    monkeypatch.setattr(command, "run_trial", trial)
    unchanged = Result(frozenset({TWO}), {})

    assert not command.judge(Mutant("M1", "a fault", ()), CLAUSES, unchanged).caught_by
