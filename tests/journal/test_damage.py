"""Damaged journals: every verb ends with an exit code and a line, never a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journal.damage import attempt, main

if TYPE_CHECKING:
    from pathlib import Path

SEEDS = range(120)


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_no_damage_makes_a_verb_fail(tmp_path: Path, seed: int) -> None:
    attempt(tmp_path, seed)


def test_the_campaign_is_run_by_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "2", "--seed", "1000"]) == 0

    assert capsys.readouterr().out == "2 damaged, 0 failed\n"
