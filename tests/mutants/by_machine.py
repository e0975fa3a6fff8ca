"""Tries the mutants that cosmic-ray makes, and prints the scores by folder."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from tests.mutants.catalogue import load_equivalents
from tests.mutants.collected import Collected
from tests.mutants.forks import NOT_SWAPPABLE, Forks, Trial
from tests.mutants.machine import FOLDERS, SEED, Change, Folder, marked, sample

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from tests.mutants.catalogue import Equivalent
    from tests.mutants.collected import Outcome

__all__ = ["try_changes"]

TARGET: Final = 0.95
QUICK: Final = {
    "bus/pattern/fair_queue.py": Folder(
        ("bus/pattern/fair_queue.py",), ("tests/pattern/test_fair_queue.py",), 8
    )
}
_SURVEY_S: Final = 300.0
_TESTS_S: Final = 20.0  # of the tests of one mutant, in all
_TEST_S: Final = 3.0  # of one test


@attrs.define
class _Score:
    """The counts of a folder: changes made, tried, caught, and known equivalents."""

    made: int = 0
    caught: int = 0
    alive: int = 0
    equivalent: int = 0

    @property
    def value(self) -> float:
        tried = self.caught + self.alive
        return self.caught / tried if tried else 1.0


class _Results:
    """The results of changes."""

    def __init__(self, tests: Collected, equivalents: Mapping[str, Equivalent]) -> None:
        self._tests: Final = tests
        self._equivalents: Final = equivalents
        # By folder and function: the tests that call it, with their seconds.
        self._calls: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        self.scores: dict[str, _Score] = defaultdict(_Score)
        self.broken = 0

    def surveys(
        self, folders: Mapping[str, Folder]
    ) -> Iterator[Generator[Trial, Outcome, None]]:
        """Yield, for each file of tests, what finds the functions that they call."""
        files = defaultdict[str, list[str]](list)
        for test in self._tests.tests:
            files[test.partition("::")[0]].append(test)
        for file, tests in files.items():
            names = [
                name
                for name, folder in folders.items()
                if any(Path(file).is_relative_to(each) for each in folder.tests)
            ]
            code = {each for name in names for each in folders[name].files()}
            yield self._survey(tests, names, {each: marked(each) for each in code})

    def _survey(
        self, tests: list[str], names: list[str], trees: Mapping[str, ast.Module]
    ) -> Generator[Trial, Outcome, None]:
        outcome = yield Trial(trees, tuple(tests), _SURVEY_S, survey=True)
        if outcome.trouble or outcome.failed:
            print(f"not used: {outcome.trouble or ', '.join(outcome.failed)}")
        for test, ran in outcome.passed.items():
            if ran.seconds < _TEST_S:
                for where in ran.called:
                    for name in names:
                        self._calls[name, where].append((ran.seconds, test))

    def judge(self, name: str, change: Change) -> Generator[Trial, Outcome, None]:
        """Yield the trial of a change, and count the result."""
        tree = change.tree()
        if tree is None:
            return
        score = self.scores[name]
        tests, total_s = list[str](), 0.0
        own = f"/test_{Path(change.file).name}::"
        calls = sorted(
            self._calls[name, change.place], key=lambda call: (own not in call[1], call)
        )
        for seconds, test in calls:
            total_s += seconds
            if tests and total_s > _TESTS_S:
                break
            tests.append(test)
        caught = ""
        if tests:
            limit_s = 5 + 4 * total_s
            outcome = yield Trial({change.file: tree}, tuple(tests), limit_s)
            if outcome.trouble == NOT_SWAPPABLE:
                trial = Trial({change.file: tree}, tuple(tests), limit_s, planted=True)
                outcome = yield trial
            caught = "".join(outcome.failed[:1])
            if outcome.trouble:
                self.broken += 1
                print(f"{change}\n  BROKEN: {outcome.trouble}", flush=True)
                return
        known = self._equivalents.get(ast.dump(tree))
        if known and caught:
            self.broken += 1
            print(f"{change}\n  NOT EQUIVALENT: caught by {caught}", flush=True)
        elif known:
            score.equivalent += 1
        elif caught:
            score.caught += 1
        else:
            score.alive += 1
            print(f"{change}\n  survives {len(tests)} tests", flush=True)

    def print_table(self) -> None:
        """Print the scores."""
        print(f"\n{'folder':30} places tried killed equivalent  score  (seed {SEED})")
        for name, score in self.scores.items():
            tried = score.caught + score.alive + score.equivalent
            print(
                f"{name:30} {score.made:6} {tried:5} {score.caught:6}"
                f" {score.equivalent:10} {score.value:5.0%}"
            )


def try_changes(name: str | None = None, *, quick: bool) -> int:
    """Try a sample of each folder, or all changes of one; return the exit code."""
    os.environ["TEST_LIMIT_S"] = "5"  # in a mutant a wait that never ends is usual
    folders = QUICK if quick else FOLDERS if name is None else {name: FOLDERS[name]}
    code = 4

    def work(tests: Collected) -> None:
        nonlocal code
        results = _Results(tests, _known())
        forks = Forks(tests)
        try:
            forks.run(results.surveys(folders))
            forks.run(_judged(results, folders, whole=name is not None))
        finally:
            forks.close()
        results.print_table()
        low = any(each.value < TARGET for each in results.scores.values())
        code = 4 if results.broken else int(low)

    paths = {each for folder in folders.values() for each in folder.tests}
    if trouble := Collected(work).main(sorted(paths)):
        print(trouble)
        return 4
    return code


def _judged(
    results: _Results, folders: Mapping[str, Folder], *, whole: bool
) -> Iterator[Generator[Trial, Outcome, None]]:
    for name, folder in folders.items():
        changes = sample(folder)
        results.scores[name].made = len(changes)
        for change in changes if whole else changes[: folder.count]:
            yield results.judge(name, change)


def _known() -> dict[str, Equivalent]:
    """Return the equivalent mutants by their changed modules.

    Raises:
        MutantError: one does not apply.
    """
    found = {}
    for each in load_equivalents():
        [tree] = each.trees().values()
        found[ast.dump(tree)] = each
    return found
