"""Tries the faults made by hand: each must be caught by the test that it names."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING, Final

from specs.clauses import load_clauses
from specs.coverage import read_ties
from tests.mutants.collected import Collected
from tests.mutants.edit import MutantError
from tests.mutants.forks import NOT_SWAPPABLE, Forks, Trial
from tests.mutants.library import ROOT, source

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from tests.mutants.catalogue import Fault
    from tests.mutants.collected import Outcome

__all__ = ["HARD", "QUICK", "Results", "try_faults"]

# Groups of which each clause must be named by a fault, and by the test that catches it.
HARD: Final = (
    *("QB-RDV", "QB-SEND", "QB-RECV", "QB-FIFO", "QB-DISC", "QB-TIME", "QB-CONC"),
    *("BUS-ROUTE", "BUS-RELAY", "BUS-DEREG", "BUS-MOVE", "BUS-FLOW", "AMO"),
)
# A swap, a planted copy, the locked kind of end, programs that import the mutant.
QUICK: Final = ("D1", "MC21", "M6", "L22")
_LIMIT_S: Final = 130.0
_FIND_S: Final = 900.0


class Results:
    """The results of faults, tried with these tests.

    find: True to try all tests of the clauses of a fault that lives.
    """

    def __init__(self, tests: Collected, *, find: bool) -> None:
        self._tests: Final = tests
        self._find: Final = find
        # Of tests that pass without a fault: planted or not, locked or not.
        self._seconds: dict[tuple[str, bool, bool], float] = {}
        self.caught: list[Fault] = []
        self.lives = 0
        self.broken = 0

    def judge(self, fault: Fault) -> Generator[Trial, Outcome, None]:
        """Yield the trials of a fault, and print the result."""
        try:
            trees = fault.trees()
            passing = list(fault.tests)
            for test in fault.tests:
                if (yield from self._catches(test, fault, trees)):
                    passing.remove(test)
            state = f"LIVES: {' and '.join(passing)} pass" if passing else "caught"
            if passing and self._find:
                trial = Trial(
                    trees, self._others(fault), _FIND_S, fault.locked, fault.locked
                )
                found = yield from _failed(trial)
                if found and (yield from self._catches(found, fault, trees)):
                    state += f"; {found} fails"
        except MutantError as error:
            self.broken += 1
            state = f"BROKEN: {error}"
        else:
            self.lives += bool(passing)
            if not passing:
                self.caught.append(fault)
        print(f"{fault.id:5} {fault.title}\n      {state}", flush=True)

    def _catches(
        self, test: str, fault: Fault, trees: Mapping[str, ast.Module]
    ) -> Generator[Trial, Outcome, bool]:
        """Tell whether a test fails with a fault, after it has passed without.

        Raises:
            MutantError: it does not pass without it, or a trial broke.
        """
        if not self._tests.tests.get(test, frozenset()) & set(fault.clauses):
            raise MutantError(f"there is no test {test} of its clauses")
        # Planted as well: what an import has called already cannot be swapped.
        for planted in (False, True) if not fault.locked else (True,):
            key = test, planted, fault.locked
            if key not in self._seconds:
                same = {file: ast.parse(source(file)) for file in trees}
                outcome = yield Trial(same, (test,), _LIMIT_S, planted, fault.locked)
                if test not in outcome.passed:
                    msg = f"without the fault, {test} does not pass {outcome.trouble}"
                    raise MutantError(msg)
                self._seconds[key] = outcome.passed[test].seconds
            limit_s = 10 + 4 * self._seconds[key]
            trial = Trial(trees, (test,), limit_s, planted, fault.locked)
            if (yield from _failed(trial)):
                return True
        return False

    def _others(self, fault: Fault) -> tuple[str, ...]:
        return tuple(
            test
            for test, clauses in self._tests.tests.items()
            if test not in fault.tests and clauses & set(fault.clauses)
        )

    def bare_clauses(self) -> list[str]:
        """Return the hard clauses that no caught fault and its test name."""
        proved = {
            clause
            for fault in self.caught
            for test in fault.tests
            for clause in self._tests.tests[test] & set(fault.clauses)
        }
        return [
            clause.id
            for clause in load_clauses().values()
            if not clause.withdrawn
            and clause.id.rpartition("-")[0] in HARD
            and clause.id not in proved
        ]


def _failed(trial: Trial) -> Generator[Trial, Outcome, str]:
    """Return the test that fails; empty if none does.

    Raises:
        MutantError: the trial broke.
    """
    outcome = yield trial
    if outcome.trouble and outcome.trouble != NOT_SWAPPABLE:
        raise MutantError(outcome.trouble)
    return "".join(outcome.failed[:1])


def try_faults(faults: Sequence[Fault], *, find: bool, whole: bool) -> int:
    """Try faults; return the exit code.

    whole: True if these are all faults: then each clause of the hard groups has one.
    """
    os.environ["TEST_DEEP"] = "1"
    os.environ["TEST_LIMIT_S"] = "5"  # in a mutant a wait that never ends is usual
    code = 4

    def work(tests: Collected) -> None:
        nonlocal code
        results = Results(tests, find=find)
        forks = Forks(tests)
        try:
            forks.run(map(results.judge, faults))
        finally:
            forks.close()
        bare = results.bare_clauses() if whole else []
        if bare:
            print(f"clauses without a fault: {', '.join(bare)}")
        print(
            f"\nby hand: {len(results.caught)} caught, {results.lives} alive,"
            f" {results.broken} broken"
        )
        code = 4 if results.broken else int(bool(results.lives))

    files = {test.partition("::")[0] for fault in faults for test in fault.tests}
    if find:
        files |= set(_files(clause for fault in faults for clause in fault.clauses))
    if trouble := Collected(work).main(sorted(files)):
        print(trouble)
        return 4
    return code


def _files(clauses: Iterable[str]) -> list[str]:
    """Return the files with tests of these clauses; a benchmark is no test."""
    ties, _ = read_ties(ROOT)
    wanted = set(clauses)
    return [
        tie.test.partition("::")[0]
        for tie in ties
        if tie.clause in wanted
        and not tie.test.startswith(("tests/types/", "benchmarks/"))
    ]
