"""The suite has teeth: each planted fault is found by the scenarios named for it."""

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

# What needs crowds of real threads, or seconds of real time, to go wrong. Correct
# implementations show that they pass; no fault is left for them alone.
WITHOUT_A_FAULT = {
    scenario.name for scenario in SCENARIOS if scenario.style is Style.CROWD
}


@pytest.fixture(scope="module")
def reference() -> Subject:
    """What the reference offers, each fault offers as well."""
    return load("tests.conformance.reference:factory", SCENARIOS)


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
    # Over channels the programs of queues run once more: one fault for both will do.
    for name in BY_NAME:
        queues = name.partition(".")[2]
        if {f"disconnect.{queues}", f"goodbyes.{queues}"} & caught:
            caught.add(name)

    assert BY_NAME.keys() - caught - WITHOUT_A_FAULT == set()
