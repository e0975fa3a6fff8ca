"""`Redial`: pauses that double up to a bound, with full jitter."""

from __future__ import annotations

import random

import pytest

from bus.pattern.dialler import Redial
from specs.clauses import clause


@clause("BP-17")
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_bound_of_the_pause_doubles_after_each_failure(share: float) -> None:
    redial = Redial(1.0, 10.0, lambda: share)

    pauses = [redial.next_pause() for _ in range(6)]

    assert pauses == [share * bound for bound in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0)]


@clause("BP-17")
def test_after_a_handshake_the_pauses_are_short_again() -> None:
    redial = Redial(1.0, 10.0, lambda: 1.0)
    assert [redial.next_pause() for _ in range(3)] == [1.0, 2.0, 4.0]

    redial.reset()

    assert [redial.next_pause() for _ in range(2)] == [1.0, 2.0]


@clause("BP-17")
def test_a_greatest_pause_below_the_least_one_is_raised_to_it() -> None:
    redial = Redial(3.0, 1.0, lambda: 1.0)

    assert [redial.next_pause() for _ in range(3)] == [3.0, 3.0, 3.0]


@clause("BP-17")
@pytest.mark.parametrize("seed", range(5))
def test_each_pause_is_random_below_its_bound(seed: int) -> None:
    """So the members of a bus do not all dial at once when a listener returns."""
    print(f"seed {seed}")
    redial = Redial(0.5, 4.0, random.Random(seed).random)

    pauses = [redial.next_pause() for _ in range(200)]

    for pause, bound in zip(pauses, (0.5, 1.0, 2.0, *[4.0] * 197), strict=True):
        assert 0 <= pause <= bound
    assert len({*pauses}) == 200
    assert min(pauses) < 0.5
    assert max(pauses) > 3.5
