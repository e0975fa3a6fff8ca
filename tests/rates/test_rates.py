"""The contest runs; its result is not checked here."""

from __future__ import annotations

import pytest

from tests.rates.__main__ import main
from tests.rates.contest import CASES


@pytest.mark.parametrize("case", CASES)
@pytest.mark.deep
def test_each_case_is_measured_and_judged(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--rounds", "1", "--seconds", "0.02", "--case", case])

    alone, line = capsys.readouterr().out.splitlines()
    assert alone.startswith("alone: ")
    assert line.startswith(case)
    assert line.endswith("kept" if code == 0 else "MISSED")
