"""The search as a whole: repetition, counts, rejected arguments."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from queuebroker.testing import Failure, FailureKind, UncontrolledError, explore, replay
from tests.testing.bounded import Bounded, LooksOnce, program
from tests.testing.failing import failure_of
from tests.testing.programs import taking_turns, under_way

if TYPE_CHECKING:
    from queuebroker.testing import Run


def test_the_same_seed_gives_the_same_runs() -> None:
    first: list[list[str]] = []
    second: list[list[str]] = []
    other: list[list[str]] = []

    explore(taking_turns(first), limit=0, random=50, seed=7)
    explore(taking_turns(second), limit=0, random=50, seed="7")
    explore(taking_turns(other), limit=0, random=50, seed=8)

    assert first == second
    assert first != other


def test_a_seed_with_an_index_gives_that_one_run() -> None:
    traces: list[list[str]] = []
    one: list[list[str]] = []

    explore(taking_turns(traces), limit=0, random=10, seed=7)
    report = explore(taking_turns(one), seed="7:4")

    assert one == [traces[4]]
    assert report.schedules == 1
    assert report.seed == "7:4"


def test_without_a_seed_the_explorer_draws_and_reports_one() -> None:
    traces: list[list[str]] = []
    again: list[list[str]] = []

    report = explore(taking_turns(traces), limit=0, random=10)
    explore(taking_turns(again), limit=0, random=10, seed=report.seed)

    assert traces == again


def test_a_random_failure_tells_the_seed_that_repeats_it() -> None:
    faulty = program(LooksOnce, _get, _get, _put, _put)
    found = failure_of(faulty, limit=0, random=1_000, seed=3)

    again = failure_of(faulty, seed=found.seed)

    assert found.seed.startswith("3:")
    assert again.story == found.story
    assert again.schedule == found.schedule


def test_exhaustive_search_runs_no_schedule_twice() -> None:
    """Without choices after releases, three tasks taking one lock three times each."""
    traces: list[list[str]] = []

    report = explore(taking_turns(traces), bound=1, random=0)

    assert report.exhausted
    assert len(traces) == report.schedules
    # Six orders of three tasks, and one of them cut in two at one of nine places.
    assert report.classes == len({tuple(trace) for trace in traces})


def test_a_higher_bound_extends_the_search_of_a_lower_bound() -> None:
    """Each round has the schedules with exactly that many preemptions."""
    lower = explore(taking_turns([]), bound=1, random=0)
    higher = explore(taking_turns([]), bound=2, random=0)

    assert higher.rounds[:2] == lower.rounds
    assert [each.bound for each in higher.rounds] == [0, 1, 2]
    assert higher.preemptions == 2


def test_the_limit_ends_the_exhaustive_search_and_the_report_shows_it() -> None:
    report = explore(taking_turns([]), bound=2, random=0, limit=25)

    assert report.schedules == 25
    assert not report.exhausted
    assert "not all: the limit was reached" in str(report)


def test_a_program_without_choices_is_exhausted_at_every_bound() -> None:
    report = explore(lambda run: None, bound=3, random=5)

    assert report.exhausted
    assert [each.schedules for each in report.rounds] == [1, 0, 0, 0]
    assert report.classes == 1
    assert report.saturated


def test_random_search_is_saturated_when_its_second_half_shows_nothing_new() -> None:
    few = explore(taking_turns([]), limit=0, random=4, seed=1)
    many = explore(program(Bounded, _put, _get), limit=0, random=100, seed=1)

    assert few.saturated is False
    assert many.saturated is True
    assert many.classes == 2
    assert explore(taking_turns([]), bound=0, random=0).saturated is None


def test_one_new_class_in_the_second_half_is_enough_not_to_be_saturated() -> None:
    """Even if the schedules after it show nothing new."""

    def program_of_two(run: Run) -> None:
        lock = threading.Lock()

        def work() -> None:
            for _ in range(3):
                with lock:
                    pass

        run.spawn(work)
        run.spawn(work)

    report = explore(program_of_two, limit=0, random=20, seed=11)

    assert 10 < report.last_new < 20
    assert report.saturated is False


def test_a_report_can_be_read() -> None:
    report = explore(program(Bounded, _put, _get), seed=5, random=20)

    first, *rest = str(report).splitlines()
    assert first.startswith("69 schedules in ")
    assert first.endswith(f"at most {report.preemptions} preemptions")
    assert rest == [
        "  with 0 preemptions: 4 (all)",
        "  with 1 preemptions: 13 (all)",
        "  with 2 preemptions: 32 (all)",
        "  at random: 20 (seed 5; saturated)",
        f"  2 classes, the last new one at schedule {report.last_new}",
        f"    {report.modes[0]}",
        f"    {report.modes[1]}",
    ]


def test_a_report_has_the_counts_of_each_search_mode() -> None:
    report = explore(program(Bounded, _put, _get), seed=5, random=20, pct=10)

    exhaustive, random, pct = report.modes
    assert [each.name for each in report.modes] == ["exhaustive", "random", "pct"]
    assert sum(each.schedules for each in report.modes) == report.schedules
    assert exhaustive.last_new == report.last_new
    assert (exhaustive.classes, random.classes) == (2, 2)
    assert pct.schedules == report.pct == 10
    assert str(random) == (
        f"random: 20 schedules, 2 classes, the last new one at {random.last_new}"
        " (saturated)"
    )


def test_a_way_of_searching_is_saturated_if_its_second_half_shows_it_nothing() -> None:
    """Other ways may have seen the same classes before."""
    report = explore(program(Bounded, _put, _get), bound=1, random=2, seed=0)

    exhaustive, random = report.modes
    assert report.saturated
    assert random.last_new == 2
    assert not random.saturated
    assert exhaustive.saturated == (exhaustive.last_new <= exhaustive.schedules // 2)


def test_replay_of_a_schedule_that_does_not_fail_runs_it_once() -> None:
    traces: list[list[str]] = []

    report = replay(taking_turns(traces), [0, 0, 2])

    assert report.schedules == 1
    assert len(traces) == 1


def test_replay_rejects_a_schedule_of_another_program() -> None:
    with pytest.raises(Failure, match="choice 1 of the schedule is option 9") as caught:
        replay(taking_turns([]), [0, 9])

    assert caught.value.kind is FailureKind.NONDETERMINISTIC


def test_the_explorer_reports_a_program_that_keeps_state_between_runs() -> None:
    runs: list[int] = []

    def forgetful(run: Run) -> None:
        runs.append(1)
        for _ in range(1 + len(runs) % 3):
            run.spawn(threading.Lock().acquire)

    found = failure_of(forgetful)

    assert found.kind is FailureKind.NONDETERMINISTIC
    assert "the program does not do the same each time" in found.story


def test_the_explorer_reports_a_failure_that_does_not_recur() -> None:
    chance = random.Random(1)

    def fickle(run: Run) -> None:
        run.spawn(threading.Event)
        assert chance.random() < 0.9

    found = failure_of(fickle)

    assert found.kind is FailureKind.NONDETERMINISTIC
    assert "ended well when it was run again" in found.story


def test_the_explorer_reports_a_failure_that_recurs_as_another_kind() -> None:
    runs: list[int] = []

    def fickle(_run: Run) -> None:
        runs.append(1)
        if len(runs) > 1:
            threading.Event().wait()
        raise LookupError

    found = failure_of(fickle)

    assert found.kind is FailureKind.NONDETERMINISTIC
    assert "ended in deadlock when it was run again" in found.story


def test_a_nested_exploration_is_refused() -> None:
    def nests(_run: Run) -> None:
        explore(lambda run: None)

    with pytest.raises(Failure, match="an exploration is under way") as caught:
        explore(nests)

    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_second_exploration_in_another_thread_is_refused() -> None:
    with (
        under_way(),
        pytest.raises(RuntimeError, match="an exploration is under way"),
    ):
        explore(lambda run: None)


def _put(queue: Bounded) -> None:
    queue.put("item")


def _get(queue: Bounded) -> None:
    queue.get()


@pytest.mark.parametrize("name", ["bound", "random", "limit", "spurious"])
def test_negative_numbers_are_refused(name: str) -> None:
    options: dict[str, Any] = {name: -1}

    with pytest.raises(ValueError, match=f"{name} must be >= 0, got -1"):
        explore(lambda run: None, **options)


def test_an_exploration_of_no_schedule_is_refused() -> None:
    """It would report success for any program."""
    with pytest.raises(ValueError, match=r"limit \+ random \+ pct must be >= 1, got 0"):
        explore(lambda run: None, limit=0, random=0)


@pytest.mark.parametrize("name", ["limit", "random", "pct"])
def test_one_schedule_of_any_kind_is_enough(name: str) -> None:
    options: dict[str, Any] = {"limit": 0, "random": 0, "pct": 0, name: 1}

    assert explore(lambda run: None, **options).schedules == 1


def test_with_the_index_of_one_schedule_no_number_is_asked_for() -> None:
    report = explore(lambda run: None, limit=0, random=0, seed="7:4")

    assert report.schedules == 1


def test_a_seed_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be a number or number:number"):
        explore(lambda run: None, seed="today")


def test_each_run_has_a_default_manager_of_its_own() -> None:
    managers: set[int] = set()
    outside = queuebroker.default_manager()

    def program(_run: Run) -> None:
        manager = queuebroker.default_manager()
        assert manager.names() == []
        queuebroker.QueueBroker("mine")
        managers.add(id(manager))

    explore(program, random=5)

    assert queuebroker.default_manager() is outside
    assert id(outside) not in managers


def test_uncontrolled_errors_are_failures_too() -> None:
    assert issubclass(UncontrolledError, Failure)


def test_a_program_that_does_not_take_the_run_is_refused_before_any() -> None:
    """It is not a fault of a schedule."""
    with pytest.raises(TypeError, match=r"^program must take one argument, the Run: "):
        explore(lambda: None)  # type: ignore[arg-type,misc]  # that is the point
