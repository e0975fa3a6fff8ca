"""The races of the conformance suite, over the library itself, as scenarios.

Other tests run them at their own level; here they are surveyed like the other
scenarios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from specs.conformance import explored
from specs.conformance.level import run_level
from specs.conformance.performance import make_stage
from specs.conformance.scenario import Style
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import load
from tests.schedules.scenario import Scenario

if TYPE_CHECKING:
    from specs.conformance.scenario import Scenario as Shared
    from specs.conformance.stage import Driver, Stage
    from specs.conformance.subject import Subject

__all__ = ["shared_scenarios"]

LIBRARY: Final = "tests.conformance.own:factory"
GROUPS: Final = frozenset({"RDV", "SEND", "RECV", "DISC", "TIME", "CONC"})


def shared_scenarios() -> tuple[Scenario, ...]:
    """Return the races of the groups whose schedules matter most."""
    subject = load(LIBRARY, SCENARIOS)
    return tuple(
        _adapted(subject, one)
        for one in SCENARIOS
        if one.style is Style.RACE and one.groups & GROUPS
    )


def _adapted(subject: Subject, shared: Shared) -> Scenario:
    level = run_level("quick")  # its numbers are unused: the survey has its own

    def stage(driver: Driver) -> Stage:
        return make_stage(subject, shared, level, driver)

    return Scenario(
        f"conformance/{shared.name}",
        shared.clauses,
        explored.program(shared, stage),
        spurious=shared.spurious,
        quick=0,
    )
