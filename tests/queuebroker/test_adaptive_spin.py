"""`AdaptiveSpin`: when a spin pays, and how little is wasted where it does not."""

from __future__ import annotations

from queuebroker._net.sleeper import AWAKE_S, CAUTION_MAX, AdaptiveSpin
from specs.clauses import clause

_LONG_S = 2 * AWAKE_S


def _adaptive_spins(
    adaptive_spin: AdaptiveSpin, waits: int, *, came: bool, seconds: float
) -> int:
    """Wait that many times; return how often it spun.

    came: True if the awaited data arrives during the spin.
    seconds: duration of each sleep.
    """
    kept = 0
    for _ in range(waits):
        if adaptive_spin.spin_is_due:
            kept += 1
            adaptive_spin.record_spin(came=came)
            if came:
                continue
        adaptive_spin.record_sleep(seconds)
    return kept


@clause("QB-SOCK-8")
def test_the_first_time_it_sleeps() -> None:
    assert not AdaptiveSpin().spin_is_due


@clause("QB-SOCK-8")
def test_after_a_short_wait_it_stays_awake() -> None:
    adaptive_spin = AdaptiveSpin()

    adaptive_spin.record_sleep(AWAKE_S)

    assert adaptive_spin.spin_is_due


@clause("QB-SOCK-8")
def test_as_long_as_that_helps_it_stays_awake() -> None:
    adaptive_spin = AdaptiveSpin()
    adaptive_spin.record_sleep(0.0)

    assert _adaptive_spins(adaptive_spin, 100, came=True, seconds=_LONG_S) == 100


@clause("QB-SOCK-8")
def test_messages_far_apart_cause_no_adaptive_spin() -> None:
    assert _adaptive_spins(AdaptiveSpin(), 100, came=False, seconds=_LONG_S) == 0


@clause("QB-SOCK-8")
def test_when_it_becomes_far_between_one_adaptive_spin_is_in_vain() -> None:
    adaptive_spin = AdaptiveSpin()
    adaptive_spin.record_sleep(0.0)
    adaptive_spin.record_spin(came=True)

    assert _adaptive_spins(adaptive_spin, 100, came=False, seconds=_LONG_S) == 1


@clause("QB-SOCK-8")
def test_where_no_adaptive_spin_helps_few_are_kept() -> None:
    """On one processor, the peer that has to answer runs only during a sleep."""
    adaptive_spin = AdaptiveSpin()
    _adaptive_spins(adaptive_spin, 2 * CAUTION_MAX, came=False, seconds=0.0)

    assert (
        _adaptive_spins(adaptive_spin, 10 * CAUTION_MAX, came=False, seconds=0.0) <= 10
    )


@clause("QB-SOCK-8")
def test_one_in_vain_does_not_end_them_for_long() -> None:
    adaptive_spin = AdaptiveSpin()
    adaptive_spin.record_sleep(0.0)
    for _ in range(3):
        adaptive_spin.record_spin(came=True)
        adaptive_spin.record_spin(came=False)
        adaptive_spin.record_sleep(0.0)

        assert adaptive_spin.spin_is_due
