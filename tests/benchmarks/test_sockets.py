"""Jobs between two processes: each contestant's jobs end, or are ended and named."""

from __future__ import annotations

import pytest

from benchmarks import sockets


def test_a_job_ends() -> None:
    """Both processes agree on the end; the figure is a time."""
    assert sockets.run_job("ours", "tcp", "echo", 10, 64) > 0


def test_a_contestant_that_hangs_is_ended_and_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No job takes longer than its limit."""
    monkeypatch.setattr(sockets, "LIMIT_S", 0.1)

    with pytest.raises(RuntimeError, match=r"^ours over unix, sink .* not done after"):
        sockets.run_job("ours", "unix", "sink", 10**9, 64)


def test_a_contestant_that_fails_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """The output of the contestant comes first."""
    with pytest.raises(RuntimeError, match=r"^nobody over unix, .* exit code 1"):
        sockets.run_job("nobody", "unix", "sink", 1, 64)
    assert "KeyError" in capfd.readouterr().err
