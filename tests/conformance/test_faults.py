"""The suite is effective: each planted fault is found by the scenarios named for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from specs.conformance.level import run_level
from specs.conformance.performance import perform
from specs.conformance.scenario import Style
from specs.conformance.scenarios import SCENARIOS
from specs.conformance.subject import Subject, load
from tests.conformance.faults import FAULTS

if TYPE_CHECKING:
    from tests.conformance.fault import Fault

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

# Scenarios that fail only with crowds of real threads, or after seconds of real time.
# Correct implementations show that they pass; no fault is only for them.
WITHOUT_A_FAULT = {
    scenario.name for scenario in SCENARIOS if scenario.style is Style.CROWD
}


@pytest.fixture(scope="module")
def reference() -> Subject:
    """Return the reference; each fault offers the same groups."""
    return load("tests.conformance.reference:factory", SCENARIOS)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_found(reference: Subject, fault: Fault) -> None:
    """Every scenario named for the fault fails on it."""
    factory = fault.factory()
    faulty = Subject(fault.name, factory, reference.offers, reference.trial)

    outcomes = {
        name: perform(faulty, BY_NAME[name], run_level()) for name in fault.caught_by
    }

    passed = [name for name, outcome in outcomes.items() if outcome.passed]
    assert not passed


def test_every_scenario_can_fail() -> None:
    """For each program there is a fault that it finds."""
    caught = {name for fault in FAULTS for name in fault.caught_by}
    # The programs of queues also run over channels: one fault for both suffices.
    for name in BY_NAME:
        queues = name.partition(".")[2]
        if {f"disconnect.{queues}", f"goodbyes.{queues}"} & caught:
            caught.add(name)

    assert BY_NAME.keys() - caught - WITHOUT_A_FAULT == set()
