"""A program under exploration: `Experiment` runs it once, under one strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker.testing.program import NotPlainError, ran_nothing
from queuebroker.testing.renewal import renew, renewable
from queuebroker.testing.run import Run
from queuebroker.testing.scheduler import Scheduler
from queuebroker.testing.supervise import perform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from queuebroker.testing.bytecode import Bytecode
    from queuebroker.testing.failure import Trouble
    from queuebroker.testing.housekeeping import Housekeeper
    from queuebroker.testing.recorder import Recorder
    from queuebroker.testing.scheduling import Strategy

__all__ = ["Experiment", "Outcome"]


@attrs.frozen
class Outcome:
    """The outcome of one run.

    fingerprint: equal for runs of one class; undefined if there was trouble.
    """

    trouble: Trouble | None
    fingerprint: int
    steps: int
    preemptions: int


class Experiment:
    """A program, with the settings that are the same in all its runs."""

    def __init__(
        self,
        program: Callable[[Run], object],
        housekeeper: Housekeeper,
        *,
        spurious: int = 0,
        modules: Sequence[ModuleType] = (),
        bytecode: Bytecode | None = None,
    ) -> None:
        self._program = program
        self._housekeeper = housekeeper
        self._made_before = renewable(modules)
        self.spurious = spurious
        self.modules = modules
        self.bytecode = bytecode

    def run(
        self,
        strategy: Strategy,
        *,
        release_points: bool = True,
        recorder: Recorder | None = None,
    ) -> Outcome:
        """Run the program once, from the beginning to the end of its last task.

        Raises:
            NotPlainError: the program returned a coroutine or a generator, whose code
                has not run. That is no failure of a schedule.
        """
        scheduler = Scheduler(
            strategy,
            release_points=release_points,
            spurious=self.spurious,
            bytecode=self.bytecode,
            recorder=recorder,
        )
        program = self._program
        run = Run(scheduler)
        nothing_ran = False

        def body() -> None:
            nonlocal nothing_ran
            renew(self._made_before)
            nothing_ran = ran_nothing(program(run))

        fingerprint = perform(scheduler, body)
        self._housekeeper.tidy()
        if nothing_ran:
            raise NotPlainError
        return Outcome(
            scheduler.trouble, fingerprint, scheduler.steps, scheduler.preemptions
        )
