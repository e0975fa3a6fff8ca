"""The rules in Spark: clean traffic has no violation, a planted fault is exactly one.

All histories of this file are judged by one run (fixture `judged`).
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest

from bus.journal.rules import RULES, Basis, Verdict
from bus.pipeline.rules import overtaken
from tests.journal.bus_by_hand import BUS_BROKEN, BUS_CLEAN
from tests.journal.by_hand import BROKEN, CLEAN, DEATHS, FLOW
from tests.journal.deaths import KILLED
from tests.journal.disk import process_id
from tests.journal.histories import FAULTS, Condition, clean, journal_id, plant
from tests.pipeline.batch import Batch, Judged, judge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bus.journal.violation import Violation
    from tests.journal.histories import History, Key
    from tests.pipeline.batch import Case

pytestmark = pytest.mark.spark

# The condition of a journal, and the finding of J1.
INCOMPLETE = {
    "not closed": (Condition(closed=False, sealed=False), "open", Verdict.UNKNOWN),
    "with records lost": (Condition(lost=3), "lost", Verdict.UNKNOWN),
    "with a hole": (Condition(holes=(2,)), "gaps", Verdict.UNKNOWN),
    "without its beginning": (Condition(beginning=1), "beginning", Verdict.UNKNOWN),
    "damaged": (Condition(damaged=True), "damaged", Verdict.FAIL),
}
ABSENT, PRESENT = "lost", "duplicate"


def faulty(fault: str) -> tuple[History, Key]:
    """A history with that fault, from the first seed that has a place for it."""
    for seed in range(100):
        history = clean(seed, steps=60)
        key = plant(history, fault, Random(seed))
        if key is not None:
            return history, key
    raise AssertionError(f"no history has a place for {fault}")


@attrs.frozen
class Everything:
    """All cases of this file by name, and Spark's result for them."""

    cases: dict[str, Case]
    keys: dict[str, Key]
    judged: Judged

    def of(self, name: str) -> list[Violation]:
        return self.judged.of(self.cases[name])

    def expected(self, name: str) -> Key:
        rule, flow, *rest = self.keys[name]
        assert isinstance(flow, int)
        return rule, self.cases[name].flow(flow), *rest


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Everything:
    batch = Batch()
    cases = {name: batch.add(history) for name, history in CLEAN.items()}
    cases |= {name: batch.add(reported[2]) for name, reported in BROKEN.items()}
    for name, (history, _) in DEATHS.items():
        cases[f"killed, {name}"] = batch.add(history, KILLED, Condition())
    for name, history in BUS_CLEAN.items():
        cases[f"on a bus, {name}"] = batch.add(history)
    for name, (_, _, history, _) in BUS_BROKEN.items():
        cases[f"on a bus, {name}"] = batch.add(history)
    keys = {}
    for fault in FAULTS:
        history, keys[fault] = faulty(fault)
        cases[fault] = batch.add(history)
    for name, (condition, _, _) in INCOMPLETE.items():
        for fault in (ABSENT, PRESENT):
            history, _ = faulty(fault)
            cases[f"{name}, {fault}"] = batch.add(history, condition)
    late, _ = faulty(ABSENT)
    cases["late"] = batch.add(late, Condition(late=True))
    folder = tmp_path_factory.mktemp("rules")
    batch.store(folder / "journals")
    return Everything(cases, keys, judge(folder / "journals", folder / "out"))


@pytest.mark.parametrize("name", CLEAN)
def test_a_history_that_keeps_every_promise_has_no_violation(
    judged: Everything, name: str
) -> None:
    assert judged.of(name) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_reported_with_its_case_and_nothing_else(
    judged: Everything, name: str
) -> None:
    rule, case, _, seq, text = BROKEN[name]

    (violation,) = judged.of(name)

    assert (violation.rule, violation.case) == (rule, case)
    assert violation.verdict is Verdict.FAIL
    assert text in violation.explanation
    if seq is not None:
        assert violation.flow == judged.cases[name].flow(FLOW)
        assert violation.seq == seq


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_explains_messages_in_flight_and_nothing_else(
    judged: Everything, name: str
) -> None:
    _, expected = DEATHS[name]

    found = judged.of(f"killed, {name}")

    assert [(one.rule, one.case, one.seq) for one in found] == expected
    assert {one.verdict for one in found} <= {Verdict.FAIL}


@pytest.mark.parametrize("name", BUS_CLEAN)
def test_a_history_that_keeps_every_promise_of_the_bus_has_no_violation(
    judged: Everything, name: str
) -> None:
    assert judged.of(f"on a bus, {name}") == []


