"""Interrupts of decisions about other processes lose no action of an earlier one."""

from __future__ import annotations

import pytest

from bus.kernel.tasks.actions import Action, Settled
from bus.process.registration import undoable
from specs.clauses import clause
from tests.simulate.mesh import Mesh


@clause("BUS-DEREG-12")
@pytest.mark.parametrize("taken", [False, True])
def test_a_second_interrupt_loses_no_action_that_the_first_has_left(
    *, taken: bool
) -> None:
    """Whether it comes before the decision takes the actions to return, or after."""
    process = Mesh(1).start("m1", "s1", master=True)
    remote, left = process.remote, Settled(lambda: None)

    def leave() -> list[Action]:
        remote.topology.todo.append(left)
        raise KeyboardInterrupt

    def take() -> list[Action]:
        if taken:
            remote.tick(0.0)
        raise KeyboardInterrupt

    for event in (leave, take):
        with pytest.raises(KeyboardInterrupt):
            undoable(process.manager, event)

    assert undoable(process.manager, lambda: remote.tick(0.0)) == [left]
