"""The pytest11 entry point: ``--conformance``, and the fixture `explore`.

It is loaded with every pytest of whoever has the package installed, so it must stay
this small, import the explorer only when a test asks for it, and do nothing where none
does. The suite that ``--conformance`` is for lies in ``specs/conformance``; without a
path on the command line it is what runs.
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

# Both packages are of one distribution, so one lies beside the other. Asking the
# import system instead could find somebody else's ``specs``.
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
    """With the option and without a path, the suite is what to run."""
    known = early_config.known_args_namespace
    if known.conformance is not None and not known.file_or_dir:
        args.append(str(_SUITE))


@pytest.fixture
def explore(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """`queuebroker.testing.explore`, with the options of the command line.

    These win over what the test says. Should the test fail, its report tells the seed.
    """
    from queuebroker import testing  # noqa: PLC0415 # not for those who do not explore

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
            # What the explorer did to find it is of no interest to the test's author.
            raise failure.with_traceback(None) from failure.__cause__

    return explored
