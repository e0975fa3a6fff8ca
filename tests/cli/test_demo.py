"""``bus demo`` as a person meets it, with the small checker: words and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from bus.cli import main
from bus.demo import judge
from bus.demo.plant import FAULTS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without Java."""
    monkeypatch.setattr(judge, "missing", lambda: "no Java found: install it")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some files."""
    root = tmp_path / "files"
    root.mkdir()
    for number in range(12):
        (root / f"{number}").write_bytes(b"x" * (number // 2))
    return root


def _demo(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def test_all_is_well_and_says_so(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 0, ran.output
    assert "found 12 files, 30 bytes, 6 duplicates in 6 groups" in ran.output
    assert "the pass is equal" in ran.output
    assert "no report: no Java found: install it" in ran.output
    assert json.loads((out / "verdicts.json").read_text())["verdict"] == "PASS"
    assert (out / "violations.jsonl").read_text() == ""
    assert list((out / "journal").rglob("*.qbj"))


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_ends_with_one_and_names_the_message(
    folder: Path, tmp_path: Path, fault: str
) -> None:
    ran = _demo(folder, "--out", tmp_path / "out", "--plant", fault)

    assert ran.exit_code == 1, ran.output
    assert "message 1 of collector -> console port 3" in ran.output
    [line] = (tmp_path / "out" / "violations.jsonl").read_text().splitlines()
    assert json.loads(line)["seq"] == 1


def test_a_folder_of_results_is_used_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    _demo(folder, "--out", out, "--plant", "lost")

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 0, ran.output
    assert (out / "violations.jsonl").read_text() == ""


def test_a_folder_that_is_not_ours_is_refused(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    (out / "letter").write_text("dear")

    ran = _demo(folder, "--out", out)

    assert ran.exit_code == 2
    assert ran.output.startswith(f"bus: cannot write to {out}: it is not empty")
    assert len(ran.output.splitlines()) == 1
    assert [path.name for path in out.iterdir()] == ["letter"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("nowhere",),
        ("--plant", "gremlin"),
        ("--seconds", "-1"),
        ("--seconds", "soon"),
        ("--processes", "4"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(
    tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    ran = _demo(*arguments)

    assert ran.exit_code == 2
    assert "Traceback" not in ran.output
    assert list(tmp_path.iterdir()) == []
