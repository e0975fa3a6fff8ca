"""Hooks that make the folder a suite: the choice of tests, and the report at the end.

`queuebroker.testing.plugin`, not this file, defines the option ``--conformance``, so
that it exists wherever the package is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specs.conformance.level import run_level
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import Subject, SubjectError, load
from specs.conformance.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Generator

HERE = Path(__file__).parent
SUBJECT = pytest.StashKey[Subject]()
VERDICT = pytest.StashKey[Verdict]()
DESELECTED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Stay in this process: there is one verdict, and pytest-xdist would make several.

    Called only if the command line names the suite or has ``--conformance``.
    """
    if getattr(config.option, "dist", "no") != "no":
        config.option.dist, config.option.tx = "no", []


def _is_ours(item: pytest.Item) -> bool:
    return item.path.parent == HERE and isinstance(item, pytest.Function)


@pytest.hookimpl(trylast=True)  # what -k and -m leave over
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep the scenarios that the implementation offers; without one, keep none."""
    ours = [item for item in items if _is_ours(item)]
    source = config.getoption("conformance", None)
    if source is not None and not items and config.option.keyword:
        raise pytest.UsageError(f"no scenario matches -k {config.option.keyword!r}")
    if not ours:
        return
    if source is None:
        dropped = ours
        config.stash[DESELECTED] = True
    else:
        dropped = _not_offered(config, source, ours)
    if dropped:
        items[:] = [item for item in items if item not in dropped]
        config.hook.pytest_deselected(items=dropped)


def _not_offered(
    config: pytest.Config, source: str, ours: list[pytest.Item]
) -> list[pytest.Item]:
    try:
        run_level()
        subject = load(source, SCENARIOS)
    except (SubjectError, ValueError) as error:
        raise pytest.UsageError(str(error)) from None
    config.stash[SUBJECT] = subject
    config.stash[VERDICT] = verdict = Verdict(source)
    dropped = []
    for item in ours:
        scenario = item.callspec.params["scenario"]  # type: ignore[attr-defined] # _is_ours
        why = subject.lacks(scenario)
        if why is not None:
            verdict.note_missing(scenario, why)
            dropped.append(item)
    return dropped


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """Return the implementation under test."""
    return request.config.stash[SUBJECT]


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """Return the verdict, which records the outcome of each scenario."""
    return request.config.stash[VERDICT]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print the report after all other output of pytest."""
    config = session.config
    nothing_run = session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if nothing_run and config.stash.get(DESELECTED, False):
        session.exitstatus = pytest.ExitCode.OK
    yield
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    if config.stash.get(DESELECTED, False):
        reporter.write_line(
            "conformance: no implementation given; say --conformance FILE:factory"
        )
    if VERDICT in config.stash:
        for line in config.stash[VERDICT].lines():
            reporter.write_line(line)
