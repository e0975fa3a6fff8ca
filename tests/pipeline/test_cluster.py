"""On a standalone cluster, with paths relative to the driver's directory.

`python -m tests.cluster` compares all of it with a local run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.pipeline.session import missing
from tests.cluster import contest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.deep


@pytest.mark.spark
def test_executors_elsewhere_read_relative_paths(tmp_path: Path) -> None:
    """Was reported: a relative `--journals` made every verdict UNKNOWN on a cluster."""
    if lack := missing(drawing=False):
        pytest.skip(f"Spark cannot run here: {lack}")
    from tests.cluster.standalone import standalone  # noqa: PLC0415 - needs Spark

    contest.record(tmp_path)

    with standalone(tmp_path / "cluster", workers=1) as cluster:
        run = contest.run(tmp_path, "out", cluster.url, *contest.SMALL_EXECUTORS)

    assert run.error == ""
    assert [rule for rule, verdict in run.verdicts.items() if verdict == "FAIL"] == [
        contest.BROKEN_RULE
    ]
    assert "UNKNOWN" not in run.verdicts.values()
