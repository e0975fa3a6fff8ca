"""The driver of the explorer: every schedule up to a bound, on a virtual clock.

For implementations in pure Python threading. "Still waiting" is exact here: no thread
can go on unless a deadline passes. The explorer is `queuebroker.testing`, a tool; the
implementation under test need not use ``queuebroker``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queuebroker.testing import Failure, UncontrolledError, explore

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing import Run, Spawned
    from specs.conformance.call import Call
    from specs.conformance.level import Level
    from specs.conformance.scenario import Scenario
    from specs.conformance.stage import Stage

    MakeStage = Callable[["ExploredDriver"], Stage]

__all__ = ["NAME", "ExploredDriver", "controls", "perform", "program"]

NAME = "explorer"


class ExploredDriver:
    """A driver whose threads the explorer schedules. Satisfies `stage.Driver`."""

    name = NAME

    def __init__(self, run: Run) -> None:
        self._run = run
        self._spawned: dict[Call, Spawned[None]] = {}

    def start(self, call: Call) -> None:
        """Begin the call as a task of the run."""
        self._spawned[call] = self._run.spawn(call.run, name=call.text)

    def join(self, call: Call) -> None:
        """Wait for the task; if it never ends, the explorer reports a deadlock."""
        self._spawned[call].join()

    def settle(self) -> None:
        """Return when no other task can go on, deadlines apart."""
        self._run.settle()

    def now(self) -> float:
        """Return the virtual time, in seconds."""
        return self._run.now

    def pause(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._run.sleep(seconds)

    def interrupt(self, call: Call, error: BaseException) -> None:
        """Raise ``error`` where the task waits."""
        self._run.interrupt(self._spawned[call], error)


def program(scenario: Scenario, make_stage: MakeStage) -> Callable[[Run], None]:
    """Return the scenario in the form that the explorer requires."""

    def run_once(run: Run) -> None:
        stage = make_stage(ExploredDriver(run))
        scenario.program(stage)
        stage.strike()

    return run_once


def perform(scenario: Scenario, make_stage: MakeStage, level: Level) -> None:
    """Try the schedules that ``level`` selects.

    Raises:
        AssertionError: one of them breaks a clause; the text is its story.
        UncontrolledError: the implementation uses a primitive that the explorer cannot
            control.
    """
    explore(
        program(scenario, make_stage),
        bound=level.bound,
        random=level.random,
        limit=level.limit,
        spurious=scenario.spurious,
        seed=0,
    )


def controls(program: Callable[[ExploredDriver], None]) -> bool:
    """Return True if one schedule runs under the explorer, with any outcome."""
    try:
        explore(lambda run: program(ExploredDriver(run)), bound=0, random=0, limit=1)
    except UncontrolledError:
        return False
    except Failure:
        pass
    return True
