"""Durable receivers: each contestant's jobs end, and lose nothing."""

from __future__ import annotations

import pytest

from benchmarks import durable
from benchmarks.suites import Effort


@pytest.mark.parametrize("job", ["sink", "echo"])
@pytest.mark.parametrize("name", durable._SETTINGS)
@pytest.mark.deep
def test_a_job_of_each_receiver_ends(name: str, job: str) -> None:
    assert durable.run_job(name, job, 50) > 0


def test_both_figures_have_the_storage_beside_them() -> None:
    contests, missing = durable.suite(Effort.of(quick=True))

    assert [each.figure for each in contests] == ["D1", "D2"]
    assert {*contests[0].rivals} == {"volatile", "exact log", "sync alone"}
    assert missing == []
    assert contests[0].rivals["sync alone"]() > 0
