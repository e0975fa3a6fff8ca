"""`python -m specs`: the page, the data, the exit code, and our own tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import specs.__main__ as command
from specs.clauses import index_pages, load_clauses
from specs.coverage import weigh

PROJECT = Path(__file__).parents[2]

# People run it by hand on every commit: a slow check would not be run.
LIMIT_S = 60

PAGE = (
    "* **QB-X-1** One | rule. *Source: ours.*\n"
    "* **QB-X-2** Another. *Source: ours.*\n"
    "* **QB-X-3** (withdrawn) Third. *Source: ours.*\n"
)
HELD = "from specs.clauses import clause\n@clause('QB-X-1')\ndef test_a(): ...\n"
BOTH = HELD + "@clause('QB-X-2')\ndef test_b(): ...\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the test file of an empty project with two clauses in force."""
    clauses = index_pages([("x.md", PAGE)])
    monkeypatch.setattr(command, "load_clauses", lambda: clauses)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    return tmp_path / "tests" / "test_x.py"


def test_a_project_without_holes_passes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(BOTH, encoding="utf-8")

    assert command.main([]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "QB-X  2 of 2 with a test",
        "  QB-X-1  tests/test_x.py::test_a",
        "  QB-X-2  tests/test_x.py::test_b",
        "",
        "withdrawn",
        "  QB-X-3  Third.",
        "",
        "2 clauses in force, 2 with a test, 2 tests, 1 withdrawn, 0 holes, 0 orphans",
    ]


def test_one_clause_is_shown_with_its_tests(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(HELD, encoding="utf-8")

    command.main(["QB-X-1", "QB-X-2"])

    first, second = capsys.readouterr().out.rstrip().split("\n\n")
    assert first.startswith("QB-X-1  (specs/x.md:")
    assert first.endswith("\n  tests/test_x.py::test_a")
    assert second.endswith("  Another.\n  -- no test --")
    assert command.main(["QB-X-9"]) == 2
    assert "there is no clause QB-X-9" in capsys.readouterr().err


def test_a_hole_fails_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(HELD, encoding="utf-8")

    assert command.main([]) == 1
    out = capsys.readouterr().out
    assert "  QB-X-2  -- no test --" in out
    assert "holes: clauses that no test names\n  QB-X-2  Another.\n" in out


def test_an_orphan_fails_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(
        BOTH + "@clause('QB-X-3')\ndef test_c(): ...\n", encoding="utf-8"
    )

    assert command.main([]) == 1
    assert "  QB-X-3  tests/test_x.py::test_c (line 6)" in capsys.readouterr().out


def test_an_unreadable_decorator_fails_and_is_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(BOTH + "@clause(X)\ndef test_c(): ...\n", encoding="utf-8")

    assert command.main([]) == 1
    assert "tests/test_x.py:6: clause id must be a literal" in capsys.readouterr().out


def test_the_command_reports_the_same_as_json(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(HELD, encoding="utf-8")

    assert command.main(["--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["clauses"]["QB-X-1"] == {
        "file": "x.md",
        "line": 1,
        "withdrawn": False,
        "tests": ["tests/test_x.py::test_a"],
    }
    assert output["holes"] == ["QB-X-2"]
    assert output["withdrawn"] == ["QB-X-3"]
    assert output["sound"] is False


def test_the_page_maps_every_clause_to_its_tests(project: Path) -> None:
    project.write_text(HELD, encoding="utf-8")
    page = Path("map.md")

    command.main(["--markdown", str(page)])

    lines = page.read_text(encoding="utf-8").splitlines()
    # A bar in the text of a clause must not end the cell.
    assert "| QB-X-1 | One \\| rule. | `tests/test_x.py::test_a` |" in lines
    assert "| QB-X-2 | Another. | **none** |" in lines
    assert "* QB-X-3: Third." in lines


def test_a_folder_without_tests_is_a_wrong_use(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.parent.rmdir()

    assert command.main([]) == 2
    assert "specs: cannot find tests" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_a_wrong_use(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(BOTH, encoding="utf-8")

    assert command.main(["--markdown", "no/such/folder.md"]) == 2
    assert "specs: " in capsys.readouterr().err


@pytest.mark.deep
def test_our_own_project_is_read_within_the_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "specs", "--json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )

    output = json.loads(done.stdout)
    assert output["clauses"].keys() == load_clauses().keys()
    assert done.returncode == (0 if output["sound"] else 1)


@pytest.mark.deep
def test_every_clause_has_a_test_and_every_test_names_clauses_in_force(
    tmp_path: Path,
) -> None:
    # The suite is part of the package: next to an installed package, it is found there
    # and not beside these tests.
    (tmp_path / "specs").mkdir()
    for name, place in {
        "tests": PROJECT / "tests",
        "benchmarks": PROJECT / "benchmarks",
        "specs/conformance": Path(command.__file__).parent / "conformance",
    }.items():
        (tmp_path / name).symlink_to(place)

    coverage = weigh(load_clauses(), tmp_path)

    assert (coverage.holes, coverage.orphans, coverage.troubles) == ((), (), ())
