"""Jobs of the suite ``pattern``: each contestant that is installed does them."""

from __future__ import annotations

import pytest

from benchmarks import multicast, pattern, rivals
from benchmarks.figure import OURS
from benchmarks.multicast_job import MulticastJob
from benchmarks.suites import Effort

_FOUND, _MISSING = rivals.load(pattern._RIVALS)
_NAMES = [OURS, *(rival.NAME for rival in _FOUND)]


@pytest.mark.parametrize("size", [64, 4096])
def test_each_node_gets_all_messages(size: int) -> None:
    job = MulticastJob("bus", count=50, size=size, receivers=3)

    [taken_s] = multicast.run_job(OURS, job)

    assert taken_s > 0


def test_a_slow_receiver_gets_some_messages(
    capfd: pytest.CaptureFixture[str],
) -> None:
    job = MulticastJob("slow", count=200, size=64, receivers=2)

    [arrived] = multicast.run_job(OURS, job)

    assert 0 < arrived <= 200
    said = f"{OURS}: {arrived:.0f} of 200 arrived, the sender knows of "
    assert said in capfd.readouterr().err


def test_we_know_of_each_loss(capfd: pytest.CaptureFixture[str]) -> None:
    """To a single receiver, so that one account has all of them."""
    job = MulticastJob("slow", count=30_000, size=64, receivers=1)

    [arrived] = multicast.run_job(OURS, job)

    assert arrived < 30_000
    lost = 30_000 - int(arrived)
    assert f"the sender knows of {lost} losses" in capfd.readouterr().err


def test_each_rival_is_found_or_reported() -> None:
    contests, missing = pattern.suite(Effort.of(quick=True))

    assert missing == _MISSING
    assert len(_FOUND) + len(_MISSING) == len(pattern._RIVALS)
    assert [contest.figure for contest in contests] == ["B1"] * 3
    assert all({*contest.rivals} == {*_NAMES} - {OURS} for contest in contests)
