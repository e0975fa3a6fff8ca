"""`Candidates`: which machine's answer counts, for each set of answers."""

from __future__ import annotations

import itertools

import pytest

from bus.features.machines.any_machine import Candidates
from specs.clauses import clause

PATIENT_UNTIL_S = 10.0

# Other machines that were asked and are linked; machines that have the name; machines
# that lack it; the choice before and after `PATIENT_UNTIL_S`. The own machine is m5.
CASES = (
    # No machine has answered.
    ("m1 m2", "", "", None, None),
    ("", "", "", None, None),
    # The own machine precedes all others, and waits for none.
    ("m1 m2", "m5", "", "m5", "m5"),
    ("m1 m2", "m1 m5", "m2", "m5", "m5"),
    # Another one counts once all have answered, or from `PATIENT_UNTIL_S` on.
    ("m1 m2", "m1", "", None, "m1"),
    ("m1 m2", "m2", "", None, "m2"),
    ("m1 m2", "m2", "m1", "m2", "m2"),
    ("m1 m2", "m2 m1", "", "m1", "m1"),
    ("m1 m2 m3", "m3 m2", "m1", "m2", "m2"),
    # The smallest name by its characters: no digit run is a number.
    ("m10 m9", "m9 m10", "", "m10", "m10"),
    # All lack the name: a later answer counts at once.
    ("m1 m2", "", "m1 m2", None, None),
    # A machine whose link is lost neither counts nor is waited for.
    ("m2", "m1", "", None, None),
    ("m2", "m1 m2", "", "m2", "m2"),
    ("m1", "m1", "", "m1", "m1"),
)


@clause("BUS-ROUTE-21")
def test_after_its_loss_a_machine_must_answer_again() -> None:
    candidates: Candidates[str] = Candidates("m5", PATIENT_UNTIL_S)
    candidates.on_found("m1", "before its loss")
    candidates.on_absent("m2")

    for each in ("m1", "m2"):
        candidates.forget(each)

    assert candidates.is_incomplete({"m1"})
    assert candidates.is_incomplete({"m2"})
    assert candidates.choice({"m1", "m2"}, PATIENT_UNTIL_S) is None


def machines(text: str) -> set[str]:
    return set(text.split())


@clause("BUS-NAME-8", "BUS-ROUTE-21")
@pytest.mark.parametrize(("asked", "found", "absent", "before", "after"), CASES)
def test_the_choice_for_each_set_of_answers(
    asked: str, found: str, absent: str, before: str | None, after: str | None
) -> None:
    """The order in which the answers arrive makes no difference."""
    answers = [*machines(found), *machines(absent)]
    for order in itertools.permutations(answers):
        candidates: Candidates[str] = Candidates("m5", PATIENT_UNTIL_S)
        for machine in order:
            if machine in machines(found):
                candidates.on_found(machine, machine)
            else:
                candidates.on_absent(machine)

        linked = machines(asked)
        assert candidates.choice(linked, PATIENT_UNTIL_S - 0.001) == before
        assert candidates.choice(linked, PATIENT_UNTIL_S) == after


@clause("BUS-ROUTE-21")
def test_a_machine_that_takes_the_name_after_its_report_counts() -> None:
    candidates: Candidates[str] = Candidates("m5", PATIENT_UNTIL_S)
    candidates.on_absent("m1")
    candidates.on_absent("m2")
    assert candidates.choice({"m1", "m2"}, 0.0) is None

    candidates.on_found("m2", "late")

    assert candidates.choice({"m1", "m2"}, 0.0) == "late"


@clause("BUS-ROUTE-21")
def test_a_task_that_leaves_before_the_choice_does_not_count() -> None:
    candidates: Candidates[str] = Candidates("m5", PATIENT_UNTIL_S)
    candidates.on_found("m1", "one")
    candidates.on_absent("m1")
    candidates.on_found("m2", "two")

    assert candidates.found() == {"m2": "two"}
    assert candidates.choice({"m1", "m2"}, 0.0) == "two"
