"""One scenario on one implementation: its stage, its driver, its outcome."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from queuebroker.testing import Failure, UncontrolledError
from specs.conformance import explored, real
from specs.conformance.level import run_level
from specs.conformance.scenario import Scenario, Style
from specs.conformance.stage import Driver, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run
    from specs.conformance.level import Level
    from specs.conformance.subject import Subject

__all__ = ["Outcome", "explorable", "make_stage", "perform"]

_HERE = Path(__file__).parent


@attrs.frozen
class Outcome:
    """What came of a scenario.

    driver: the name of the driver that ran it.
    trouble: what went against the clause, for a reader; None if nothing did.
    """

    driver: str
    trouble: str | None

    @property
    def passed(self) -> bool:
        """Whether the clauses hold, as far as this scenario sees."""
        return self.trouble is None


def make_stage(
    subject: Subject, scenario: Scenario, level: Level, driver: Driver
) -> Stage:
    """A fresh stage: a new world, and what is known of the implementation."""
    sized = "factory().channels" if scenario.channels else "broker.accept"
    return Stage(
        subject.factory,
        driver,
        takes_capacity=f"{sized}(capacity)" in subject.trial.met,
        found_capacity=None if scenario.channels else subject.trial.capacity,
        channels=scenario.channels,
        volume=level.volume,
    )


def explorable(subject: Subject, scenario: Scenario) -> Callable[[Run], None]:
    """The scenario as `queuebroker.testing.explore` and ``replay`` take it."""
    return explored.program(
        scenario, lambda driver: make_stage(subject, scenario, run_level(), driver)
    )


def perform(subject: Subject, scenario: Scenario, level: Level) -> Outcome:
    """Run the scenario, under the explorer if that can be."""

    def stage(driver: Driver) -> Stage:
        return make_stage(subject, scenario, level, driver)

    driver = real.NAME
    try:
        if subject.trial.explored and scenario.style is not Style.CROWD:
            try:
                driver = explored.NAME
                explored.perform(scenario, stage, level)
            except UncontrolledError:
                # Only this scenario meets what the explorer cannot drive.
                driver = real.NAME
                real.perform(scenario, stage, level)
        else:
            real.perform(scenario, stage, level)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return Outcome(driver, _tell(error))
    return Outcome(driver, None)


def _tell(error: Exception) -> str:
    """The error as a reader needs it: where a program stood, or where others raised."""
    if isinstance(error, Failure):
        return error.story  # it has all that
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, AssertionError):
        lines = [str(error)]
        places = [f for f in frames if Path(f.filename).parent == _HERE / "scenarios"]
    else:
        lines = [f"raised {type(error).__name__}: {error}"]
        places = [f for f in frames if Path(f.filename).parent != _HERE]
    lines += [f"  at {f.filename}:{f.lineno} in {f.name}: {f.line}" for f in places]
    if error.__cause__ is not None:
        lines += ["because of"]
        lines += "".join(traceback.format_exception(error.__cause__)).splitlines()
    return "\n".join(lines)
