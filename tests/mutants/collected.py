"""`Collected`: a pytest plugin that runs collected tests one by one, on request."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from tests.mutants.library import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["Collected", "Outcome"]

_OWN: Final = "tests/conformance/own.py:factory"


@attrs.frozen
class Outcome:
    """The result of some tests, of which the first that fails is the last.

    failed: that test; empty if none fails.
    passed: the number of those that passed.
    trouble: why there is no result; empty if there is one.
    seconds: the time that they took.
    """

    failed: str = ""
    passed: int = 0
    trouble: str = ""
    seconds: float = 0.0


class Collected:
    """Collects the tests of some files in this process and calls a function.

    Args:
        work: called once they are collected.
    """

    def __init__(self, work: Callable[[Collected], None]) -> None:
        self._work: Final = work
        self._items: dict[str, pytest.Item] = {}
        self._reports: list[pytest.TestReport] = []

    def main(self, files: Iterable[str]) -> str:
        """Collect the tests of these files, and work; return the trouble if any."""
        os.chdir(ROOT)
        arguments = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:terminal"]
        # A planted copy is imported before pytest starts.
        arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        arguments += ["--hypothesis-profile=mutants", "--capture=no", "-n0", "--conformance", _OWN, *files]
        code = pytest.main(arguments, plugins=[self])
        return "" if code == pytest.ExitCode.OK else f"pytest ends with {code!r}"

    def run(self, tests: Iterable[str]) -> Outcome:
        """Run tests in order, up to the first that fails."""
        began, passed = time.monotonic(), 0
        for test in tests:
            item = self._items.get(test)
            if item is None:
                return Outcome(trouble=f"there is no test {test}")
            self._reports.clear()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if any(report.failed for report in self._reports):
                if os.environ.get("MUT_DEBUG"):
                    for r in self._reports:
                        if r.failed: print("FAILED", r.nodeid, r.longrepr, r.sections)
                return Outcome(test, passed, seconds=time.monotonic() - began)
            passed += all(report.passed for report in self._reports)
        return Outcome("", passed, seconds=time.monotonic() - began)

    def uses(self, tests: Iterable[str], module: str) -> bool:
        """Tell whether one of the tests has anything from a module of helpers."""
        waiting, seen = [], set[str]()
        for item in filter(None, map(self._items.get, tests)):
            fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
            waiting += [each.func.__module__ for some in fixtures.values() for each in some]
            waiting.append(item.module.__name__)  # type: ignore[attr-defined]
        while waiting:
            name = waiting.pop()
            if name in seen or not name.startswith(("tests", "specs")):
                continue
            seen.add(name)
            for each in vars(sys.modules[name]).values():
                owner = getattr(each, "__module__", None) or getattr(each, "__name__", "")
                if isinstance(owner, str):
                    waiting.append(owner)
        return module in seen

    @property
    def clauses(self) -> Mapping[str, frozenset[str]]:
        """The clauses that each test names, itself or through its scenario."""
        return {test: _clauses(item) for test, item in self._items.items()}

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
        self._reports.append(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Show an error in collection: nothing else reports it."""
        if report.failed:
            print(report.longrepr, file=sys.stderr)


def _clauses(item: pytest.Item) -> frozenset[str]:
    found = getattr(getattr(item, "function", None), "__clauses__", None)
    if found is None and (call := getattr(item, "callspec", None)) is not None:
        found = getattr(call.params.get("scenario"), "clauses", None)
    return frozenset(found or ())
