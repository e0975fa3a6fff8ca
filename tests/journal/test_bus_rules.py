"""B1, B2, B3 and B5 in the small checker: clean traffic, one fault, any traffic."""

from __future__ import annotations

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
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from specs.clauses import clause
from tests.depth import among
from tests.journal.bus_by_hand import (
    BUS_BROKEN,
    BUS_CLEAN,
    NOTE,
    A,
    B,
    C,
    answered,
    arrives,
    bus,
    inside,
    received,
    returned,
    sent,
    taken,
)
from tests.journal.bus_faults import BUS_FAULTS, plant_on_bus
from tests.journal.bus_history import clean_bus, kill_on_bus, process, step
from tests.journal.checking import checked, found, held, judged, verdicts
from tests.journal.deaths import KILLED, death
from tests.journal.histories import Condition, Entry, History

if TYPE_CHECKING:
    from pathlib import Path


@clause("B1", "B2", "B3", "B4", "B5", "B6")
@pytest.mark.parametrize("history", BUS_CLEAN.values(), ids=BUS_CLEAN)
def test_a_history_that_keeps_every_promise_passes(history: History) -> None:
    """On a bus of two processes, also without any traffic."""
    result = judged(history, {})

    assert result.violations == ()
    assert verdicts(result) == held(result)


@clause("B1", "B2", "B3", "B4", "B5", "B6")
@pytest.mark.parametrize(
    ("rule", "case", "history", "message"), BUS_BROKEN.values(), ids=BUS_BROKEN
)
def test_a_broken_promise_is_named_and_nothing_else(
    rule: str, case: str, history: History, message: tuple[int, str, int, int]
) -> None:
    """One fault is one violation: its rule, its case, its message."""
    result = judged(history, {})

    (one,) = result.violations
    assert (one.rule, one.case, one.verdict) == (rule, case, Verdict.FAIL)
    assert (one.origin, one.sort, one.seq, one.flow) == message
    assert (one.sender, one.receiver) == (f"task-{message[0]}", f"task-{message[3]}")
    assert verdicts(result) == held(result) | {rule: Verdict.FAIL}


def test_each_rule_says_how_much_it_checked() -> None:
    result = checked(bus(*sent(1), *sent(2), *arrives(1), *sent(3)))

    counts = {each.rule: each.checked for each in result.verdicts}
    assert (counts["B1"], counts["B2"], counts["B3"], counts["B5"]) == (1, 3, 3, 1)


@clause("B5")
def test_an_answer_has_no_turn_that_could_be_checked() -> None:
    result = checked(bus(*inside(1), *taken(1), *answered(1)))

    counts = {each.rule: each.checked for each in result.verdicts}
    assert (counts["B1"], counts["B3"], counts["B5"]) == (2, 2, 1)


@clause("B1", "B2", "B3", "B4", "B5", "B6")
@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        (received(), (2, 1, 2, 2, 2)),
        (sent(1, to=process(1), flags=NOTE), (0, 1, 1, 0, 0)),
    ],
    ids=["delivered to two", "lost on the way"],
)
def test_a_notification_counts_once_for_each_delivery(
    steps: list[Entry], counts: tuple[int, ...]
) -> None:
    """Was counted at its subscribers, and once more for their process."""
    result = checked(bus(*steps))

    checks = {each.rule: each.checked for each in result.verdicts}
    assert tuple(checks[rule] for rule in ("B1", "B2", "B3", "B4", "B5")) == counts


def test_a_process_and_its_only_name_are_shown_as_they_are() -> None:
    twice = step(RecordKind.DELIVER, A, 1, process(1), journal=1, hop=1, flags=NOTE)
    names = {A: "log", B: "_bus/far"}
    (one,) = checked(bus(*received(), twice, names=names)).violations

    assert (one.sender, one.receiver) == ("log", "process far")


@pytest.mark.parametrize(
    ("inspector", "machines", "shown"),
    [
        ("_bus/far", ("kitchen", "kitchen"), ("log (pid 1)", "log (far)")),
        ("_bus/pid 1", ("kitchen", "kitchen"), ("log", "log")),
        (
            "_bus/pid 1",
            ("kitchen", "cellar"),
            ("log (kitchen/pid 1)", "log (cellar/pid 1)"),
        ),
    ],
    ids=["two processes", "one process, started twice", "two machines"],
)
def test_a_name_of_several_processes_is_shown_with_the_process(
    inspector: str, machines: tuple[str, str], shown: tuple[str, str]
) -> None:
    """Was shown as the name alone, which did not distinguish the two."""
    delivered_twice = [*sent(1), *arrives(1), arrives(1)[-1]]
    history = bus(*delivered_twice, names={A: "log", B: "log", C: inspector})
    conditions = {n: Condition(machine=each) for n, each in enumerate(machines)}

    (one,) = judged(history, conditions).violations

    assert (one.sender, one.receiver) == shown


