"""OPEN-2: a dead machine is known soon, and a paused one is not taken for dead."""

from __future__ import annotations

import attrs
import pytest

from bus import BusConfig
from specs.clauses import clause
from tests.simulate.silence import FAST, KNOWN_S, PAUSE_S, main, simulate


@clause("OPEN-2")
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_death_is_known_in_time_and_a_pause_is_none(seed: int) -> None:
    """Though the other machine may pause as well, before the first runs again."""
    silence = simulate(300, seed)

    assert silence.false == (), silence
    assert silence.known_s
    assert silence.p99_s < KNOWN_S, silence


@clause("OPEN-2")
def test_with_the_defaults_a_pause_is_no_death() -> None:
    config = BusConfig()
    silence = simulate(100, config=config)

    assert silence.false == (), silence
    known_s = config.lease_s + config.relink_timeout_s
    assert known_s - config.keep_alive_s <= silence.known_s[0] <= known_s + 0.1


def test_a_lease_that_is_shorter_than_a_pause_takes_the_living_for_dead() -> None:
    """The simulation can fail."""
    short = attrs.evolve(FAST, lease_s=0.8 * PAUSE_S)
    assert len(simulate(50, config=short).false) > 25


def test_the_command_reports_one_line_and_its_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--hours", "20"]) == 0
    assert capsys.readouterr().out.startswith("20 machine hours, each with a pause of")