@pytest.mark.parametrize("name", BUS_BROKEN)
def test_a_broken_promise_of_the_bus_names_its_message_and_nothing_else(
    judged: Everything, name: str
) -> None:
    rule, case, _, (origin, sort, mid, destination) = BUS_BROKEN[name]
    named = judged.cases[f"on a bus, {name}"].registration

    (one,) = judged.of(f"on a bus, {name}")

    assert (one.rule, one.case, one.sort, one.seq) == (rule, case, sort, mid)
    assert (one.origin, one.flow) == (named(origin), named(destination))
    # Each history has processes of its own, with the same names of tasks.
    processes = [*map(process_id, judged.cases[f"on a bus, {name}"].journals)]
    assert one.sender in [f"task-{origin} (pid {each})" for each in processes]
    assert one.receiver in [f"task-{destination} (pid {each})" for each in processes]
    assert one.verdict is Verdict.FAIL


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_that_very_violation(judged: Everything, fault: str) -> None:
    (violation,) = judged.of(fault)

    assert violation.key == judged.expected(fault)
    assert violation.verdict is Verdict.FAIL


def test_a_violation_names_its_record_time_sender_and_receiver(
    judged: Everything,
) -> None:
    (violation,) = judged.of("an overtaken message")

    # OPEN, three records to connect, three sends; then 1, 3 and 2 are received.
    assert (violation.n, violation.other_n) == (9, 8)
    assert violation.journal == journal_id(
        judged.cases["an overtaken message"].journals[0]
    )
    assert violation.mono == 10**12 + 9000
    assert (violation.sender, violation.receiver, violation.port) == ("b", "a", 5)


@pytest.mark.parametrize("name", INCOMPLETE)
def test_an_incomplete_journal_is_a_violation_of_j1(
    judged: Everything, name: str
) -> None:
    _, case, verdict = INCOMPLETE[name]

    for fault in (ABSENT, PRESENT):
        (violation,) = [
            one for one in judged.of(f"{name}, {fault}") if one.rule == "J1"
        ]
        assert (violation.case, violation.verdict) == (case, verdict)


@pytest.mark.parametrize("name", INCOMPLETE)
def test_an_absence_in_an_incomplete_journal_proves_nothing(
    judged: Everything, name: str
) -> None:
    """An absence is UNKNOWN if the journal has gaps; a presence stays FAIL."""
    found = judged.of(f"{name}, {ABSENT}") + judged.of(f"{name}, {PRESENT}")

    by_basis = {
        basis: {
            one.verdict
            for one in found
            if RULES[one.rule].basis is basis and one.rule != "J1"
        }
        for basis in Basis
    }
    assert by_basis == {
        Basis.ABSENCE: {Verdict.UNKNOWN},
        Basis.PRESENCE: {Verdict.FAIL},
    }


def test_a_journal_used_after_its_close_is_complete_and_proves_no_absence(
    judged: Everything,
) -> None:
    (violation,) = judged.of("late")

    assert (violation.rule, violation.verdict) == ("Q5", Verdict.UNKNOWN)


def test_one_failing_rule_fails_the_run(judged: Everything) -> None:
    result = judged.judged.result

    assert result.verdict is Verdict.FAIL
    assert {one.rule: one.verdict for one in result.verdicts} == dict.fromkeys(
        RULES, Verdict.FAIL
    )
    assert result.violations == len(judged.judged.violations)


Receive = tuple[int, int, int, int, str]


@pytest.fixture(scope="module")
def receives() -> list[Receive]:
    """(journal, flow, n, seq, kept): mostly in order, some late, some twice."""
    rng = Random(5)
    return [
        (journal, rng.randrange(3), n, n + rng.choice([0, 0, 0, -1, -9, 4]), "x")
        for journal in (1, 2)
        for n in range(200)
    ]


@pytest.mark.parametrize("chunk_records", [None, 7, 64])
def test_taking_flows_in_pieces_changes_nothing(
    spark: SparkSession, receives: list[Receive], chunk_records: int | None
) -> None:
    columns = "journal BIGINT, flow BIGINT, n BIGINT, seq BIGINT, kept STRING"
    rows = spark.createDataFrame(receives, columns)

    found = overtaken(rows, chunk_records).select(
        "journal", "flow", "n", "seq", "kept", "other_seq", "other_n"
    )

    expected = set()
    for one in receives:
        before = [r for r in receives if r[:2] == one[:2] and r[2] < one[2]]
        top = max((r[3] for r in before), default=0)
        if top > one[3]:
            expected.add((*one, top))
    reported = [tuple(row) for row in found.collect()]
    assert {one[:-1] for one in reported} == expected
    assert len(reported) == len(expected)
    # If two preceding records share a number, either may be named.
    numbers = {(r[0], r[1], r[3], r[2]) for r in receives}
    assert {(one[0], one[1], one[5], one[6]) for one in reported} <= numbers
