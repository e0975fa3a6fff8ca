"""The small checker on journals that grow: when it reports a violation, and which."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.journal.checker import check
from bus.journal.live_check import LiveCheck
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from specs.clauses import clause
from tests.depth import among
from tests.journal.bus_by_hand import BUS_BROKEN
from tests.journal.bus_faults import BUS_FAULTS, plant_on_bus
from tests.journal.bus_history import clean_bus
from tests.journal.by_hand import BROKEN
from tests.journal.histories import FAULTS, Condition, History, clean, plant, store

OPEN = Condition(closed=False, sealed=False)
BY_HAND = {name: case[2] for name, case in [*BROKEN.items(), *BUS_BROKEN.items()]}


def reported(folder: Path, most: int) -> list[tuple[str | int | None, ...]]:
    """Return the violations that a live check reports, in the order of its reports."""
    live, keys = LiveCheck(folder), []
    while (news := live.advance(most)) is not None:
        keys += [each.key for each in news]
    return keys


def certain(folder: Path) -> set[tuple[str | int | None, ...]]:
    """Return the violations of which `check` is certain."""
    found = check(open_journals(folder)).violations
    return {each.key for each in found if each.verdict is Verdict.FAIL}


@clause("B1", "Q2")
@pytest.mark.parametrize("condition", [Condition(), OPEN], ids=["ended", "open"])
@pytest.mark.parametrize("history", BY_HAND.values(), ids=BY_HAND)
def test_each_certain_violation_is_reported_once(
    history: History, condition: Condition, tmp_path: Path
) -> None:
    """In journals read by turns, a record each."""
    conditions = dict.fromkeys(range(history.journals), condition)
    store(history, tmp_path, conditions=conditions)

    found = reported(tmp_path, most=1)

    assert sorted(found, key=repr) == sorted(certain(tmp_path), key=repr)


@settings(max_examples=among(15, 60))
@given(
    seed=st.integers(0, 10**6),
    faults=st.lists(st.sampled_from(sorted(BUS_FAULTS)), max_size=4),
    of_queues=st.lists(st.sampled_from(sorted(FAULTS)), max_size=2),
    most=st.integers(1, 30),
    condition=st.sampled_from([Condition(), OPEN, Condition(lost=2)]),
)
def test_it_is_certain_of_the_same_violations_as_a_check_of_the_records(
    seed: int, faults: list[str], of_queues: list[str], most: int, condition: Condition
) -> None:
    """In any turns in which the journals grow."""
    rng = Random(seed)
    history = clean_bus(seed, steps=70)
    for fault in faults:
        plant_on_bus(history, fault, rng)
    of_bus = history.entries
    queues = clean(seed, channels=2, steps=60, journals=2)
    for fault in of_queues:
        try:
            plant(queues, fault, rng)
        except (IndexError, ValueError):
            continue  # an earlier fault removed the records that this one needs
    history.entries = [*of_bus, *queues.entries]
    history.number()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store(history, folder, conditions=dict.fromkeys(range(2), condition))
        found = reported(folder, most)

        assert sorted(found, key=repr) == sorted(certain(folder), key=repr)
