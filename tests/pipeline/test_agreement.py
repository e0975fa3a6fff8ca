"""Spark and the small checker say the same of whatever they read.

One example is a whole batch of histories, clean, faulty and absurd, in journals of any
condition, judged by one run: so one example is many histories.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from bus.journal.checker import check
from bus.journal.reader import open_journals
from tests.journal.histories import FAULTS, Condition, History, clean, plant
from tests.pipeline.batch import Batch, judge
from tests.pipeline.chaos import chaos

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from bus.journal.rules import Violation

HISTORIES = 60

pytestmark = pytest.mark.spark


@attrs.frozen
class Recipe:
    """How a history is made, and in which condition its journals are found.

    faults: planted into clean traffic one after the other, each where there is a
      place for it; None for traffic that is absurd from end to end.
    """

    seed: int
    journals: int
    faults: tuple[str, ...] | None
    condition: Condition

    def history(self) -> History:
        if self.faults is None:
            return chaos(self.seed, journals=self.journals)
        history = clean(self.seed, channels=2, steps=50, journals=self.journals)
        for fault in self.faults:
            plant(history, fault, Random(self.seed))
        return history


conditions = st.builds(
    Condition,
    closed=st.booleans(),
    sealed=st.booleans(),
    lost=st.sampled_from([0, 0, 0, 7]),
    holes=st.lists(st.integers(1, 40), max_size=2).map(tuple),
    beginning=st.sampled_from([0, 0, 0, 1, 9]),
    damaged=st.sampled_from([False, False, False, True]),
    seal_damaged=st.sampled_from([False, False, False, True]),
    late=st.sampled_from([False, False, True]),
)
# Some faults look for what others have taken away; these can stand together.
companions = st.lists(st.sampled_from(["lost", "size", "port", "names"]), max_size=3)
faults = st.sampled_from(list(FAULTS)).map(lambda fault: [fault]) | companions
recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**32),
    journals=st.sampled_from([1, 1, 2]),
    faults=st.none() | faults.map(tuple),
    condition=st.just(Condition()) | conditions,
)


def told(violations: Iterable[Violation]) -> set[tuple[object, ...]]:
    """What must be equal: which, how sure, why, and in which words."""
    return {(one.key, one.verdict, one.case, one.explanation) for one in violations}


# No shrinking: each try costs a run, and what differs names its flow and case. The
# first batch that Hypothesis tries has the simplest history sixty times over.
@settings(
    max_examples=1,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(batch=st.lists(recipes, min_size=HISTORIES, max_size=HISTORIES))
def test_both_checkers_agree_on_every_history(
    spark: SparkSession, batch: list[Recipe]
) -> None:
    assume(len(set(batch)) > HISTORIES // 2)
    together = Batch()
    for recipe in batch:
        together.add(recipe.history(), recipe.condition)
    with tempfile.TemporaryDirectory() as folder:
        journals = Path(folder) / "journals"
        together.store(journals)

        small = check(open_journals(journals))
        large = judge(journals, Path(folder) / "out")

    assert told(large.violations) == told(small.violations)
    assert len(large.violations) == len(small.violations)
    for ours, theirs in zip(large.result.verdicts, small.verdicts, strict=True):
        for field in ("rule", "verdict", "checked", "violated", "unknown"):
            assert getattr(ours, field) == getattr(theirs, field), field
    assert set(large.result.problems) == set(small.problems)
