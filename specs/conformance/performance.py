"""One scenario on one implementation: its stage, its driver, its outcome."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import attrs

from queuebroker.testing import Failure, Run, UncontrolledError
from specs.conformance import explored, real
from specs.conformance.level import Level, run_level
from specs.conformance.scenario import Scenario, Style
from specs.conformance.stage import Driver, Stage
from specs.conformance.subject import Subject

__all__ = ["Outcome", "explorable", "make_stage", "perform"]

_HERE = Path(__file__).parent


@attrs.frozen
class Outcome:
    """The outcome of a scenario.

    driver: the name of the driver that ran it.
    trouble: a description of the violation; None if there was none.
    """

    driver: str
    trouble: str | None

    @property
    def passed(self) -> bool:
        """True if the clauses hold, as far as this scenario shows."""
        return self.trouble is None


def make_stage(
    subject: Subject, scenario: Scenario, level: Level, driver: Driver
) -> Stage:
    """Return a new stage: a new world, and the findings of the trial."""
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
    """Return the scenario as a program for `queuebroker.testing.explore`."""
    return explored.program(
        scenario, lambda driver: make_stage(subject, scenario, run_level(), driver)
    )


def perform(subject: Subject, scenario: Scenario, level: Level) -> Outcome:
    """Run the scenario, under the explorer if possible."""

    def stage(driver: Driver) -> Stage:
        return make_stage(subject, scenario, level, driver)

    driver = real.NAME
    try:
        if subject.trial.explored and scenario.style is not Style.CROWD:
            try:
                driver = explored.NAME
                explored.perform(scenario, stage, level)
            except UncontrolledError:
                # Only this scenario uses a primitive that the explorer cannot control.
                driver = real.NAME
                real.perform(scenario, stage, level)
        else:
            real.perform(scenario, stage, level)
    except Exception as error:  # noqa: BLE001 - any error is the outcome
        return Outcome(driver, _tell(error))
    return Outcome(driver, None)


def _tell(error: Exception) -> str:
    """Describe the error with the lines of the program, or those of other code."""
    if isinstance(error, Failure):
        return error.story  # has these lines already
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
