"""The surveys: a fault is found and reported, and the numbers are as requested."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from queuebroker import CircularBufferQueue, _sync
from tests.schedules import __main__ as command
from tests.schedules import table
from tests.schedules.level import QUICK, Level
from tests.schedules.scenario import Scenario
from tests.schedules.survey import check, survey

if TYPE_CHECKING:
    from queuebroker.testing import Run

SMALL = Level("small", 2, limit=5_000, random=50, least=50, doubles=False)
SHORT = Level("short", 2, limit=20, random=1, least=1, doubles=False)
TINY = Level("tiny", 2, limit=1, random=6, least=6, doubles=True)


def _sound(run: Run) -> None:
    buffer = CircularBufferQueue[int](1)
    for number in range(3):
        run.spawn(buffer.push, number)
    for _ in range(2):
        run.settle()
        assert buffer.pull() is not None
    run.join()


def _torn(run: Run) -> None:
    """Two threads add one to a number in two critical sections each."""
    lock, number = _sync.Lock(), [0]

    def add() -> None:
        with lock:
            seen = number[0]
        with lock:
            number[0] = seen + 1

    run.spawn(add)
    run.spawn(add)
    run.join()
    assert number == [2], "an addition is lost"


class _Counter:
    """A number without a lock."""

    def __init__(self) -> None:
        self.number = 0

    def add(self) -> None:
        self.number += 1


def _unguarded(run: Run) -> None:
    counter = _Counter()
    run.spawn(counter.add)
    run.spawn(counter.add)
    run.join()
    assert counter.number == 2, "an addition is lost"


HARD = {"QB-RDV", "QB-SEND", "QB-RECV", "QB-DISC", "QB-TIME", "QB-CONC"}

SOUND = Scenario("tool.sound", ("QB-BUF-4",), _sound)
TORN = Scenario("tool.torn", ("QB-CONC-4", "QB-SEND-6"), _torn)


def test_the_survey_finds_and_reports_a_torn_update() -> None:
    finding = survey(TORN, QUICK)

    assert finding.failure is not None
    assert "an addition is lost" in finding.failure.story
    assert "FAILED" in table.line(finding)
    assert "0 exhausted to their bound, 0 saturated, 1 failed" in table.summary(
        [finding]
    )
    with pytest.raises(AssertionError, match="an addition is lost"):
        check(TORN)


def test_a_sound_program_is_exhausted() -> None:
    finding = survey(SOUND, SMALL)

    report = finding.report
    assert finding.failure is None
    assert report is not None
    assert report.exhausted
    assert report.random == SMALL.random
    assert "0-2" in table.line(finding)
    assert "QB-BUF-4" in table.line(finding)


def test_the_table_shows_a_program_that_is_not_exhausted() -> None:
    finding = survey(SOUND, SHORT)

    assert finding.report is not None
    assert not finding.report.exhausted
    assert "0-0 of 1" in table.line(finding)


def test_random_schedules_are_doubled_where_they_still_show_something_new() -> None:
    finding = survey(SOUND, TINY)

    assert finding.report is not None
    assert finding.report.saturated is False
    assert finding.doubled is not None
    assert finding.doubled.random == 2 * TINY.random
    assert finding.schedules == 1 + TINY.random + finding.doubled.schedules


def test_a_scenario_names_code_whose_instructions_are_switch_points() -> None:
    scenario = Scenario("tool.unguarded", ("QB-CONC-4",), _unguarded)
    assert survey(scenario, SMALL).failure is None

    finding = survey(attrs.evolve(scenario, inside=(_Counter.add,)), SMALL)

    assert finding.failure is not None
    assert "an addition is lost" in finding.failure.story


def test_random_schedules_of_each_instruction_are_few() -> None:
    """Nearly each of them is a class of its own, however many there are."""
    scenario = attrs.evolve(SOUND, inside=(CircularBufferQueue.push,))
    level = attrs.evolve(TINY, random=60)

    finding = survey(scenario, level)

    assert finding.report is not None
    assert finding.report.random == level.least
    assert finding.doubled is None


def test_the_variants_of_a_program_share_the_random_schedules() -> None:
    scenarios = command.own_scenarios()
    shares: dict[str, float] = {}
    for one in scenarios:
        program = one.name.partition("[")[0]
        shares[program] = shares.get(program, 0) + one.share

    assert all(abs(share - 1) < 1e-9 for share in shares.values())


def test_names_are_distinct_and_every_group_is_served() -> None:
    scenarios = command.own_scenarios()
    groups = {clause.rpartition("-")[0] for one in scenarios for clause in one.clauses}

    assert len({one.name for one in scenarios}) == len(scenarios)
    assert groups >= HARD


@pytest.mark.deep
def test_the_command_tells_failures_by_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "own_scenarios", lambda: [SOUND, TORN])

    assert command.main(["--only", "sound"]) == 0
    assert command.main([]) == 1
    output = capsys.readouterr().out
    assert "an addition is lost" in output
    assert "2 scenarios: 1 exhausted to their bound" in output
    with pytest.raises(SystemExit) as caught:
        command.main(["--only", "nothing of that name"])
    assert caught.value.code == 2
