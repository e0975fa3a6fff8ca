"""QB-SOCK-4: a peer is killed at a few points.

``python -m tests.sockets.kills`` does it at many.
"""

from __future__ import annotations

import pytest

from specs.clauses import clause
from tests.sockets import kills


@pytest.mark.deep
@clause("QB-SOCK-4")
def test_a_killed_process_leaves_nothing_behind_and_hangs_no_peer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No call hangs and counters balance; twelve kills print a count of each kind."""
    assert kills.main(["--count", "12", "--seed", "3"]) == 0

    out = capsys.readouterr().out
    assert out.startswith("seed 3\n")
    assert out.endswith("12 killed: nobody hung, books balanced, nothing left behind\n")
    assert len(out.splitlines()) == len(kills.STATES) + 2
