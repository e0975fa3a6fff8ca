"""``bus conformance`` and ``pytest --conformance``: scenarios, output, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import specs

ROOT = Path(__file__).parents[2]
OWN = f"{ROOT / 'tests' / 'conformance' / 'own.py'}:factory"
NAIVE = f"{ROOT / 'examples' / 'naive_broker.py'}:factory"
SUITE = str(Path(specs.__file__).parent / "conformance")
BUS = "from bus.cli import main; main()"


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder that is not the project's."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-P", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def run_bus(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``bus conformance``."""
    return run(folder, "-c", BUS, "conformance", *arguments)


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin, whether it is installed or not."""
    installed = "queuebroker.testing.plugin" in _entry_points()
    plugin = () if installed else ("-p", "queuebroker.testing.plugin")
    return run(folder, "-m", "pytest", *plugin, *arguments)


def _entry_points() -> set[str]:
    return {entry.value for entry in metadata.entry_points(group="pytest11")}


@pytest.mark.deep
def test_all_held_ends_with_0(tmp_path: Path) -> None:
    """The output says so."""
    done = run_bus(tmp_path, OWN, "-k", "RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-4:] == [
        "held: 1",
        "  QB-RDV-1",
        "failed: 0",
        "not offered: 0",
    ]


@pytest.mark.deep
def test_some_failed_ends_with_1(tmp_path: Path) -> None:
    """The output has the failed clause and the scenario that found it."""
    done = run_bus(tmp_path, NAIVE, "-k", "RDV-13 or RDV-14 or RDV-1-")

    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-6:] == [
        "held: 1",
        "  QB-RDV-1",
        "failed: 1",
        "  QB-RDV-13    rendezvous.an_unknown_name_gives_none_at_once",
        "not offered: 1",
        "  QB-RDV-14 (no broker.connect(required))",
    ]


@pytest.mark.deep
def test_a_wrong_subject_ends_with_2(tmp_path: Path) -> None:
    """One clear line and no traceback."""
    done = run_bus(tmp_path, "nothing.py:factory")

    assert done.returncode == 2
    (line,) = filter(None, done.stderr.splitlines())
    assert line == "bus: cannot find nothing.py:factory: there is no file nothing.py"
    assert done.stdout.strip() == ""


@pytest.mark.deep
@pytest.mark.parametrize(
    "arguments",
    [("--level", "high", NAIVE), (NAIVE, "--level", "high"), (NAIVE, "--level=high")],
)
def test_a_wrong_level_ends_with_2(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As any wrong option, before or after the subject."""
    done = run_bus(tmp_path, *arguments)

    assert done.returncode == 2
    assert "'high' is not one of 'quick', 'full'" in done.stderr


@pytest.mark.deep
def test_the_level_may_follow_the_subject(tmp_path: Path) -> None:
    """It is an option of the verb in any position; other options are pytest's."""
    (tmp_path / "told.py").write_text(
        "import os, sys\n"
        "print('level', os.environ['CONFORMANCE_LEVEL'], file=sys.stderr)\n"
        "raise OSError\n"
    )

    done = run_bus(tmp_path, "told.py:factory", "-x", "--level", "full")

    assert done.stderr.splitlines() == [
        "level full",
        "bus: cannot load told.py:factory: OSError",
    ]


@pytest.mark.deep
def test_a_choice_that_leaves_no_scenario_ends_with_2(tmp_path: Path) -> None:
    """The output has the selection."""
    done = run_bus(tmp_path, NAIVE, "-k", "nosuch")

    assert done.returncode == 2
    assert done.stderr == "bus: no scenario matches -k 'nosuch'\n"


@pytest.mark.deep
def test_a_selection_that_is_not_offered_names_the_missing_member(
    tmp_path: Path,
) -> None:
    """The selection matched, so it is not a mistake; but no clause was tested."""
    done = run_bus(tmp_path, NAIVE, "-k", "RDV-14")

    assert done.returncode == 4
    assert done.stdout.splitlines()[-2:] == [
        "not offered: 1",
        "  QB-RDV-14 (no broker.connect(required))",
    ]


@pytest.mark.deep
def test_a_module_is_found_in_the_current_folder(tmp_path: Path) -> None:
    """module:factory needs no PYTHONPATH."""
    (tmp_path / "mine.py").write_text((ROOT / "examples/naive_broker.py").read_text())

    done = run_bus(tmp_path, "mine:factory", "-k", "RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "conformance of mine:factory" in done.stdout


@pytest.mark.deep
def test_a_module_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    """As when Python runs the file."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "mine.py").write_text((ROOT / "examples/naive_broker.py").read_text())
    (folder / "adapter.py").write_text("from mine import factory\n")

    done = run_bus(tmp_path, "elsewhere/adapter.py:factory", "-k", "RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.deep
def test_the_users_pytest_configuration_is_left_out(tmp_path: Path) -> None:
    """Its settings are meant for other tests."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")

    done = run_bus(tmp_path, NAIVE, "-k", "RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr


def test_without_pytest_one_line_names_the_package_to_install(tmp_path: Path) -> None:
    """It is an extra; the other verbs do without it."""
    hide = (
        "import sys, importlib.abc\n"
        "class Hide(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'pytest': raise ModuleNotFoundError(name=name)\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pytest' else find(name, *a)\n"
        "sys.meta_path.insert(0, Hide())\n"
    )

    done = run(tmp_path, "-c", hide + BUS, "conformance", NAIVE)

    assert done.returncode == 4
    assert done.stderr == (
        "bus: cannot run conformance: pytest is not installed; run pip install pytest\n"
    )


@pytest.mark.deep
def test_a_subject_outside_the_explorers_control_runs_on_real_threads(
    tmp_path: Path,
) -> None:
    """And the output says so."""
    done = run_bus(tmp_path, "tests.conformance.uncontrolled:factory", "-k", "SEND-6")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nscenarios: 1 on real threads\n" in done.stdout


@pytest.mark.deep
def test_pytest_with_the_option_alone_runs_the_suite(tmp_path: Path) -> None:
    """It does not collect other tests in the folder."""
    (tmp_path / "test_mine.py").write_text("def test_mine():\n    raise OSError\n")

    done = run_pytest(tmp_path, "-q", "--conformance", NAIVE, "-k", "RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-4:] == [
        "held: 1",
        "  QB-RDV-1",
        "failed: 0",
        "not offered: 0",
    ]


@pytest.mark.deep
def test_pytest_with_a_path_and_the_option(tmp_path: Path) -> None:
    """A wrong subject is pytest's own usage error."""
    done = run_pytest(tmp_path, "-q", SUITE, "--conformance", "nothing.py:factory")

    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: cannot find nothing.py:factory" in done.stderr


@pytest.mark.deep
def test_pytest_with_workers_still_gives_one_verdict(tmp_path: Path) -> None:
    """Each worker of pytest-xdist would see only a part of the results."""
    done = run_pytest(tmp_path, "-n2", "-q", SUITE, "--conformance", OWN, "-k=RDV-1-")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-4:-1] == ["held: 1", "  QB-RDV-1", "failed: 0"]


@pytest.mark.deep
def test_pytest_without_the_option_names_the_missing_option(tmp_path: Path) -> None:
    """Collecting the suite without an implementation is not a failure."""
    done = run_pytest(tmp_path, "-q", SUITE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == (
        "conformance: no implementation given; say --conformance FILE:factory"
    )
