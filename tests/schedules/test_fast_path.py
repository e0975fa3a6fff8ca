"""The fast kind of end under the explorer, with a switch point at each instruction.

The scenarios are those of the clauses; here they are sampled inside of the operations
that take no lock: a few in every test run, more with ``TEST_DEEP=1``, and
`python -m tests.schedules --level bytecode` goes on from there.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

import attrs
import pytest

from queuebroker.meeting import meet
from specs.clauses import clause
from tests import pairs
from tests.schedules import (
    test_finalizers,
    test_goodbyes,
    test_histories,
    test_receiving,
    test_sending,
    test_timing,
    test_waiting,
)
from tests.schedules.level import inside
from tests.schedules.scenario import of_module
from tests.schedules.survey import survey

if TYPE_CHECKING:
    from tests.schedules.scenario import Scenario

MODULES = (
    test_finalizers,
    test_goodbyes,
    test_histories,
    test_receiving,
    test_sending,
    test_timing,
    test_waiting,
)

SCENARIOS = [
    scenario
    for module in MODULES
    for scenario in of_module(module.__name__)
    if any(
        name.startswith(
            (
                "QB-SEND",
                "QB-RECV",
                "QB-FIFO",
                "QB-DISC",
                "QB-TIME",
                "QB-CONC",
                "QB-BULK",
                "QB-WAIT",
            )
        )
        for name in scenario.clauses
    )
]


@clause("QB-CONC-4", "QB-CONC-6", "QB-CONC-7", "QB-CONC-9")
@clause("QB-SEND-2", "QB-RECV-2", "QB-RECV-6", "QB-DISC-1", "QB-TIME-8", "QB-BUF-2")
@clause("QB-BULK-1")
@pytest.mark.parametrize(
    "stage",
    [
        "open",
        pytest.param("taken", marks=pytest.mark.deep),
        pytest.param("fresh", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=attrgetter("name"))
def test_each_instruction(
    scenario: Scenario, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedules with one preemption, and random ones, anywhere in the fast path."""
    monkeypatch.setattr(meet, "LOCKED", False)
    monkeypatch.setattr(pairs, "STAGE", stage)

    # Before its gates are created, most of an operation is under the lock, which
    # `quick` covers as well.
    level = inside()
    if stage != "open":
        fewer = max(1, level.random // 4)
        level = attrs.evolve(
            level, limit=max(1, level.limit // 5), random=fewer, least=fewer
        )

    found = survey(scenario, level)

    if found.failure is not None:
        raise found.failure
