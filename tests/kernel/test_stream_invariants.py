"""The properties of the stream model, asserted on the code step by step."""

from __future__ import annotations

import pytest

from specs.clauses import clause
from specs.promela.model import MODELS
from tests.kernel import stream_invariants
from tests.kernel.stream_invariants import Scene

STEPS = 400
(MODEL,) = (model for model in MODELS if model.name == "stream")


@pytest.mark.deep
@clause("AMO-9", "AMO-10", "AMO-12", "AMO-13", "AMO-16", "AMO-19")
@pytest.mark.parametrize("seed", range(40))
def test_every_safety_property_of_the_model_holds_at_every_step(seed: int) -> None:
    """Over an unreliable link, with restarts of either side."""
    scene = Scene(seed)
    asserted = [getattr(stream_invariants, name) for name in MODEL.safety()]

    for _ in range(STEPS):
        scene.step()
        for invariant in asserted:
            invariant(scene)

    assert sum(map(len, scene.handed.values())) > 20
