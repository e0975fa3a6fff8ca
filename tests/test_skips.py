"""Skips are read from pytest's own results and compared with the list."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests import skips

_SKIPPING = """
import pytest

def test_runs(): pass
def test_allowed(): pytest.skip("no free-threaded interpreter here")
@pytest.mark.skip(reason="no network")
def test_refused(): pass
@pytest.mark.xfail(reason="one day")
def test_expected_to_fail(): assert False
"""


@pytest.mark.deep
def test_skips_and_expected_failures_of_a_real_run_are_found(tmp_path: Path) -> None:
    results = _results_of(tmp_path, _SKIPPING)

    found = skips.skips_in(ET.parse(results).getroot())

    assert {(skip.test.rpartition("::")[2], skip.reason) for skip in found} == {
        ("test_allowed", "no free-threaded interpreter here"),
        ("test_refused", "no network"),
        ("test_expected_to_fail", "one day"),
    }


@pytest.mark.deep
def test_a_skip_that_is_not_listed_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert skips.main([str(_results_of(tmp_path, _SKIPPING))]) == 1

    said = capsys.readouterr().out
    assert "allowed: test_it::test_allowed: no free-threaded" in said
    assert "NOT ALLOWED: test_it::test_refused: no network" in said
    assert said.endswith("4 tests, 3 skipped, 2 of them not allowed\n")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def test_runs(): pass", 0),
        ("def helper(): pass", 1),
        ("import pytest\npytest.importorskip('no_such_module')", 1),
    ],
    ids=["all run", "nothing run", "a whole file skipped"],
)
def test_exit_code(tmp_path: Path, text: str, code: int) -> None:
    assert skips.main([str(_results_of(tmp_path, text))]) == code


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert skips.main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_results_that_are_not_there_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert skips.main([str(tmp_path / "results.xml")]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("cannot read the results of a test run: ")


def test_each_pattern_needs_its_reason() -> None:
    text = "# why\nfirst\nsecond\n\nthird\n"

    with pytest.raises(ValueError, match="line 5 allows a skip and does not say why"):
        skips.allowed_reasons(text)


def test_the_list_itself_is_well_formed() -> None:
    text = Path(skips.__file__).with_name("allowed_skips.txt").read_text()

    patterns = skips.allowed_reasons(text)

    assert skips.Skip("t", "no free-threaded interpreter found").allowed_by(patterns)
    assert not skips.Skip("t", "needs Java").allowed_by(patterns)


def _results_of(folder: Path, text: str) -> Path:
    (folder / "test_it.py").write_text(text)
    results = folder / "results.xml"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={results}"]
    subprocess.run(
        [sys.executable, *command, "test_it.py"],
        cwd=folder,
        check=False,
        stdout=subprocess.DEVNULL,
        timeout=100,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    return results
