"""Contestants that search for faults find the planted ones and only those."""

from __future__ import annotations

import importlib
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.explorer import cell
from benchmarks.hunt import Hunt, hunt, is_here, name_of
from benchmarks.hunters import HUNTERS
from benchmarks.hunters.parked import hunt_with
from benchmarks.hunters.real_threads import goes_wrong

if TYPE_CHECKING:
    from collections.abc import Callable

_FAULT = Path(__file__).parents[2] / "examples" / "faults" / "lost_wakeup.py"

_RIGHT = """
from threading import Thread
done = []
def add(number):
    done.append(number)
def program():
    Thread(target=add, name="one", args=(1,)).start()
    Thread(target=add, name="two", args=(2,)).start()
"""
_RAISES = _RIGHT + "done = None\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    """Write a program into a file."""

    def write(text: str) -> Path:
        path = tmp_path / f"program_{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("name", HUNTERS)
def test_every_hunter_has_a_name_and_states_its_requirement(name: str) -> None:
    module: Any = importlib.import_module(f"benchmarks.hunters.{name}")

    assert name_of(name)
    assert callable(module.hunt)
    assert module.NEEDS is None or isinstance(module.NEEDS, str)
    assert is_here(name) or module.NEEDS is not None


def test_the_explorer_finds_a_fault_and_its_runs_are_counted() -> None:
    result = hunt("explorer", _FAULT, 1, 30.0)

    assert result.found
    assert result.in_time
    assert 1 <= result.runs <= 10


def test_a_hunter_that_finds_no_fault_is_stopped_at_its_time_limit(
    write: Callable[[str], Path],
) -> None:
    result = hunt("stress", write(_RIGHT), 1, 0.2)

    assert not result.found
    assert not result.in_time
    assert result.runs > 0


@pytest.mark.parametrize("hunter", ["stress", "eager_stress", "random_sleeps"])
def test_a_fault_in_every_run_is_found_in_the_first(
    write: Callable[[str], Path], hunter: str
) -> None:
    result = hunt(hunter, write(_RAISES), 1, 30.0)

    assert result.found
    assert result.runs == 1


def test_the_explorer_stops_early_when_all_schedules_are_faultless(
    write: Callable[[str], Path],
) -> None:
    result = hunt("explorer", write(_RIGHT), 1, 30.0)

    assert not result.found
    assert result.in_time


def test_on_real_threads_an_exception_is_a_fault(
    write: Callable[[str], Path],
) -> None:
    assert goes_wrong(write(_RAISES))


def test_on_real_threads_a_right_program_holds(write: Callable[[str], Path]) -> None:
    before = threading.active_count()

    assert not goes_wrong(write(_RIGHT))
    assert threading.active_count() == before


def test_the_threads_of_a_program_become_workers_that_await_their_start(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """frontrun may be missing: a substitute that tries one order stands in for it."""
    seen: list[Any] = []

    def explore(
        setup: Callable[[], Any],
        workers: list[Callable[[Any], object]],
        invariant: Callable[[Any], bool],
        **options: Any,
    ) -> types.SimpleNamespace:
        state = setup()
        for worker in workers:
            worker(state)
        seen.extend((len(workers), state.module.done, options))
        return types.SimpleNamespace(property_holds=invariant(state))

    stand_in = types.SimpleNamespace(explore=explore)
    monkeypatch.setitem(sys.modules, "frontrun", stand_in)
    noted: list[None] = []

    found = hunt_with(write(_RIGHT), lambda: noted.append(None), strategy="dpor")

    assert not found
    assert seen == [3, [1, 2], {"strategy": "dpor", "reproduce_on_failure": 0}]
    assert len(noted) == 1
    assert hunt_with(write(_RAISES), lambda: None)


def _hunt(
    runs: int, seconds: float, *, found: bool = True, in_time: bool = True
) -> Hunt:
    return Hunt(found=found, runs=runs, seconds=seconds, in_time=in_time)


@pytest.mark.parametrize(
    ("hunts", "text"),
    [
        ([_hunt(3, 0.5), _hunt(5, 0.25), _hunt(4, 1.0)], "4; 0.5 s"),
        ([_hunt(3, 0.5), _hunt(900, 10, found=False)], "3; 0.5 s (1 of 2)"),
        (
            [_hunt(1_000, 10, found=False, in_time=False)] * 2,
            "not found (1,000 runs)",
        ),
        ([_hunt(6, 0.1, found=False)] * 2, "gave up (6 runs)"),
    ],
)
def test_a_cell_sums_up_the_attempts(hunts: list[Hunt], text: str) -> None:
    assert cell(hunts) == text
