"""The small checker: clean traffic passes, a planted fault is named, and only that."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.journal.checker import check
from bus.journal.format import RecordKind
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from specs.clauses import clause
from tests.depth import among
from tests.journal.by_hand import (
    A_LEAVES,
    BROKEN,
    CLEAN,
    FLOW,
    at_a,
    at_b,
    by_b,
    dropped,
    from_a,
    met,
    received,
    sent,
)
from tests.journal.checking import checked, found, held, judged, verdicts
from tests.journal.deaths import split
from tests.journal.histories import (
    FAULTS,
    Condition,
    History,
    clean,
    journal_id,
    plant,
    store,
)
from tests.journal.predicates import would_be_violations

if TYPE_CHECKING:
    from bus.journal.violation import Violation


@clause("J1", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8")
@pytest.mark.parametrize("history", CLEAN.values(), ids=CLEAN)
def test_a_history_that_keeps_every_promise_passes(history: History) -> None:
    """Traffic that keeps the rules is PASS on each rule that applies to it."""
    result = checked(history)

    assert result.violations == ()
    assert verdicts(result) == held(result)
    assert result.verdict is Verdict.PASS


@clause("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8")
@pytest.mark.parametrize(
    ("rule", "case", "history", "seq", "text"), BROKEN.values(), ids=BROKEN
)
def test_a_broken_promise_is_named_and_nothing_else(
    rule: str, case: str, history: History, seq: int | None, text: str
) -> None:
    """One fault is one violation: its rule, its message, and why."""
    result = checked(history)

    (violation,) = result.violations
    assert (violation.rule, violation.case) == (rule, case)
    assert violation.verdict is Verdict.FAIL
    if seq is not None:
        assert (violation.flow, violation.seq) == (FLOW, seq)
    assert text in violation.explanation
    assert verdicts(result) == held(result) | {rule: Verdict.FAIL}


def violation(history: History) -> Violation:
    (one,) = checked(history).violations
    return one


def test_a_violation_names_its_record_time_sender_and_receiver() -> None:
    one = violation(met(*sent(1, 2, 3), *received(1, 3, 2)))

    assert (one.n, one.other_n) == (9, 8)
    assert one.journal == journal_id(0)
    assert one.mono == 10**12 + 9000
    assert (one.sender, one.receiver, one.port) == ("b", "a", 5)


def test_a_duplicate_is_reported_at_its_first_repeated_receive() -> None:
    one = violation(met(*sent(1, 2), *received(1, 2), *received(2), *received(2)))

    assert one.explanation == "received 3 times"
    assert one.n == 8


def test_names_that_are_not_known_are_not_compared() -> None:
    ends = [
        at_a(RecordKind.ACCEPT_END),
        attrs.evolve(at_b(RecordKind.CONNECT_END), peer=""),
    ]

    assert checked(History(ends)).verdict is Verdict.PASS


def test_sides_in_different_journals_are_not_compared_in_time() -> None:
    history = met()
    for entry in history.entries:
        entry.journal = int(entry.kind is RecordKind.CONNECT_END)
    history.journals = 2
    late = attrs.evolve(at_a(RecordKind.ACCEPT_BEGIN, seq=1), channel=0)
    history.entries = [history.entries[2], history.entries[1], late]
    history.number()

    assert checked(history).verdict is Verdict.PASS


def test_a_message_may_be_received_in_another_journal_whichever_is_read_first() -> None:
    for sender in (0, 1):
        history = met(*sent(1, 2), *received(1, 2), *sent(3))
        history.journals = 2
        for entry in history.entries:
            entry.journal = sender if entry.kind is RecordKind.SEND else 1 - sender
        history.number()

        result = checked(history)
        assert result.verdict is Verdict.PASS
        assert {each.rule: each.checked for each in result.verdicts}["Q5"] == 3


@clause("Q6")
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(("boot", "reported"), [(0, ["Q6"]), (1, [])])
def test_times_prove_a_wrong_order_between_processes_of_one_boot_alone(
    side: int, boot: int, reported: list[str]
) -> None:
    """Whichever of the two journals is read first."""
    message = [*sent(1), *received(1)] if side == 0 else [*from_a(1), *by_b(1)]
    history = met(*reversed(message))
    split(history)

    result = judged(history, {1: Condition(boot=boot)})

    assert [one.rule for one in result.violations] == reported


def test_each_rule_says_how_much_it_checked() -> None:
    result = checked(met(*sent(1, 2, 3), *received(1, 2, 2), A_LEAVES, *dropped(3)))

    assert {each.rule: each.checked for each in result.verdicts} == {
        "J1": 1,
        "Q1": 1,
        "Q2": 3,
        "Q3": 2,
        "Q4": 2,
        "Q5": 3,
        "Q6": 2,
        "Q7": 6,
        "Q8": 2,
        "B1": 0,
        "B2": 0,
        "B3": 0,
        "B4": 0,
        "B5": 0,
        "B6": 0,
    }


def test_a_message_that_arrived_with_another_size_counts_for_each_rule() -> None:
    """It has left the fast path, with one SEND and one RECEIVE."""
    result = checked(met(*sent(1), *received(1, size=9)))

    counts = {each.rule: each.checked for each in result.verdicts}
    assert [counts[rule] for rule in ("Q3", "Q4", "Q5", "Q8")] == [1, 1, 1, 1]


@pytest.mark.parametrize("missing", [RecordKind.ACCEPT_END, RecordKind.CONNECT_END])
def test_either_end_alone_gives_the_names_of_both_sides(missing: RecordKind) -> None:
    history = met(*sent(1, 2), *received(2, 1))
    history.entries = [each for each in history.entries if each.kind is not missing]
    history.number()

    named = {(each.sender, each.receiver) for each in checked(history).violations}

    assert ("b", "a") in named
    assert named <= {("b", "a"), ("a", "b")}


def test_a_wild_number_does_not_fill_the_memory() -> None:
    result = checked(met(*sent(1, 2**62 - 1), *received(1, 2**62 - 1)))

    assert result.verdict is Verdict.PASS


# Random traffic.


@settings(max_examples=among(10, 40))
@given(st.integers(0, 10**6), st.integers(1, 3))
def test_a_history_of_the_model_passes(seed: int, journals: int) -> None:
    result = checked(clean(seed, journals=journals))

    assert result.violations == ()
    assert verdicts(result) == held(result)


@settings(max_examples=among(10, 40))
@given(st.sampled_from(sorted(FAULTS)), st.integers(0, 10**6))
def test_a_planted_fault_is_found_and_nothing_else(fault: str, seed: int) -> None:
    history = clean(seed)
    key = plant(history, fault, Random(seed))

    expected = set() if key is None else {(key, Verdict.FAIL)}
    assert found(checked(history)) == expected


CONDITIONS = [
    Condition(),
    Condition(closed=False, sealed=False),
    Condition(lost=2),
    Condition(holes=(7, 8, 30)),
    Condition(late=True),
    Condition(damaged=True),
    Condition(beginning=1),
    Condition(begun=False),
]


@settings(max_examples=among(15, 60))
@given(
    seed=st.integers(0, 10**6),
    faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=5),
    conditions=st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=2),
    crossing=st.booleans(),
    sockets=st.booleans(),
    alone=st.none() | st.booleans(),
)
def test_traffic_that_breaks_much_at_once_is_judged_word_for_word(
    seed: int,
    faults: list[str],
    conditions: list[Condition],
    crossing: bool,
    sockets: bool,
    alone: bool | None,
) -> None:
    """alone: whether only one end of each channel is recorded; None for one journal."""
    history = clean(seed, channels=3, steps=100, journals=2)
    rng = Random(seed)
    for fault in faults:
        try:
            plant(history, fault, rng)
        except (IndexError, ValueError):
            continue  # an earlier fault removed the records that this one needs
    for entry in history.entries:
        entry.socket = sockets
    if crossing:
        for entry in history.entries:
            entry.journal = rng.randrange(2)
    elif alone is not None:
        split(history, alone=alone)
    history.number()

    with tempfile.TemporaryDirectory() as folder:
        store(history, Path(folder), conditions=dict(enumerate(conditions)))
        result = check(open_journals(folder))
        expected = would_be_violations(open_journals(folder))

    assert found(result) == expected
