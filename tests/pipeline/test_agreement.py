"""Spark and the small checker report the same for any journals.

One example is a whole batch, judged by one run. It has many histories, clean, faulty
and absurd, in journals of any condition.
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
from bus.journal.rules import Verdict
from tests.journal.bus_faults import BUS_FAULTS, plant_on_bus
from tests.journal.bus_history import clean_bus, kill_on_bus
from tests.journal.histories import FAULTS, Condition, clean, kill, plant, split
from tests.kills.campaign import Campaign as KillCampaign
from tests.kills.worker import JOURNALS
from tests.network.campaign import Campaign as NetworkCampaign
from tests.network.ethernet import refusal_reason
from tests.pipeline.batch import Batch, judge
from tests.pipeline.chaos import chaos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from bus.journal.results import Result
    from bus.journal.violation import Violation

HISTORIES = 60
REFUSED = refusal_reason()
BOTH = 2

pytestmark = pytest.mark.spark


@attrs.frozen
class Recipe:
    """How to make a history, and the condition of its journals.

    faults: planted into clean traffic one after the other, each where there is a place
      for it; None for traffic that is absurd throughout.
    killed: the fraction of the events before the process of the first of two journals
      was killed; None if it was not killed.
    apart: True if the ends of each channel are in two journals, if there are two.
    on_bus: faults planted into clean traffic of a bus instead.
    two_boots: True if the second of two journals is of another boot.
    sockets: True if the channels are those of sockets. alone: True if the second end of
      each channel is not recorded, if they are apart.
    """

    seed: int
    journals: int
    faults: tuple[str, ...] | None
    condition: Condition
    killed: float | None = None
    apart: bool = False
    on_bus: tuple[str, ...] | None = None
    two_boots: bool = False
    sockets: bool = False
    alone: bool = False

    @property
    def conditions(self) -> tuple[Condition, ...]:
        if self.journals != BOTH or not self.two_boots:
            return (self.condition,) * self.journals
        return self.condition, attrs.evolve(self.condition, boot=1, ahead=-(10**10))

    def add_to(self, batch: Batch) -> None:
        if self.on_bus is not None:
            self._add_bus_to(batch, self.on_bus)
            return
        if self.faults is None:
            batch.add(chaos(self.seed, journals=self.journals), *self.conditions)
            return
        history = clean(self.seed, channels=2, steps=50, journals=self.journals)
        for fault in self.faults:
            plant(history, fault, Random(self.seed))
        for entry in history.entries:
            entry.socket = self.sockets
        if self.apart and self.journals == BOTH:
            split(history, alone=self.alone)
        if self.killed is None or self.journals != BOTH:
            batch.add(history, *self.conditions)
        else:
            killed = kill(history, 0, int(self.killed * len(history.entries)))
            batch.add(history, killed[0], self.conditions[1])

    def _add_bus_to(self, batch: Batch, faults: tuple[str, ...]) -> None:
        history = clean_bus(self.seed, journals=self.journals, steps=40)
        for fault in faults:
            plant_on_bus(history, fault, Random(self.seed))
        if self.killed is None or self.journals != BOTH:
            batch.add(history, *self.conditions)
        else:
            killed = kill_on_bus(history, 0, int(self.killed * len(history.entries)))
            batch.add(history, killed[0], self.conditions[1])


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
    begun=st.sampled_from([True] * 5 + [False]),
)
# Some faults need records that others remove; these can be combined.
companions = st.lists(st.sampled_from(["lost", "size", "port", "names"]), max_size=3)
faults = st.sampled_from(list(FAULTS)).map(lambda fault: [fault]) | companions
recipes = st.builds(
    Recipe,
    seed=st.integers(0, 2**32),
    journals=st.sampled_from([1, 2, 2]),
    faults=st.none() | faults.map(tuple),
    condition=st.just(Condition()) | conditions,
    killed=st.none() | st.floats(0, 1),
    apart=st.booleans(),
    on_bus=st.none()
    | st.lists(st.sampled_from(list(BUS_FAULTS)), max_size=2).map(tuple),
    two_boots=st.booleans(),
    sockets=st.booleans(),
    alone=st.booleans(),
)


def reported(violations: Iterable[Violation]) -> set[tuple[object, ...]]:
    """Return the fields that must be equal: key, verdict, case, explanation."""
    return {(one.key, one.verdict, one.case, one.explanation) for one in violations}


# No shrinking: each try costs a run, and a difference names its flow and case. The
# first batch that Hypothesis tries has the simplest history sixty times over.
@settings(
    max_examples=1,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(batch=st.lists(recipes, min_size=HISTORIES, max_size=HISTORIES))
@pytest.mark.deep
def test_both_checkers_agree_on_every_history(
    spark: SparkSession, batch: list[Recipe]
) -> None:
    assume(len(set(batch)) > HISTORIES // 2)
    together = Batch()
    for recipe in batch:
        recipe.add_to(together)
    with tempfile.TemporaryDirectory() as folder:
        journals = Path(folder) / "journals"
        together.store(journals)

        agree(journals, Path(folder) / "out")


def _kill(folder: Path) -> None:
    with KillCampaign(folder, seed=1) as campaign:
        for number in range(6):
            campaign.strike(number)
        campaign.end()


def _disturb(folder: Path) -> None:
    with NetworkCampaign(folder, 2, seed=1) as campaign:
        for profile in ("loss-30", "vanished"):
            campaign.run(profile, 1.0)


@pytest.mark.deep
@pytest.mark.parametrize(
    "campaign",
    [
        _kill,
        pytest.param(_disturb, marks=pytest.mark.skipif(bool(REFUSED), reason=REFUSED)),
    ],
)
def test_both_checkers_agree_on_the_journals_of_a_campaign(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    campaign: Callable[[Path], None],
) -> None:
    del spark
    monkeypatch.setenv(JOURNALS, str(tmp_path / "journals"))
    # A short path, since the length of a socket path is limited.
    with tempfile.TemporaryDirectory(prefix="net") as folder:
        campaign(Path(folder) / "c")

    result = agree(tmp_path / "journals", tmp_path / "out")

    checked = {each.rule: each.checked for each in result.verdicts}
    assert min(checked[rule] for rule in ("J1", "B1", "B2", "B3", "B5", "B6")) > 0
    assert not [each for each in result.verdicts if each.verdict is Verdict.FAIL]


def agree(journals: Path, out: Path) -> Result:
    """Assert that both checkers report the same, and return it."""
    small, large = check(open_journals(journals)), judge(journals, out)
    assert reported(large.violations) == reported(small.violations)
    assert len(large.violations) == len(small.violations)
    for ours, theirs in zip(large.result.verdicts, small.verdicts, strict=True):
        for field in ("rule", "verdict", "checked", "violated", "unknown"):
            assert getattr(ours, field) == getattr(theirs, field), field
    assert set(large.result.problems) == set(small.problems)
    return large.result
