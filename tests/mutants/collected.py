"""`Collected`: a pytest plugin that runs collected tests one by one, on request."""

from __future__ import annotations

import builtins
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
import pytest

from tests.mutants.library import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["NOTE", "Collected", "Outcome", "Ran"]

NOTE: Final = "__note_call__"
_OWN: Final = "tests/conformance/own.py:factory"


@attrs.frozen
class Ran:
    """A test that passed: the seconds that it took, and the functions that it called.

    called: what it has passed to the function `NOTE`, which marked functions call.
    """

    seconds: float
    called: frozenset[str] = frozenset()


@attrs.frozen
class Outcome:
    """The result of some tests.

    failed: those that failed. trouble: why there is no result; empty if there is one.
    """

    passed: Mapping[str, Ran] = attrs.field(factory=dict)
    failed: tuple[str, ...] = ()
    trouble: str = ""

    def write(self, file: Path) -> None:
        """Write it into a file, in one step."""
        passed = {
            test: [ran.seconds, sorted(ran.called)] for test, ran in self.passed.items()
        }
        part = file.with_suffix(".part")
        part.write_text(json.dumps([passed, self.failed, self.trouble]))
        part.rename(file)

    @classmethod
    def read(cls, file: Path) -> Outcome:
        """Read what `write` has written."""
        passed, failed, trouble = json.loads(file.read_text())
        ran = {
            test: Ran(seconds, frozenset(called))
            for test, (seconds, called) in passed.items()
        }
        return cls(ran, tuple(failed), trouble)


class Collected:
    """Collects the tests of some files in this process and calls a function.

    Args:
        work: called once they are collected.
    """

    def __init__(self, work: Callable[[Collected], None]) -> None:
        self._work: Final = work
        self._items: dict[str, pytest.Item] = {}
        self._passed: dict[str, Ran] = {}
        self._failed: set[str] = set()
        self._file: Path | None = None

    def main(self, files: Sequence[str]) -> str:
        """Collect the tests of these files, and work; return the trouble if any."""
        os.chdir(ROOT)
        arguments = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:terminal"]
        # A planted copy is imported before pytest starts.
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        # Else the tree of the tests comes first on the path with each package that is
        # set up, and programs that tests start import the unchanged library from it.
        arguments += ["--capture=no", "-n0", "--import-mode=append"]
        if any(each.startswith("tests/") for each in files):  # `conftest.py` defines it
            arguments += ["--hypothesis-profile=mutants"]
        arguments += ["--conformance", _OWN, *files]
        code = pytest.main(arguments, plugins=[self])
        return "" if code == pytest.ExitCode.OK else f"pytest ends with {code!r}"

    @property
    def tests(self) -> Mapping[str, frozenset[str]]:
        """The tests, with the clauses that each names, itself or by its scenario."""
        return {test: _clauses(item) for test, item in self._items.items()}

    def run(
        self, tests: Iterable[str], file: Path, *, survey: bool = False
    ) -> NoReturn:
        """Run tests in order; write the outcome to a file, and end this process.

        survey: note the functions that each test calls, and run all; else the end is at
          the first failure, without a teardown: that of a broken test may take long.
        """
        self._file = None if survey else file
        called = set[str]()
        setattr(builtins, NOTE, called.add)  # any module finds it there
        for test in tests:
            item = self._items.get(test)
            if item is None:
                self._end(file, f"there is no test {test}")
            called.clear()
            began = time.monotonic()
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            except KeyboardInterrupt:  # that of the test itself, by a mutant
                self._failed.add(test)
                if self._file is not None:
                    self._end(self._file)
            if test in self._passed and test not in self._failed:
                self._passed[test] = Ran(time.monotonic() - began, frozenset(called))
        self._end(file)

    def _end(self, file: Path, trouble: str = "") -> NoReturn:
        passed = {
            test: ran for test, ran in self._passed.items() if test not in self._failed
        }
        Outcome(passed, tuple(self._failed), trouble).write(file)
        os._exit(0)  # threads that a mutant left behind do not matter

    def uses(self, tests: Iterable[str], module: str) -> bool:
        """Tell whether one of the tests has anything from a module of helpers."""
        waiting, seen = list[str](), set[str]()
        for item in filter(None, map(self._items.get, tests)):
            fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
            waiting += [
                each.func.__module__ for some in fixtures.values() for each in some
            ]
            waiting.append(item.module.__name__)  # type: ignore[attr-defined]
        while waiting:
            name = waiting.pop()
            if name in seen or not name.startswith(("tests", "specs")):
                continue
            seen.add(name)
            for each in vars(sys.modules[name]).values():
                owner = getattr(each, "__module__", None) or getattr(
                    each, "__name__", ""
                )
                if isinstance(owner, str) and owner in sys.modules:
                    waiting.append(owner)
        return module in seen

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Call the function instead of running all tests."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors in collection")
        self._items = {item.nodeid: item for item in session.items}
        # Tests make their directories in this one, which is made here once.
        tmp_path_factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        tmp_path_factory.getbasetemp()
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a report."""
        if report.failed:
            self._failed.add(report.nodeid)
            if self._file is not None:
                self._end(self._file)
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = Ran(0.0)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Show an error in collection: nothing else reports it."""
        if report.failed:
            print(report.longrepr, file=sys.stderr)


def _clauses(item: pytest.Item) -> frozenset[str]:
    found = getattr(getattr(item, "function", None), "__clauses__", None)
    if found is None and (call := getattr(item, "callspec", None)) is not None:
        found = getattr(call.params.get("scenario"), "clauses", None)
    return frozenset(found or ())
