"""The fixture ``explore`` and its options, as a user's own pytest sees them."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest

from tests.conformance.test_command import run_pytest

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

# A lock each, in the wrong order; and a fault that no schedule without preemption
# shows.
TESTS = """
import threading

def deadlock(run):
    left, right = threading.Lock(), threading.Lock()

    def forward():
        with left, right:
            pass

    def backward():
        with right, left:
            pass

    run.spawn(forward)
    run.spawn(backward)

def test_found(explore):
    explore(deadlock)

def test_found_at_random(explore):
    explore(deadlock, limit=0, random=200)

def test_not_found(explore):
    explore(deadlock, bound=0, random=0)

def test_right(explore):
    report = explore(lambda run: run.sleep(1))
    print("explored", report.schedules, "seed", report.seed)
"""


def _pytest(folder: Path, *arguments: str, code: str = TESTS) -> CompletedProcess[str]:
    (folder / "test_users.py").write_text(code, encoding="utf-8")
    return run_pytest(folder, "-p", "no:cacheprovider", "-q", *arguments)


@pytest.mark.deep
def test_a_failure_shows_the_story_and_not_the_explorer(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-k", "test_found and not random")

    assert ran.returncode == 1
    assert "deadlock: no thread can continue: forward, backward" in ran.stdout
    assert "forward is stopped here; backward goes on" in ran.stdout
    assert "replay with: replay(program, [" in ran.stdout
    assert "test_users.py" in ran.stdout
    assert "queuebroker/testing" not in ran.stdout


@pytest.mark.deep
def test_a_failure_tells_the_seed_and_the_seed_repeats_it(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-k", "random")
    (output,) = [line for line in ran.stdout.splitlines() if "--explore-seed=" in line]
    (seed,) = [
        line.split(": ")[1].strip()
        for line in ran.stdout.splitlines()
        if line.startswith("E") and "seed: " in line
    ]

    again = _pytest(tmp_path, "-k", "random", output.strip())
    once = _pytest(tmp_path, "-k", "random", f"--explore-seed={seed}")

    assert f"seed: {seed}" in again.stdout
    assert f"seed: {seed}" in once.stdout
    assert seed.startswith(output.strip().removeprefix("--explore-seed="))


@pytest.mark.deep
def test_a_test_that_passes_shows_nothing(tmp_path: Path) -> None:
    ran = _pytest(tmp_path, "-k", "not_found or right")

    assert ran.returncode == 0
    assert "explore-seed" not in ran.stdout


@pytest.mark.deep
def test_the_command_line_wins_over_the_test(tmp_path: Path) -> None:
    ran = _pytest(
        tmp_path, "-k", "right", "-s", "--explore-schedules=7", "--explore-seed=11"
    )

    # One up to the bound, which has no more, and seven random ones.
    assert "explored 8 seed 11" in ran.stdout


@pytest.mark.deep
def test_random_schedules_are_as_many_as_the_option_says(tmp_path: Path) -> None:
    """A test that finds nothing without preemption fails with random schedules."""
    ran = _pytest(tmp_path, "-k", "not_found", "--explore-schedules=200")

    assert ran.returncode == 1
    assert "deadlock: no thread can continue" in ran.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    "code",
    [
        "def test_nothing(): pass",
        "def test_nothing(request): request.getfixturevalue('tmp_path')",
    ],
)
def test_a_test_that_does_not_explore_does_not_load_the_explorer(
    tmp_path: Path, code: str
) -> None:
    looks = inspect.cleandoc(
        """
        import sys

        def test_last():
            loaded = {name for name in sys.modules if name.startswith("queuebroker.te")}
            assert loaded <= {"queuebroker.testing", "queuebroker.testing.plugin"}
        """
    )

    ran = _pytest(tmp_path, code=f"{code}\n\n{looks}\n")

    assert ran.returncode == 0, ran.stdout


@pytest.mark.deep
@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_an_exploration_of_no_schedule_is_wrong_usage(
    tmp_path: Path, number: str
) -> None:
    ran = _pytest(tmp_path, f"--explore-schedules={number}")

    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    reported = f"argument --explore-schedules: {number!r} is no number of 1 or more"
    assert reported in ran.stderr


@pytest.mark.deep
def test_a_test_fails_if_its_program_would_not_run(tmp_path: Path) -> None:
    code = """
async def program(run):
    assert False

def test_refused_before_the_run(explore):
    explore(program)

def test_refused_after_it(explore):
    explore(lambda run: program(run))
"""

    ran = _pytest(tmp_path, "-W", "error", code=code)

    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "2 failed" in ran.stdout
    reported = re.findall(
        r"^E +\S*Error: program must be a plain", ran.stdout, re.MULTILINE
    )
    assert len(reported) == 2


@pytest.mark.deep
def test_there_are_no_other_options(tmp_path: Path) -> None:
    shown = _pytest(tmp_path, "--help").stdout

    group = shown[shown.index("queuebroker:") :].split("\n\n")[0]
    options = [
        word.partition("=")[0] for word in group.split() if word.startswith("--")
    ]
    assert options == ["--conformance", "--explore-schedules", "--explore-seed"]
