"""`Wire`: each fault has the frequency and the size that it is set to."""

from __future__ import annotations

from random import Random

import pytest

from tests.network.conditions import GOOD, Conditions
from tests.network.wire import Wire

FRAMES = 10_000
LENGTH = 1000


def arrivals(conditions: Conditions, *, spacing_s: float = 0.001) -> list[list[float]]:
    """Send many frames; return the delays of the copies of each that arrive."""
    wire = Wire(Random(1), conditions)
    sent = [number * spacing_s for number in range(FRAMES)]
    return [[at - now for at in wire.arrivals(LENGTH, now)] for now in sent]


def test_a_good_wire_passes_each_frame_at_once() -> None:
    assert arrivals(GOOD) == [[0.0]] * FRAMES


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_given_share_of_frames_is_lost(share: float) -> None:
    lost = sum(not each for each in arrivals(Conditions(loss=share)))
    assert lost == pytest.approx(share * FRAMES, rel=0.1)


def test_the_given_share_of_frames_arrives_twice() -> None:
    twice = sum(len(each) == 2 for each in arrivals(Conditions(duplication=0.1)))
    assert twice == pytest.approx(0.1 * FRAMES, rel=0.1)


def test_reordered_frames_arrive_after_later_ones() -> None:
    found = arrivals(Conditions(reordering=0.25))
    late = sum(each[0] > 0.01 for each in found)
    assert late == pytest.approx(0.25 * FRAMES, rel=0.1)


def test_delay_and_jitter_are_bounded_and_keep_the_order() -> None:
    wire = Wire(Random(1), Conditions(delay_s=0.1, jitter_s=0.05))
    at = [wire.arrivals(LENGTH, number * 0.001)[0] for number in range(FRAMES)]
    delays = [each - number * 0.001 for number, each in enumerate(at)]
    assert at == sorted(at)
    assert min(delays) >= 0.05
    assert max(delays) <= 0.15 + 1e-9


def test_the_bandwidth_and_the_queue_are_bounded() -> None:
    conditions = Conditions(bytes_per_s=125_000, queue_s=0.5)
    found = arrivals(conditions)  # 1 MB/s is offered
    passed = [each[0] for each in found if each]
    assert len(passed) * LENGTH == pytest.approx(10.5 * 125_000, rel=0.02)
    assert max(passed) <= 0.5 + LENGTH / 125_000 + 1e-9


def test_a_cut_wire_passes_nothing_until_it_heals() -> None:
    wire = Wire(Random(1), Conditions(cut=True))
    assert wire.arrivals(LENGTH, 0.0) == []
    wire.conditions = GOOD
    assert wire.arrivals(LENGTH, 1.0) == [1.0]
    assert wire.counts == {"cut": 1, "passed": 1}


def test_only_frames_above_the_limit_are_dropped() -> None:
    wire = Wire(Random(1), Conditions(bytes_max=1000))
    assert wire.arrivals(1000, 0.0) == [0.0]
    assert wire.arrivals(1001, 0.0) == []


def test_a_seed_gives_the_same_faults() -> None:
    conditions = Conditions(loss=0.1, duplication=0.1, reordering=0.1, jitter_s=0.1)
    assert arrivals(conditions) == arrivals(conditions)


def test_a_share_above_one_is_rejected() -> None:
    with pytest.raises(ValueError, match="loss must be from 0 to 1, got 30"):
        Conditions(loss=30)
