"""One scenario at one level: `survey`, and the `Finding` it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker import bell, fast_queue, lane, lane_connection, sleepers, waiting
from queuebroker.testing import Failure, explore
from tests.schedules.level import QUICK

if TYPE_CHECKING:
    from queuebroker.testing import Report
    from tests.schedules.level import Level
    from tests.schedules.scenario import Scenario

__all__ = ["SEED", "Finding", "check", "survey"]

# The same in every run, so that CI repeats itself; `--seed` gives others.
SEED = 1

# All that is done without the lock.
FAST = (
    fast_queue.FastMessageQueue,
    lane,
    lane_connection,
    sleepers,
    bell,
    waiting,
)


@attrs.frozen
class Finding:
    """What came of a survey.

    report: how far it went; None if a schedule failed.
    doubled: of twice as many random schedules alone, if those were wanted.
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
    def saturated(self) -> bool:
        """Whether the last half of the random schedules showed no new class."""
        last = self.doubled or self.report
        return last is not None and last.saturated is not False


def survey(scenario: Scenario, level: Level, seed: int = SEED) -> Finding:
    """Try the schedules that a level asks for.

    When the random ones are doubled, what the first run saw is judged afresh: only
    the exhaustive part is not repeated.
    """
    bound = scenario.quick if level.bound is None else level.bound
    random = max(level.least, round(level.random * scenario.share))

    def look(bound: int, limit: int, random: int) -> Report:
        return explore(
            scenario.program,
            bound=bound,
            random=random,
            limit=limit,
            seed=seed,
            spurious=scenario.spurious,
            bytecode=FAST if level.bytecode else (),
        )

    try:
        report = look(bound, level.limit, random)
        doubled = None
        if level.doubles and report.saturated is False:
            doubled = look(0, 1, 2 * random)
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
