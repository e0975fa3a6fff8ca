"""`Vigil`: when a spin pays, and how little is wasted where it does not."""

from __future__ import annotations

from queuebroker.vigil import AWAKE_S, CAUTION_MAX, Vigil
from specs.clauses import clause

_LONG_S = 2 * AWAKE_S


def _vigils(vigil: Vigil, waits: int, *, came: bool, seconds: float) -> int:
    """Wait that many times; return how often it spun.

    came: True if the awaited data arrives during the spin.
    seconds: duration of each sleep.
    """
    kept = 0
    for _ in range(waits):
        if vigil.due:
            kept += 1
            vigil.kept(came=came)
            if came:
                continue
        vigil.slept(seconds)
    return kept


@clause("QB-SOCK-8")
def test_the_first_time_it_sleeps() -> None:
    assert not Vigil().due


@clause("QB-SOCK-8")
def test_after_a_short_wait_it_stays_awake() -> None:
    vigil = Vigil()

    vigil.slept(AWAKE_S)

    assert vigil.due


@clause("QB-SOCK-8")
def test_as_long_as_that_helps_it_stays_awake() -> None:
    vigil = Vigil()
    vigil.slept(0.0)

    assert _vigils(vigil, 100, came=True, seconds=_LONG_S) == 100


@clause("QB-SOCK-8")
def test_what_is_far_between_is_slept_for() -> None:
    assert _vigils(Vigil(), 100, came=False, seconds=_LONG_S) == 0


@clause("QB-SOCK-8")
def test_when_it_becomes_far_between_one_vigil_is_in_vain() -> None:
    vigil = Vigil()
    vigil.slept(0.0)
    vigil.kept(came=True)

    assert _vigils(vigil, 100, came=False, seconds=_LONG_S) == 1


@clause("QB-SOCK-8")
def test_where_no_vigil_helps_few_are_kept() -> None:
    """On one processor, the peer that has to answer runs only during a sleep."""
    vigil = Vigil()
    _vigils(vigil, 2 * CAUTION_MAX, came=False, seconds=0.0)

    assert _vigils(vigil, 10 * CAUTION_MAX, came=False, seconds=0.0) <= 10


@clause("QB-SOCK-8")
def test_one_in_vain_does_not_end_them_for_long() -> None:
    vigil = Vigil()
    vigil.slept(0.0)
    for _ in range(3):
        vigil.kept(came=True)
        vigil.kept(came=False)
        vigil.slept(0.0)

        assert vigil.due
