"""``python -m tests.mutants [--quick] [--by-clause] [--remember] [ID ...]``.

It tests the suite: each mutant is the library with one fault, and some test must fail.

A mutant is caught if a test fails that names a clause which the catalogue gives for it,
and that passes on the unchanged library in the same run. Anything else is not a catch:
an edit that does not apply, tests that cannot be collected, a run that does not end.
Exit 0 if all are caught, 1 if one lives, 4 if something broke.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs

from specs.clauses import load_clauses
from tests.mutants.catalogue import load_mutants
from tests.mutants.catches import read_catches, write_catches
from tests.mutants.mutant import PACKAGES, Mutant, MutantError
from tests.mutants.trial import PARTS, ROOT, Result, run_trial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CATALOGUE = load_mutants()
# Clauses of the hard groups for which no mutant is planted, and why.
WITHOUT: dict[str, str] = {}
HARD = (
    *("QB-RDV", "QB-SEND", "QB-RECV", "QB-FIFO", "QB-DISC", "QB-TIME", "QB-CONC"),
    *("BUS-ROUTE", "BUS-RELAY", "BUS-DEREG", "BUS-MOVE", "BUS-FLOW", "AMO"),
)
QUICK = ("M1", "M9", "M13", "M22")  # one of each kind, for every run of CI
AT_ONCE = 2
REFERENCE = "tests/conformance/reference.py:factory"

# The base of a comparison: the same without the mutant's fault.
WITHOUT_FAULT = {
    "the unchanged library": Mutant("", "no fault", ()),
    "the unchanged library, locked kind": Mutant("", "no fault", (), locked=True),
    REFERENCE: Mutant("", "no fault", (), implementation=REFERENCE),
}


@attrs.frozen
class Row:
    """The result for one mutant and some of its clauses."""

    mutant: Mutant
    clauses: frozenset[str]
    caught_by: str = ""
    trouble: str = ""


def run(pairs: Sequence[tuple[Mutant, frozenset[str]]]) -> list[Row]:
    """Judge each: first by the test that caught it before, then by all its tests.

    The tests of each round run without any fault first.
    """
    for package in PACKAGES:
        compileall.compile_dir(package, quiet=2)  # once, not in each trial's copy
    before = {
        mutant: test
        for mutant, test in read_catches().items()
        if (ROOT / test.partition("::")[0]).exists()
    }
    known = [pair for pair in pairs if pair[0].id in before]
    rows = _judge_all(known, before)
    rest = [pair for pair in pairs if rows.get(_key(*pair)) is None]
    rows.update(_judge_all(rest, {}))
    return [row for pair in pairs if (row := rows[_key(*pair)])]


def _key(mutant: Mutant, clauses: frozenset[str]) -> tuple[str, frozenset[str]]:
    return mutant.id, clauses


def _judge_all(
    pairs: Sequence[tuple[Mutant, frozenset[str]]], before: Mapping[str, str]
) -> dict[tuple[str, frozenset[str]], Row | None]:
    """Run each mutant's test of ``before``, or all its tests if that is empty.

    The result of a mutant that its one test does not catch is None.
    """
    unchanged = _without_fault(pairs, before)

    def judge_one(pair: tuple[Mutant, frozenset[str]]) -> Row | None:
        mutant, clauses = pair
        test = before.get(mutant.id, "")
        row = judge(mutant, clauses, unchanged[_base(mutant)], test)
        if row.caught_by or not before:
            print(_line(row), flush=True)
            return row
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        rows = pool.map(judge_one, pairs)
        return {_key(*pair): row for pair, row in zip(pairs, rows, strict=True)}


def judge(
    mutant: Mutant, clauses: frozenset[str], unchanged: Result, test: str = ""
) -> Row:
    """Run the tests of these clauses, or only the given one, against a mutant."""
    try:
        result = run_trial(mutant, clauses, only=frozenset([test] if test else []))
    except MutantError as error:
        return Row(mutant, clauses, trouble=f"does not apply: {error}")
    if result.trouble:
        return Row(mutant, clauses, trouble=result.trouble)
    if not result.failed and not result.passed:
        return Row(mutant, clauses, trouble="no test ran")
    return Row(mutant, clauses, caught_by=_catch(result, clauses, unchanged))


def _catch(result: Result, clauses: frozenset[str], unchanged: Result) -> str:
    """Return a failed test that is a catch; empty if there is none."""
    for test, named in result.failed.items():
        if clauses & set(named) and test in unchanged.passed:
            return test
    return ""


def _base(mutant: Mutant) -> str:
    """Return the name of the base that a mutant is compared with."""
    if mutant.implementation:
        return REFERENCE
    return "the unchanged library" + (", locked kind" if mutant.locked else "")


def _without_fault(
    pairs: Sequence[tuple[Mutant, frozenset[str]]], before: Mapping[str, str]
) -> dict[str, Result]:
    """Run the tests used for all these mutants, without any fault."""
    ours = {name: [p for p in pairs if _base(p[0]) == name] for name in WITHOUT_FAULT}
    clauses: dict[str, frozenset[str]] = {
        name: frozenset().union(*(some for _, some in each))
        for name, each in ours.items()
    }
    only = {
        name: frozenset(before[mutant.id] for mutant, _ in each if before)
        for name, each in ours.items()
    }
    trials = [(name, part) for name in ours if ours[name] for part in range(PARTS)]

    def run_part(trial: tuple[str, int]) -> Result:
        name, part = trial
        return run_trial(WITHOUT_FAULT[name], clauses[name], part=part, only=only[name])

    passed: dict[str, frozenset[str]] = dict.fromkeys(WITHOUT_FAULT, frozenset())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for (name, _), result in zip(trials, pool.map(run_part, trials), strict=True):
            if result.trouble or result.failed:
                trouble = result.trouble or f"fails {', '.join(sorted(result.failed))}"
                print(f"{result.output}\n{name}: {trouble}")
                raise SystemExit(4)
            passed[name] |= result.passed
    for name, tests in passed.items():
        if tests:
            print(f"{name}: {len(tests)} tests pass", flush=True)
    return {name: Result(tests, {}) for name, tests in passed.items()}


def _line(row: Row) -> str:
    state = row.trouble or (f"caught by {row.caught_by}" if row.caught_by else "LIVES")
    clauses = " ".join(sorted(row.clauses))
    return f"{row.mutant.id:4} {clauses:24} {row.mutant.title}\n     {state}"


def by_clause() -> Iterable[tuple[Mutant, frozenset[str]]]:
    """Yield each clause of the hard groups with the first mutant that tests it."""
    for clause in hard_clauses():
        for mutant in CATALOGUE:
            if clause in mutant.clauses:
                yield mutant, frozenset({clause})
                break


def hard_clauses() -> list[str]:
    """Return the clauses in force of the hard groups, in order."""
    return [
        clause.id
        for clause in load_clauses().values()
        if not clause.withdrawn and clause.id.rpartition("-")[0] in HARD
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested mutants; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these mutants")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK)}")
    parser.add_argument(
        "--by-clause", action="store_true", help="each clause's own tests, run alone"
    )
    parser.add_argument(
        "--remember", action="store_true", help="note which test caught each mutant"
    )
    options = parser.parse_args(arguments)
    wanted = set(options.ids or (QUICK if options.quick else ()))
    if unknown := wanted - {mutant.id for mutant in CATALOGUE}:
        parser.error(f"no mutant {', '.join(sorted(unknown))}")
    pairs = (
        list(by_clause())
        if options.by_clause
        else [(mutant, frozenset(mutant.clauses)) for mutant in CATALOGUE]
    )
    began = time.monotonic()
    rows = run([pair for pair in pairs if not wanted or pair[0].id in wanted])
    caught = sum(bool(row.caught_by) for row in rows)
    broken = sum(bool(row.trouble) for row in rows)
    missing = _without() if options.by_clause and not wanted else 0
    if options.remember:
        found = {row.mutant.id: row.caught_by for row in rows if row.caught_by}
        write_catches({**read_catches(), **found})
    seconds = time.monotonic() - began
    print(
        f"\n{caught} caught, {len(rows) - caught - broken} alive, {broken} broken,"
        f" in {seconds:.0f} s"
    )
    if broken:
        return 4
    return 0 if caught == len(rows) and not missing else 1


def _without() -> int:
    """List the clauses without a mutant; return how many also lack a reason."""
    planted = {clause for mutant in CATALOGUE for clause in mutant.clauses}
    bare = [clause for clause in hard_clauses() if clause not in planted]
    print("\nwithout a mutant:" if bare else "\nevery clause has a mutant")
    for clause in bare:
        print(f"  {clause:12} {WITHOUT.get(clause, 'NO REASON GIVEN')}")
    return sum(clause not in WITHOUT for clause in bare)


if __name__ == "__main__":
    sys.exit(main())
