"""The pytest plugin of a trial: keeps the tests of some clauses, records the outcomes.

Loaded with ``-p tests.mutants.selection`` and configured by environment variables,
because the project adds no options to pytest. It is loaded first, so it also checks
that the library under test is the mutated copy.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bus
import queuebroker

if TYPE_CHECKING:
    from collections.abc import Generator

CLAUSES = "MUTANT_CLAUSES"
LIBRARY = "MUTANT_LIBRARY"
ONLY = "MUTANT_ONLY"
REPORT = "MUTANT_REPORT"

_results: list[dict[str, object]] = []


def clauses_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the clauses a test names, itself or through its scenario."""
    found = getattr(getattr(item, "function", None), "__clauses__", None)
    if found is None and (call := getattr(item, "callspec", None)) is not None:
        found = getattr(call.params.get("scenario"), "clauses", None)
    return tuple(found or ())


def pytest_configure() -> None:
    """Raise unless the library under test is the given copy."""
    library = Path(os.environ[LIBRARY]).resolve()
    for package in (queuebroker, bus):
        file = str(package.__file__)
        if library not in Path(file).resolve().parents:
            pytest.exit(f"not the library under test: {file}", 3)


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the tests of the given clauses; of these the given tests, if any are."""
    wanted = set(os.environ[CLAUSES].split())
    only = set(os.environ[ONLY].splitlines())
    kept = [
        item
        for item in items
        if wanted & set(clauses_of(item)) and (not only or item.nodeid in only)
    ]
    dropped = [item for item in items if item not in kept]
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the outcome of each test."""
    report = yield
    if report.when == "call" or report.failed:
        _results.append(
            {
                "test": item.nodeid,
                "clauses": clauses_of(item),
                "outcome": report.outcome,
                "phase": call.when,
            }
        )
    return report


def pytest_sessionfinish() -> None:
    """Write the outcomes, even if the run was cut short."""
    Path(os.environ[REPORT]).write_text(json.dumps(_results))