def test_a_violation_tells_where_and_beside_which_record() -> None:
    _, _, history, _ = BUS_BROKEN["delivered in another order"]
    (one,) = checked(history).violations

    delivers = [entry.n for entry in history.of_kind(RecordKind.DELIVER)]
    assert (one.other_n, one.n) == tuple(delivers)
    assert one.explanation == "delivered after message 2 of its sender"


@clause("B2", "B3")
def test_a_message_in_flight_is_unknown_where_a_journal_has_no_end() -> None:
    """Its process may live, and record more."""
    result = judged(bus(*sent(1)), {1: KILLED})

    assert {(one.rule, one.case) for one in result.violations} == {
        ("J1", "open"),
        ("B2", "unexplained"),
        ("B3", "unexplained"),
    }
    assert result.verdict is Verdict.UNKNOWN


@clause("B2", "B3")
@pytest.mark.parametrize("name", ["lost when its receiver left", "read from a link on"])
def test_a_missing_record_is_unknown_if_a_journal_is_missing(name: str) -> None:
    """The checker was not given the journal of its receiver, or of its sender."""
    (name,) = [each for each in BUS_BROKEN if each.startswith(name)]
    rule, _, history, message = BUS_BROKEN[name]
    unknown = message[0]
    history = History(
        [
            entry
            for entry in history.entries
            if entry.kind is not RecordKind.REGISTER or entry.destination != unknown
        ],
        journals=2,
    )
    history.number()

    assert verdicts(judged(history, {}))[rule] is Verdict.UNKNOWN


@clause("B3")
@pytest.mark.parametrize("dead", [0, 1])
def test_a_death_explains_the_loss_of_messages_through_its_process(dead: int) -> None:
    """From it or to it; though a later message was delivered."""
    history = bus(*sent(1), *sent(2), *arrives(2), death(dead, 1 - dead))

    result = judged(history, {dead: KILLED})

    assert verdicts(result) == held(result)


@clause("B3")
def test_a_process_that_only_took_a_message_out_has_a_record_of_it() -> None:
    """It hosts neither end; it died, and the message may have died with it."""
    taken = step(RecordKind.EXTRACT, A, 1, B, journal=2)
    history = bus(*sent(1), *sent(2), *arrives(2))
    history.journals = 3
    history.entries += [taken, death(2, 0)]
    history.number()

    result = judged(history, {2: KILLED})

    assert result.violations == ()
    assert verdicts(result) == held(result)


@clause("B1")
def test_a_death_explains_no_second_delivery() -> None:
    """A recorded step was done."""
    history = bus(*sent(1), *arrives(1), arrives(1)[-1], death(1, 0))

    result = judged(history, {1: KILLED})

    assert [(one.rule, one.verdict) for one in result.violations] == [
        ("B1", Verdict.FAIL)
    ]


SECOND = 10**9
OTHER_BOOT = Condition(boot=1, ahead=-5 * SECOND)


@clause("B2")
def test_a_message_over_two_links_is_written_to_the_second_after_the_first() -> None:
    history = bus(*sent(1))
    history.journals = 3
    history.entries += [
        step(RecordKind.RELAY_IN, A, 1, B, journal=2, hop=1),
        step(RecordKind.RELAY_OUT, A, 1, B, journal=2, hop=2),
        *(attrs.evolve(each, hop=2) for each in arrives(1)),
    ]
    history.number()

    result = judged(history, {})

    assert result.violations == ()


@clause("B2")
def test_the_times_of_a_message_written_twice_say_nothing_about_clocks() -> None:
    """One of the two is wrong; the message that came back is not early."""
    again = attrs.evolve(sent(1)[1], late=10 * SECOND)
    history = bus(*sent(1), again, *arrives(1), *returned(1))

    result = judged(history, {1: OTHER_BOOT})

    assert [(each.rule, each.case) for each in result.violations] == [("B2", "again")]


@clause("B6")
def test_a_message_found_at_the_time_of_the_registration_is_not_early() -> None:
    history = bus(*inside(1), *taken(1))
    (register,) = [
        each for each in history.of_kind(RecordKind.REGISTER) if each.destination == B
    ]
    accepted = history.of_kind(RecordKind.COMMAND)[0]
    register.late = 1000 * (accepted.at - register.at)

    result = judged(history, {})

    assert result.violations == ()


