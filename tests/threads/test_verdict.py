"""OPEN-3: a verdict is unique, whichever thread settles it or times out on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus import BusError, NameTakenError
from bus.threads.verdict import Verdict
from queuebroker import _sync
from queuebroker.testing import explore
from specs.clauses import clause
from tests.support import LIMIT_S

if TYPE_CHECKING:
    from queuebroker.testing import Run


@clause("OPEN-3")
def test_what_is_said_first_counts() -> None:
    verdict = Verdict()

    assert verdict.settle(NameTakenError("a"))
    assert not verdict.settle()

    assert verdict.settled
    with pytest.raises(NameTakenError, match="'a'"):
        verdict.wait(_sync.monotonic() + LIMIT_S)


@clause("OPEN-3")
def test_who_gives_up_has_the_name_and_who_objects_later_learns_it() -> None:
    verdict = Verdict()

    verdict.wait(_sync.monotonic())

    assert verdict.settled
    assert not verdict.settle(NameTakenError("a"))


@clause("OPEN-3")
def test_the_one_who_waits_and_the_one_who_says_agree() -> None:
    """At each instruction; a deadline passes whenever that makes a difference."""

    def program(run: Run) -> None:
        verdict, said = Verdict(), list[bool]()
        saying = run.spawn(lambda: said.append(verdict.settle(NameTakenError("a"))))
        heard = False
        try:
            verdict.wait(_sync.monotonic() + 1.0)
        except BusError:
            heard = True
        saying.join()
        assert said == [heard]

    explore(program, bound=2, limit=2000, random=100, seed=1)
    explore(
        program,
        bound=2,
        limit=2000,
        random=100,
        seed=1,
        bytecode=[Verdict.settle, Verdict.wait],
    )


@clause("OPEN-3")
def test_who_is_interrupted_as_it_says_something_keeps_nobody_waiting() -> None:
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
