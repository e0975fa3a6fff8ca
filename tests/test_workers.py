"""How tests are shared among worker processes, of which a test may end one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.processes import import_path

if TYPE_CHECKING:
    from pathlib import Path

_SCHEDULER = """
def pytest_xdist_make_scheduler(config, log):
    from tests.workers import Shares
    return Shares(config, log)
"""
# Some files have one test: a worker that waits for the next test must get it.
_TESTS = """
import os, pytest
@pytest.mark.parametrize("number", range({count}))
def test(number):
    if number in {ending}:
        os._exit(1)
"""


@pytest.mark.deep
@pytest.mark.parametrize("ending", [[0], [1], [2], [3], [1, 2]])
def test_a_test_that_ends_its_worker_fails_once_and_all_others_run(
    ending: list[int], tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(_SCHEDULER)
    for place, count in enumerate((4, 1, 1, 3, 1)):
        text = _TESTS.format(count=count, ending=ending if place == 0 else [])
        (tmp_path / f"test_{place}.py").write_text(text)

    (tmp_path / "pytest.ini").write_text("[pytest]")
    environment = {**os.environ, "PYTHONPATH": import_path(), "PYTEST_ADDOPTS": ""}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-n2", "--dist=loadfile"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    lines = re.findall(r" (PASSED|FAILED) (\S+)", ran.stdout)
    failed = {f"test_0.py::test[{number}]" for number in ending}
    assert {test for outcome, test in lines if outcome == "FAILED"} == failed
    assert Counter(test for _, test in lines) == {
        f"test_{place}.py::test[{number}]": 1
        for place, count in enumerate((4, 1, 1, 3, 1))
        for number in range(count)
    }