@clause("B2")
@pytest.mark.parametrize("late", [0, SECOND])
@pytest.mark.parametrize("conditions", [{0: OTHER_BOOT}, {1: OTHER_BOOT}])
def test_a_message_between_two_clocks_is_early_if_no_offset_of_them_fits(
    late: int, conditions: dict[int, Condition]
) -> None:
    """The fewest messages that contradict all others are named."""
    history = bus(
        *(entry for mid in (1, 2, 3) for entry in (*sent(mid), *arrives(mid))),
        *returned(1, 2),
    )
    history.of_kind(RecordKind.RELAY_OUT)[1].late = late

    result = judged(history, conditions)

    found = [(one.rule, one.case, one.seq) for one in result.violations]
    assert found == ([("B2", "early", 2)] if late else [])


@settings(max_examples=among(10, 40))
@given(seed=st.integers(0, 10**6), journals=st.integers(1, 3))
def test_a_history_of_a_bus_passes(seed: int, journals: int) -> None:
    result = checked(clean_bus(seed, journals=journals))

    assert result.violations == ()
    assert verdicts(result) == held(result)


@pytest.mark.deep
@clause("B2", "B3")
@settings(max_examples=among(10, 40))
@given(
    seed=st.integers(0, 10**6),
    dead=st.integers(0, 1),
    at=st.integers(0, 150),
    unrecorded=st.booleans(),
)
def test_a_history_of_a_bus_passes_though_any_process_is_killed(
    seed: int, dead: int, at: int, unrecorded: bool
) -> None:
    """Any messages may be under way, even if its last step is not on record."""
    history = clean_bus(seed, steps=80)

    result = judged(history, kill_on_bus(history, dead, at, unrecorded=unrecorded))

    assert result.violations == ()
    assert verdicts(result) == held(result)


@pytest.mark.deep
@clause("B1", "B2", "B3", "B4", "B5", "B6")
@settings(max_examples=among(15, 60))
@given(fault=st.sampled_from(sorted(BUS_FAULTS)), seed=st.integers(0, 10**6))
def test_a_planted_fault_is_found_and_nothing_else(fault: str, seed: int) -> None:
    """Anywhere in traffic of a bus, whatever its other messages are."""
    history = clean_bus(seed)
    key = plant_on_bus(history, fault, Random(seed))

    expected = set() if key is None else {(key, Verdict.FAIL)}
    assert found(checked(history)) == expected


CONDITIONS = [
    Condition(),
    Condition(),
    KILLED,
    Condition(lost=2),
    Condition(holes=(7, 8, 30)),
    Condition(late=True),
    OTHER_BOOT,
]


@pytest.mark.deep
@settings(max_examples=among(15, 60))
@given(
    seed=st.integers(0, 10**6),
    faults=st.lists(st.sampled_from(sorted(BUS_FAULTS)), max_size=4),
    conditions=st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=2),
    died=st.booleans(),
    crossing=st.booleans(),
)
def test_traffic_that_breaks_much_at_once_is_judged_word_for_word(
    seed: int,
    faults: list[str],
    conditions: list[Condition],
    died: bool,
    crossing: bool,
) -> None:
    history = clean_bus(seed, steps=70)
    rng = Random(seed)
    for fault in faults:
        plant_on_bus(history, fault, rng)
    if crossing:
        for entry in history.entries:
            if rng.random() < 0.1:
                entry.journal = 1 - entry.journal
    if died:
        history.entries.append(death(0, 1))
    history.number()

    judged(history, dict(enumerate(conditions)))  # compares the checkers


@clause("B1")
def test_the_operations_of_a_recorder_are_checked_against_the_rules(
    tmp_path: Path,
) -> None:
    """From the call of the recorder to the verdict."""
    with Journal(tmp_path) as journal:
        recorder = journal._trace_sink()
        recorder.on_registered(A, "a")
        recorder.on_registered(B, "b")
        for mid in (1, 2):
            recorder.record(BusOperation.COMMAND, A, mid, B, 0, 64)
            recorder.record(BusOperation.EXTRACT, A, mid, B, 0, 64)
            recorder.record(BusOperation.DELIVER, A, mid, B, 0, 64)
        recorder.record(BusOperation.DELIVER, A, 2, B, 0, 64)

    result = check(open_journals(tmp_path))

    (one,) = result.violations
    assert (one.rule, one.sender, one.receiver, one.seq) == ("B1", "a", "b", 2)


def test_two_names_of_one_registration_do_not_matter() -> None:
    history = bus(*sent(1), *arrives(1), arrives(1)[-1])
    again = attrs.evolve(history.entries[3], task="another")
    history.entries.append(again)
    history.number()

    (one,) = checked(history).violations
    assert one.receiver == "another"
