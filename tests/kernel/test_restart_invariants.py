"""The properties of the model of restarts, asserted on the code step by step."""

from __future__ import annotations

import pytest

from specs.clauses import clause
from specs.promela.model import MODELS
from tests.kernel import restart_invariants
from tests.kernel.restart_invariants import Scene

STEPS = 800
(MODEL,) = (model for model in MODELS if model.name == "restarts")


@pytest.mark.deep
@clause("AMO-8", "AMO-16", "AMO-17", "AMO-19", "AMO-20", "AMO-22")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_every_safety_property_of_the_model_holds_at_every_step(
    seed: int, *, durable: bool
) -> None:
    """With restarts of either side, a clock set back, and frames of former links."""
    scene = Scene(seed, durable=durable)
    asserted = [getattr(restart_invariants, name) for name in MODEL.safety()]

    for _ in range(STEPS):
        scene.step()
        for invariant in asserted:
            invariant(scene)
    scene.settle()
    for invariant in asserted:
        invariant(scene)

    assert len(scene.delivered) > 20
    assert {outcome for _, outcome in scene.reported} >= {"acknowledged", "undelivered"}
