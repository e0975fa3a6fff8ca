"""The pytest11 entry point: ``--conformance``, and the fixture `explore`.

Every pytest loads it if the package is installed. So it must stay small, import the
explorer only when a test requests the fixture, and otherwise do nothing. The suite for
``--conformance`` is in ``specs/conformance``; it runs if the command line has no path.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.report import Report
    from queuebroker.testing.run import Run

__all__ = ["explore", "pytest_addoption", "pytest_load_initial_conftests"]

# Both packages are in one distribution, side by side. The import system could find a
# ``specs`` of another distribution.
_SUITE = Path(__file__).parents[2] / "specs" / "conformance"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the conformance suite, and those of the fixture."""
    group = parser.getgroup("queuebroker")
    group.addoption(
        "--conformance",
        metavar="FILE:factory",
        default=None,
        help="test this implementation of the channel contract; also module:factory",
    )
    group.addoption(
        "--explore-schedules",
        metavar="N",
        type=_positive,
        default=None,
        help="for the fixture `explore`: N schedules up to the bound, and N at random",
    )
    group.addoption(
        "--explore-seed",
        metavar="S",
        default=None,
        help="for the fixture `explore`: the seed that a failure has told",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} is no number of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Select the conformance suite if the option is given without a path."""
    known = early_config.known_args_namespace
    if known.conformance is not None and not known.file_or_dir:
        args.append(str(_SUITE))


@pytest.fixture
def explore(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`queuebroker.testing.explore`, with the options of the command line.

    The options override those of the test. If the test fails, its report has the seed.
    """
    from queuebroker import testing  # noqa: PLC0415 # only for tests that explore

    schedules = request.config.getoption("explore_schedules")
    given: dict[str, Any] = {}
    if schedules is not None:
        given |= {"limit": schedules, "random": schedules}
    if (seed := request.config.getoption("explore_seed")) is not None:
        given["seed"] = seed

    def explored(program: Callable[[Run], object], **options: Any) -> Report:
        __tracebackhide__ = True
        chosen = options | given
        if chosen.get("seed") is None:
            chosen["seed"] = int.from_bytes(os.urandom(4), "big")
        told = f"--explore-seed={chosen['seed']}"
        request.node.add_report_section("call", "schedules explored", told)
        try:
            return testing.explore(program, **chosen)
        except testing.Failure as failure:
            # The explorer's own frames do not help the author of the test.
            raise failure.with_traceback(None) from failure.__cause__

    return explored
