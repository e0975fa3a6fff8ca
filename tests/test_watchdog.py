"""The limit on a test: it ends a wait, and leaves no trace if it is not needed."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.watchdog import watchdog

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="no signal ends a wait for a lock here"
)


def test_a_wait_for_ever_is_ended_and_shown(capfd: pytest.CaptureFixture[str]) -> None:
    lock = threading.Lock()
    lock.acquire()

    with (
        pytest.raises(pytest.fail.Exception, match=r"not done after 0\.05 s.*Main"),
        watchdog(0.05),
    ):
        lock.acquire()

    assert "test_a_wait_for_ever_is_ended_and_shown" in capfd.readouterr().err


def test_the_watchdog_restores_the_timer_and_the_handler() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    remaining_s, _ = signal.getitimer(signal.ITIMER_REAL)

    with watchdog(1_000):
        assert signal.getsignal(signal.SIGALRM) is not handler
        assert signal.getitimer(signal.ITIMER_REAL)[0] > remaining_s

    assert signal.getsignal(signal.SIGALRM) is handler
    after_s, _ = signal.getitimer(signal.ITIMER_REAL)
    # The outer watchdog of this very test is running again.
    assert 0 < after_s <= remaining_s
