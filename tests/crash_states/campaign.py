"""`campaign`: runs until a number of crash states is checked."""

from __future__ import annotations

from typing import Final

from tests.crash_states.run import Run, ViolationError
from tests.crash_states.system import System

__all__ = ["campaign"]

_RUNS_MAX: Final = 2**32  # of one campaign


def campaign(count: int, seed: int) -> int:
    """Check at least ``count`` states; return the number of states checked.

    Raises:
        ViolationError: a state violates a promise; its note names the run.
    """
    done = number = 0
    while done < count:
        system = System()
        run = Run(system, seed * _RUNS_MAX + number, states_max=count - done)
        with system.install():
            try:
                run.simulate()
            except ViolationError as error:
                error.add_note(f"seed {seed}, run {number}")
                raise
        done, number = done + run.states, number + 1
    return done
