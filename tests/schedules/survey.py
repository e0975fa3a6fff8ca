"""One scenario at one level: `survey`, and the `Finding` it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker import first as waiting
from queuebroker.lockfree import (
    fast_queue,
    lock_free_buffer,
    lock_free_connection,
    sleepers,
)
from queuebroker.testing import Failure, explore
from queuebroker.waiting import parking
from tests.depth import FULL, among
from tests.schedules.level import BRIEF, QUICK

if TYPE_CHECKING:
    from queuebroker.testing import Report
    from tests.schedules.level import Level
    from tests.schedules.scenario import Scenario

__all__ = ["SEED", "Finding", "check", "survey"]

# The same in every run, so that CI is repeatable; `--seed` sets another.
SEED = 1

# Every operation without the lock.
FAST = (
    fast_queue.FastMessageQueue,
    lock_free_buffer,
    lock_free_connection,
    sleepers,
    parking.SharedParker,
    waiting,
)


@attrs.frozen
class Finding:
    """The result of a survey.

    report: how far it went; None if a schedule failed.
    doubled: report of twice as many random schedules alone, if the level asked for it.
    failure: the schedule that failed.
    """

    scenario: Scenario
    report: Report | None = None
    doubled: Report | None = None
    failure: Failure | None = None

    @property
    def schedules(self) -> int:
        """Number of schedules run in all."""
        return sum(one.schedules for one in (self.report, self.doubled) if one)

    @property
    def seconds(self) -> float:
        """Duration in all."""
        return sum(one.seconds for one in (self.report, self.doubled) if one)

    @property
    def saturated(self) -> bool:
        """True if the last half of the random schedules showed no new class."""
        last = self.doubled or self.report
        return last is not None and last.saturated is not False


def survey(scenario: Scenario, level: Level, seed: int = SEED) -> Finding:
    """Try the schedules that a level asks for.

    If the random ones are doubled, the results of the first run do not count: only the
    exhaustive part is not repeated.
    """
    bound = scenario.quick if level.bound is None else level.bound
    # With a switch point at each instruction, nearly every schedule is a class of its
    # own: more of them never saturate.
    random, doubles = level.least, level.doubles and not scenario.inside
    if not scenario.inside:
        random = max(random, round(level.random * scenario.share))

    def look(bound: int, limit: int, random: int) -> Report:
        return explore(
            scenario.program,
            bound=bound,
            random=random,
            limit=limit,
            seed=seed,
            spurious=scenario.spurious,
            bytecode=(*scenario.inside, *(FAST if level.bytecode else ())),
        )

    try:
        report = look(bound, level.limit, random)
        doubled = None
        if doubles and report.saturated is False:
            doubled = look(0, 1, 2 * random)
    except Failure as failure:
        return Finding(scenario, failure=failure)
    return Finding(scenario, report, doubled)


def check(scenario: Scenario) -> None:
    """Survey a scenario at the level that runs on every commit, or at a shorter one.

    Raises:
        Failure: a schedule goes wrong.
        AssertionError: there are more schedules than the level quick can try.
    """
    random = among(5, QUICK.random)
    limit = QUICK.limit if FULL else among(20, 5 * BRIEF.limit)
    level = attrs.evolve(
        QUICK if FULL else BRIEF, limit=limit, random=random, least=random
    )
    finding = survey(scenario, level)
    if finding.failure is not None:
        raise finding.failure
    report = finding.report
    assert report is not None
    assert report.exhausted or not FULL, f"too large for the level quick:\n{report}"
