"""One run of the tests of some clauses against one copy of the library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs

from specs.coverage import read_ties
from tests.mutants.mutant import Mutant, plant

__all__ = ["PARTS", "ROOT", "Result", "run_trial"]

ROOT = Path(__file__).parents[2]
OWN = "tests/conformance/own.py:factory"
SUITE = "specs/conformance"
LONG = ("tests/schedules/test_fast_path.py", "tests/schedules/test_histories.py")
LIMIT_S = 600
WHOLE_LIMIT_S = 1800  # for one part of the tests of all mutants
PARTS = 2  # number of these parts

# Without these a trial compiles each module anew: those of the tests too, and those of
# the library that have no fault.
_UNCOMPILED = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")


@attrs.frozen
class Result:
    """The outcome of each test; ``trouble`` if the run itself broke.

    output: the output of pytest.
    """

    passed: frozenset[str]
    failed: dict[str, tuple[str, ...]]
    trouble: str = ""
    output: str = ""


def run_trial(
    mutant: Mutant,
    clauses: frozenset[str],
    *,
    part: int | None = None,
    only: frozenset[str] = frozenset(),
) -> Result:
    """Run the tests of these clauses against a mutant.

    part: of `PARTS`, to be run to its end; None for all tests, up to the first that
      fails. only: the tests to run; empty for all.
    """
    whole = part is not None
    # A process that a test has left behind may write into it while it is removed.
    with tempfile.TemporaryDirectory(
        prefix="mutant-", ignore_cleanup_errors=True
    ) as name:
        folder = Path(name)
        plant(mutant, folder)
        report = folder / "report.json"
        implementation = mutant.implementation
        files = [SUITE] if implementation else _files(clauses)
        if only:
            files = sorted({test.partition("::")[0] for test in only})
        if part is not None:
            files = files[part::PARTS]
        if not files:
            return Result(frozenset(), {})
        environment = {
            **{k: v for k, v in os.environ.items() if k not in _UNCOMPILED},
            "PYTHONPATH": os.pathsep.join((name, str(ROOT))),
            "PYTHONSAFEPATH": "1",  # for programs that tests start
            "MUTANT_CLAUSES": " ".join(sorted(clauses)),
            "MUTANT_LIBRARY": name,
            "MUTANT_ONLY": "\n".join(sorted(only)),
            "MUTANT_REPORT": str(report),
            "QUEUEBROKER_LOCKED": "1" if mutant.locked else "",
            "TEST_DEEP": "1",
            "TEST_LIMIT_S": "30" if whole else "4",  # a test that never ends is a catch
        }
        command = [
            *(sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short"),
            *("-n", "0"),  # `selection` records outcomes in one process
            *("-p", "tests.mutants.selection", "-W", "ignore"),
            *(() if whole else ("-x",)),
            *("--conformance", implementation or OWN, *files),
        ]
        limit_s = WHOLE_LIMIT_S if whole else LIMIT_S
        try:
            ran = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(frozenset(), {}, f"no end within {limit_s} s")
        if not report.exists():
            lines = (ran.stdout + ran.stderr).strip().splitlines()
            last = lines[-1] if lines else "no output"
            return Result(frozenset(), {}, f"exit code {ran.returncode}: {last}")
        return _read(report, ran.stdout)


def _files(clauses: frozenset[str]) -> list[str]:
    """Return the files that have a test of one of these clauses.

    Files without effect here are left out: type checkers read the installed library,
    not the copy, and a benchmark is no test. A trial ends with the first failure, so
    the files that take minutes come last.
    """
    ties, _ = read_ties(ROOT)
    found = {
        tie.test.partition("::")[0]
        for tie in ties
        if tie.clause in clauses
        and not tie.test.startswith(("tests/types/", "benchmarks/"))
    }
    suite = {file for file in found if file.startswith(SUITE)}
    quick_first = sorted(found - suite, key=lambda file: (file in LONG, file))
    return quick_first + ([SUITE] if suite else [])


def _read(report: Path, output: str) -> Result:
    """Parse a report; a test that broke outside its own body counts as trouble."""
    passed: set[str] = set()
    failed: dict[str, tuple[str, ...]] = {}
    for row in json.loads(report.read_text()):
        if row["outcome"] == "passed":
            passed.add(row["test"])
        elif row["outcome"] == "failed":
            failed[row["test"]] = tuple(row["clauses"])
    return Result(frozenset(passed - failed.keys()), failed, output=output)
