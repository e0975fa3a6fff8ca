"""`PeerLog`: the number of log lines is bounded, whatever the peers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.process.failures import PeerLog
from specs.clauses import clause

if TYPE_CHECKING:
    import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log messages since the last call."""
    words = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return words


@clause("BUS-SEC-10")
def test_suppressed_warnings_are_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With the first warning of a later minute, and not with each one that follows."""
    peer_log = PeerLog()
    for _ in range(23):
        peer_log.note("bad")
    peer_log.write(0.0)
    assert logged(caplog) == ["bad"] * 20

    for now in (61.0, 122.0):
        peer_log.note("worse")
        peer_log.write(now)

    left_out = "3 more such warnings suppressed"
    assert logged(caplog) == [left_out, "worse", "worse"]


@clause("BUS-SEC-10")
def test_a_local_error_is_logged_however_many_warnings_precede_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer_log = PeerLog()
    for _ in range(21):
        peer_log.note("bad")
    peer_log.report("ours")

    peer_log.write(0.0)

    assert logged(caplog) == [*["bad"] * 20, "ours"]
