"""`_sync.spin`: a short spin that yields to other threads before sleeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from queuebroker import _sync
from queuebroker.meeting import meet
from queuebroker.testing import explore
from specs.clauses import clause
from tests.pairs import queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable


@attrs.define
class Machine:
    """A clock that advances by a step at each yield to other threads."""

    step_s: float
    yields: int = 0

    def now(self) -> float:
        return self.yields * self.step_s

    def let_run(self) -> None:
        self.yields += 1


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Machine]:
    def make(step_s: float) -> Machine:
        made = Machine(step_s)
        monkeypatch.setattr(_sync, "monotonic", made.now)
        monkeypatch.setattr(_sync, "_busy_until", 0.0)
        monkeypatch.setattr(_sync, "yield_processor", made.let_run)
        return made

    return make


def test_a_spin_returns_at_once_if_its_condition_holds(machine: Any) -> None:
    made = machine(1e-6)

    assert _sync.spin(lambda: True)

    assert made.yields == 0


def test_others_run_until_it_is_ready(machine: Any) -> None:
    made = machine(1e-6)

    assert _sync.spin(lambda: made.yields == 3)

    assert made.yields == 3


@pytest.mark.parametrize("step_s", [1e-6, 5e-3])
def test_a_spin_is_short_however_long_others_run(machine: Any, step_s: float) -> None:
    """The limit is a time, not a count: a computing thread keeps its CPU for 5 ms."""
    made = machine(step_s)

    assert not _sync.spin(lambda: False)

    assert made.now() < _sync.SPIN_S + 2 * step_s


@pytest.mark.parametrize("ready", [True, False])
def test_no_caller_yields_for_a_while_if_other_programs_use_the_processor(
    machine: Any, *, ready: bool
) -> None:
    """Each yield would cost a time slice: 4 ms, a thousand times a sleep."""
    made = machine(4e-3)

    _sync.spin(lambda: ready and made.yields == 1)
    for _ in range(3):
        assert not _sync.spin(lambda: False)
    assert made.yields == 1

    made.yields += int(_sync.BUSY_S / made.step_s) + 1
    before = made.yields
    _sync.spin(lambda: False)
    assert made.yields > before


@clause("QB-RECV-2")
def test_a_receiver_takes_a_message_sent_during_its_spin_without_sleeping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meet, "LOCKED", False)

    def never(*_: object) -> bool:
        raise AssertionError("slept")

    monkeypatch.setattr(_sync, "park", never)
    monkeypatch.setattr(_sync, "_busy_until", 0.0)
    with queue_pair() as (left, right):
        monkeypatch.setattr(_sync, "yield_processor", lambda: left.send(b"m"))

        assert right.receive() == b"m"


def test_in_a_run_of_the_explorer_nothing_is_waited_for() -> None:
    """A spin there is one check: only a sleep lets other tasks run."""
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    explore(lambda run: run.spawn(_sync.spin, look).join(), random=1)

    assert looks
