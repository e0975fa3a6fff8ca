"""One scenario at one level: `survey`, and the `Finding` it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker.testing import Failure, explore
from tests.schedules.level import QUICK

if TYPE_CHECKING:
    from queuebroker.testing import Report
    from tests.schedules.level import Level
    from tests.schedules.scenario import Scenario

__all__ = ["SEED", "Finding", "check", "survey"]

# The same in every run, so that CI repeats itself; `--seed` gives others.
SEED = 1


@attrs.frozen
class Finding:
    """What came of a survey.

    report: how far it went; None if a schedule failed.
    doubled: the same with twice as many random schedules, if those were wanted.
    failure: the schedule that failed.
    """

    scenario: Scenario
    report: Report | None = None
    doubled: Report | None = None
    failure: Failure | None = None

    @property
    def schedules(self) -> int:
        """How many were run in all."""
        return sum(one.schedules for one in (self.report, self.doubled) if one)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return sum(one.seconds for one in (self.report, self.doubled) if one)

    @property
    def last(self) -> Report | None:
        """The report that went furthest."""
        return self.doubled or self.report


def survey(scenario: Scenario, level: Level, seed: int = SEED) -> Finding:
    """Try the schedules that a level asks for.

    To double the random ones the exhaustive part is run again too: what it has seen
    is what the random part is compared with.
    """
    bound = level.bound - (level.spares and scenario.wide)

    def look(random: int) -> Report:
        return explore(
            scenario.program,
            bound=bound,
            random=random,
            limit=level.limit,
            seed=seed,
            spurious=scenario.spurious,
        )

    try:
        report = look(level.random)
        doubled = None
        if level.doubles and report.saturated is False:
            doubled = look(2 * level.random)
    except Failure as failure:
        return Finding(scenario, failure=failure)
    return Finding(scenario, report, doubled)


def check(scenario: Scenario) -> None:
    """Survey at the level that is for every commit; a test of one scenario.

    Raises:
        Failure: a schedule goes wrong.
        AssertionError: there are more schedules than the level can try.
    """
    finding = survey(scenario, QUICK)
    if finding.failure is not None:
        raise finding.failure
    report = finding.report
    assert report is not None
    assert report.exhausted, f"too large for the level quick:\n{report}"
