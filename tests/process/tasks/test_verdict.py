"""OPEN-3: a verdict is unique, whichever thread settles it or times out on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus import BusError, NameTakenError
from bus.process.verdict import Verdict
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from queuebroker.testing import Run


@clause("OPEN-3")
def test_the_first_verdict_counts() -> None:
    verdict = Verdict()

    assert verdict.settle(NameTakenError("a"))
    assert not verdict.settle()

    assert verdict.settled
    with pytest.raises(NameTakenError, match="'a'"):
        verdict.wait(_sync.monotonic() + LIMIT_S)


@clause("OPEN-3")
def test_a_waiter_that_times_out_has_the_name_and_a_later_objection_fails() -> None:
    verdict = Verdict()

    verdict.wait(_sync.monotonic())

    assert verdict.settled
    assert not verdict.settle(NameTakenError("a"))


@clause("OPEN-3")
def test_the_waiter_and_the_settling_thread_agree() -> None:
    """At each instruction; a deadline passes whenever that makes a difference."""

    def program(run: Run) -> None:
        verdict, said = Verdict(), list[bool]()
        saying = run.spawn(lambda: said.append(verdict.settle(NameTakenError("a"))))
        received = False
        try:
            verdict.wait(_sync.monotonic() + 1.0)
        except BusError:
            received = True
        saying.join()
        assert said == [received]

    explore(program, bound=2, limit=schedules(2000), random=schedules(100), seed=1)
    explore(
        program,
        bound=2,
        limit=schedules(2000),
        random=schedules(100),
        seed=1,
        bytecode=[Verdict.settle, Verdict.wait],
    )


@clause("OPEN-3")
def test_an_interrupt_after_the_verdict_keeps_no_waiter_waiting() -> None:
    """The interrupt comes after the verdict, before the wake-up of the waiter."""
    verdict = Verdict()

    class Interrupted:
        def release(self) -> None:
            raise KeyboardInterrupt

    woken, verdict._woken = verdict._woken, Interrupted()  # type: ignore[misc, assignment]
    with pytest.raises(KeyboardInterrupt):
        verdict.settle(NameTakenError("a"))
    verdict._woken = woken  # type: ignore[misc]

    with pytest.raises(NameTakenError):
        verdict.wait(_sync.monotonic() + LIMIT_S)
