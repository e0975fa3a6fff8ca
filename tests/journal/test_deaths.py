"""A killed process: facts that its journal proves, gaps that its death explains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.journal.checker import CheckResult, check
from bus.journal.format import RecordKind
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from bus.model.events import BusReason
from specs.clauses import clause
from tests.depth import among
from tests.journal.by_hand import DEATHS, killed_with
from tests.journal.checking import found, held, verdicts
from tests.journal.deaths import KILLED, death, kill, split
from tests.journal.histories import Condition, History, clean, plant, store
from tests.journal.predicates import would_be_violations
from tests.journal.telling import SMALL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.journal.histories import Entry

CHANNELS = 3


def judged(history: History, conditions: Mapping[int, Condition]) -> CheckResult:
    with tempfile.TemporaryDirectory() as folder:
        store(history, Path(folder), conditions=conditions)
        result = check(open_journals(folder))
        assert found(result) == would_be_violations(open_journals(folder))
    return result


@clause("J1", "Q1", "Q4", "Q5")
@pytest.mark.parametrize("name", DEATHS)
def test_a_death_explains_messages_in_flight_and_nothing_else(name: str) -> None:
    """Of two journals, that of a process whose death is on record, and a whole one."""
    history, expected = DEATHS[name]

    result = judged(history, {0: KILLED})

    reported = [(one.rule, one.case, one.seq) for one in result.violations]
    assert reported == expected
    assert {one.verdict for one in result.violations} <= {Verdict.FAIL}
    broken = {rule: Verdict.FAIL for rule, _, _ in expected}
    assert verdicts(result) == held(result) | broken


NOT_THE_DEATH: Mapping[str, tuple[Entry, Condition]] = {
    "of another process": (attrs.evolve(death(0, 1), port=77), KILLED),
    "on another machine": (attrs.evolve(death(0, 1), peer="elsewhere"), KILLED),
    "before its last record": (attrs.evolve(death(0, 1), late=-(10**6)), KILLED),
    "told by itself": (death(0, 0), KILLED),
    "of one that was given up": (
        attrs.evolve(death(0, 1), reason=BusReason.GIVEN_UP),
        KILLED,
    ),
    "of one that left": (attrs.evolve(death(0, 1), reason=BusReason.LEFT), KILLED),
}


@clause("J1")
@pytest.mark.parametrize(
    ("reported", "condition"), NOT_THE_DEATH.values(), ids=NOT_THE_DEATH
)
def test_a_record_that_does_not_prove_its_death_ends_no_journal(
    reported: Entry, condition: Condition
) -> None:
    """Its process may live: the journal has no end."""
    result = judged(killed_with(reported), {0: condition})

    assert [(one.rule, one.case) for one in result.violations] == [("J1", "open")]
    assert result.verdict is Verdict.UNKNOWN


@clause("J1")
@pytest.mark.parametrize(
    ("condition", "case"),
    [
        (attrs.evolve(KILLED, holes=(2,)), "gaps"),
        (attrs.evolve(KILLED, lost=1), "lost"),
    ],
)
def test_a_journal_that_lacks_records_is_not_made_whole_by_a_death(
    condition: Condition, case: str
) -> None:
    """A thread that was killed between drawing a slot and writing it left a hole."""
    result = judged(killed_with(death(0, 1)), {0: condition})

    assert (result.violations[0].rule, result.violations[0].case) == ("J1", case)
    assert Verdict.PASS not in verdicts(result).values()


@settings(max_examples=among(15, 60))
@given(
    seed=st.integers(0, 10**6),
    dead=st.integers(0, 1),
    lived=st.floats(0, 1),
    apart=st.booleans(),
    unrecorded=st.booleans(),
)
def test_a_history_of_the_model_passes_though_any_process_is_killed(
    seed: int, dead: int, lived: float, apart: bool, unrecorded: bool
) -> None:
    history = clean(seed, channels=CHANNELS, steps=100, journals=2)
    if apart:
        split(history)
    first = 4 * CHANNELS
    at = first + int(lived * (len(history.entries) - first))

    result = judged(history, kill(history, dead, at, unrecorded=unrecorded))

    assert result.violations == ()
    assert verdicts(result) == held(result)


@settings(max_examples=among(15, 60))
@given(
    seed=st.integers(0, 10**6),
    fault=st.sampled_from(["lost", "foreign", "unaccounted", "duplicate", "alone"]),
    lived=st.floats(0, 1),
    apart=st.booleans(),
    holes=st.sampled_from([(), (), (5,)]),
)
def test_faults_beside_a_death_are_judged_word_for_word(
    seed: int, fault: str, lived: float, apart: bool, holes: tuple[int, ...]
) -> None:
    history = clean(seed, channels=CHANNELS, steps=100, journals=2)
    plant(history, fault, Random(seed))
    if apart:
        split(history)
    at = int(lived * len(history.entries))
    conditions = kill(history, 0, at)

    judged(history, {0: attrs.evolve(conditions[0], holes=holes)})  # compares checkers


PROGRAM = """
import sys
from threading import Thread
from bus.journal.writer import Journal
from queuebroker import BrokerManager, QueueBroker

journal = Journal(sys.argv[1], segment_bytes=int(sys.argv[2]))
manager = BrokerManager(observer=journal.observe)
server = QueueBroker("server", manager=manager)
client = QueueBroker("client", manager=manager)
ends = []
Thread(target=lambda: ends.append(server.accept(1))).start()
connected = client.connect("server", 1, required=True)
while not ends:
    pass
(accepted,) = ends
while True:
    accepted.send(b"on and on")
    connected.receive()
    print("one more", flush=True)
"""


@pytest.mark.deep
@clause("J1")
def test_a_process_that_was_killed_and_waited_for_leaves_a_whole_journal(
    tmp_path: Path,
) -> None:
    """Its parent records the death: nothing is UNKNOWN because of that."""
    # More than it can record before it waits for the reader of its output: in small
    # segments some are lost if the housekeeper has no time to make the next ones.
    roomy = 1 << 24
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        program = [sys.executable, "-c", PROGRAM, str(tmp_path), str(roomy)]
        with subprocess.Popen(program, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(50):
                child.stdout.readline()
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        journal.record_death(child.pid, process="worker")

    result = check(open_journals(tmp_path))

    assert verdicts(result) == held(result), result.violations
    assert sorted(each.died for each in result.facts) == [False, True]
    assert {each.rule: each.checked for each in result.verdicts}["Q4"] >= 49


def test_a_death_is_recorded_with_process_and_machine(tmp_path: Path) -> None:
    with Journal(tmp_path, machine="here") as journal:
        journal.record_death(12, process="worker")
        journal.record_death(13, machine="there")

    (stored,) = open_journals(tmp_path)
    reported = [
        (one.mid, stored.name(one.task), stored.name(one.peer), one.reason)
        for one in stored.records()
        if one.kind == RecordKind.LINK_DOWN
    ]
    assert reported == [
        (12, "worker", "here", BusReason.DIED),
        (13, "", "there", BusReason.DIED),
    ]
