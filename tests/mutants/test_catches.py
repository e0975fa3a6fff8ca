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
UNCHANGED = Result(frozenset({"a.py::one", "a.py::two"}), {})


def test_catches_are_read_as_they_were_written(tmp_path: Path) -> None:
    catches = {"M2": "a.py::test[x y]", "M10": "b.py::other"}

    write_catches(catches, tmp_path / "catches.txt")

    assert read_catches(tmp_path / "catches.txt") == catches
    assert read_catches(tmp_path / "missing.txt") == {}


@pytest.mark.parametrize(
    ("before", "fails", "ran"),
    [
        ("a.py::one", {"a.py::one"}, ["a.py::one"]),
        ("a.py::one", {"a.py::two"}, ["a.py::one", ""]),  # it does not catch it now
        ("gone.py::test", {"a.py::two"}, [""]),  # no such test passed without the fault
        ("", {"a.py::two"}, [""]),
    ],
)
def test_the_test_of_an_earlier_catch_is_tried_first(
    monkeypatch: pytest.MonkeyPatch, before: str, fails: set[str], ran: list[str]
) -> None:
    tried: list[str] = []

    def trial(_: Mutant, clauses: frozenset[str], *, only: str = "") -> Result:
        tried.append(only)
        found: dict[str, Any] = {
            each: tuple(clauses) for each in fails if only in {"", each}
        }
        return Result(UNCHANGED.passed - fails, found)

    monkeypatch.setattr(command, "run_trial", trial)

    row = command.judge(Mutant("M1", "a fault", ()), CLAUSES, UNCHANGED, before)

    assert [row.caught_by] == list(fails)
    assert tried == ran
