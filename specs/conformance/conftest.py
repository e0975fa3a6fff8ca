"""What makes the folder a suite: which tests to keep, and the report at the end.

The option ``--conformance`` is not defined here but by `queuebroker.testing.plugin`,
so that it is known wherever the package is installed.
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

    Asked only where the suite is named on the command line, or ``--conformance`` is.
    """
    if getattr(config.option, "dist", "no") != "no":
        config.option.dist, config.option.tx = "no", []


def _is_ours(item: pytest.Item) -> bool:
    return item.path.parent == HERE and isinstance(item, pytest.Function)


@pytest.hookimpl(trylast=True)  # what -k and -m leave over
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Keep what the implementation offers; without one, nothing."""
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
    """The implementation under test."""
    return request.config.stash[SUBJECT]


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """Where the outcome of each scenario is noted."""
    return request.config.stash[VERDICT]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print the report after everything else pytest has to say."""
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
