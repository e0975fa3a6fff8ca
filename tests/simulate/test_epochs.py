"""A process whose clock was set back before it was started again (AMO-17)."""

from __future__ import annotations

import pytest

from bus.kernel import constants
from bus.kernel.wire import OpenStream
from specs.clauses import clause
from tests.simulate.stage import Stage

LOST_S = constants.RELINK_TIMEOUT_S + 1.0


@clause("AMO-16", "AMO-17")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["s2", "s3"])
def test_a_process_whose_clock_was_set_back_takes_a_greater_epoch(
    name: str, seed: int
) -> None:
    """Its peers remember its last epoch, and name it in their first frame."""
    stage = Stage(slaves=2, seed=seed)
    reader = stage.task("reader", "s3")
    sender = stage.task("sender", "s2")
    stage.send(sender, "reader", 3)
    stage.soon()
    before = _epochs(stage, name)
    stage.process(name).die()
    stage.soon(LOST_S)

    stage.forget()
    stage.world.start("m1", name, life=1)
    stage.soon(LOST_S)
    if name == "s2":
        sender = stage.task("sender", "s2")
    else:
        reader = stage.task("reader", "s3")
    commands = stage.send(sender, "reader", 3)
    stage.soon(LOST_S)

    assert [each.taken_by for each in commands] == [reader.entry.id] * 3
    after = _epochs(stage, name)
    assert min(after) < min(before) <= max(before) < max(after)
    assert len(after) <= 6


def _epochs(stage: Stage, name: str) -> list[int]:
    frames = stage.frames(name)
    return [frame.epoch for frame in frames if isinstance(frame, OpenStream)]
