"""OPEN-2: a crash is detected soon, and a paused machine is not declared lost."""

from __future__ import annotations

import attrs
import pytest

from bus import BusConfig
from bus.kernel import constants
from specs.clauses import clause
from tests.simulate.silence import DETECTED_S, FAST, PAUSE_S, main, simulate


@pytest.mark.deep
@clause("OPEN-2")
@pytest.mark.parametrize("seed", range(1, 4))
def test_crashes_are_detected_in_time_and_no_pause_counts_as_one(seed: int) -> None:
    """Even if the other machine pauses before the first one runs again."""
    silence = simulate(300, seed)

    assert silence.false == (), silence
    assert silence.detected_s
    assert silence.p99_s < DETECTED_S, silence


@clause("OPEN-2")
def test_with_the_defaults_no_paused_machine_is_declared_lost() -> None:
    config = BusConfig()
    silence = simulate(100, config=config)

    assert silence.false == (), silence
    limit_s = config.lease_s + constants.RELINK_TIMEOUT_S
    assert limit_s - config.keep_alive_s <= silence.detected_s[0] <= limit_s + 0.1


@pytest.mark.deep
def test_with_a_lease_below_a_pause_paused_machines_are_declared_lost() -> None:
    """The simulation can fail."""
    short = attrs.evolve(FAST, lease_s=0.8 * PAUSE_S)
    assert len(simulate(50, config=short).false) > 25


def test_the_command_reports_one_line_and_its_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--hours", "20"]) == 0
    assert capsys.readouterr().out.startswith("20 machine hours, each with a pause of")
