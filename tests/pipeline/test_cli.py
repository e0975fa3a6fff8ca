"""``bus pipeline``: verdicts on the terminal, one line for each mistake, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from bus.cli import main
from bus.journal.rules import RULES
from bus.pipeline import run
from bus.pipeline.folder import OutFolder, claimed
from tests.journal.histories import Condition, store
from tests.pipeline.by_hand import results
from tests.pipeline.test_rules import faulty

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


@pytest.mark.spark
@pytest.mark.deep
def test_a_violation_is_named_with_exit_code_1(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, key = faulty("duplicate")
    store(history, tmp_path / "journals")
    out = tmp_path / "out"

    result = invoke("check", "--journals", tmp_path / "journals", "--out", out)

    assert result.exit_code == 1
    assert result.stderr == ""
    head, *lines = result.stdout.splitlines()
    assert head.split()[:4] == ["rule", "promise", "verdict", "checked"]
    table = lines[: len(RULES)]
    assert [line.split()[0] for line in table] == list(RULES)
    assert [line.split()[0] for line in table if " FAIL " in line] == ["Q3"]
    reported, look, read = lines[len(RULES) :]
    assert reported.startswith(f"Q3 FAIL: message {key[2]} of ")
    assert "received 2 times" in reported
    assert look.startswith(f"inspect: bus journal cat {tmp_path / 'journals'} --flow ")
    assert read.startswith("read 1 journal, ")
    assert not OutFolder(out).report.exists()

    again = invoke("check", "--journals", tmp_path / "journals", "--out", out, "--json")

    assert again.exit_code == 1
    found = json.loads(again.stdout)
    assert (found["verdict"], found["violations"]) == ("FAIL", 1)
    assert found["records_read"] == 0 < found["records"]
    assert found["since"]


@pytest.mark.spark
@pytest.mark.deep
def test_a_journal_of_unknown_end_is_exit_code_3(
    spark: SparkSession, tmp_path: Path
) -> None:
    history, _ = faulty("lost")
    condition = Condition(closed=False, sealed=False)
    (folder,) = store(history, tmp_path / "journals", conditions={0: condition})
    (folder / "meta.jsonl").write_text("{{{\n")
    paths = "--journals", tmp_path / "journals", "--out", tmp_path / "out"

    result = invoke("check", *paths)

    assert result.exit_code == 3
    assert "Q5 UNKNOWN: message " in result.stdout
    # The journal is used anyway, and its gaps are reported.
    assert result.stderr.splitlines() == [
        f"bus: cannot read 1 line of {folder / 'meta.jsonl'}: number 1"
    ]


@pytest.mark.spark
def test_a_report_is_drawn_again(finished: OutFolder, tmp_path: Path) -> None:
    shutil.copytree(finished.path, tmp_path / "copy")

    result = invoke("report", "--out", tmp_path / "copy")

    assert result.exit_code == 0
    assert result.stdout == f"report: {tmp_path / 'copy' / 'report.html'}\n"


@pytest.mark.spark
def test_a_report_compares_two_runs(finished: OutFolder, tmp_path: Path) -> None:
    shutil.copytree(finished.path, tmp_path / "copy")

    result = invoke("report", "--out", tmp_path / "copy", "--against", finished.path)

    assert result.exit_code == 0
    page = (tmp_path / "copy" / "report.html").read_text(encoding="utf-8")
    assert "Every rule has the same verdict in both." in page


@pytest.mark.parametrize(
    ("out", "against", "error"),
    [
        ("whole", "whole", "cannot compare {}/whole with itself: name the results of"),
        ("nowhere", "whole", "no results in {}/nowhere: run `bus pipeline all` first"),
        ("whole", "nowhere", "no results in {}/nowhere: run `bus pipeline all` first"),
        ("whole", "checked", "no statistics in {}/checked: `bus pipeline check`"),
        ("checked", "whole", "no statistics in {}/checked: `bus pipeline check`"),
    ],
)
def test_a_comparison_with_no_statistics_is_one_line(
    tmp_path: Path, out: str, against: str, error: str
) -> None:
    results(tmp_path / "whole", routes=[{"source": "a"}])
    results(tmp_path / "checked", journals=[{"journal": 1}])

    result = invoke("report", "--out", tmp_path / out, "--against", tmp_path / against)

    assert result.exit_code == 4
    assert error.format(tmp_path) in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("all", "'--journals'"),
        ("check", "'--journals'"),
        ("all --journals x --jobs 2 --master spark://far:7077", "--jobs is for this m"),
        *(
            (f"check --journals x --conf {each}", "write it as spark.NAME=VALUE")
            for each in ("spark.ui.enabled", "ui.enabled=true", "=")
        ),
        *(
            (f"all --journals x --memory {each}", f"'{each}' is no size: give one")
            for each in ("4", "1x", "0g")
        ),
    ],
)
def test_an_option_that_cannot_be_used_is_explained(arguments: str, text: str) -> None:
    result = invoke(*arguments.split(), "--out", "y")

    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


def mistakes(tmp_path: Path) -> dict[str, tuple[Path, Path, str]]:
    """Return journals, out, and the text that the error line must contain."""
    good, empty, taken = (tmp_path / name for name in ("good", "empty", "taken"))
    store(faulty("lost")[0], good)
    empty.mkdir()
    taken.mkdir()
    (taken / "theirs").touch()
    out = tmp_path / "out"
    return {
        "no folder": (tmp_path / "nowhere", out, "nowhere"),
        "no journal": (empty, out, f"no journal in {empty}"),
        "a file": (taken / "theirs", out, "theirs"),
        "not ours": (good, taken, f"cannot write to {taken}: it is not empty"),
        "no folder to write": (good, taken / "theirs", "it is a file"),
    }


MISTAKES = ("no folder", "no journal", "a file", "not ours", "no folder to write")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_4(tmp_path: Path, mistake: str) -> None:
    journals, out, text = mistakes(tmp_path)[mistake]

    result = invoke("all", "--journals", journals, "--out", out)

    assert result.exit_code == 4
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("bus: ")
    assert text in line


def test_without_java_one_line_names_the_version_to_install(
    journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", os.devnull)

    result = invoke("all", "--journals", journals, "--out", tmp_path / "out")

    assert result.exit_code == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("bus: no Java found: install Java 17")
    monkeypatch.setenv("JAVA_HOME", "/opt/none")
    again = invoke("all", "--journals", journals, "--out", tmp_path / "out")
    assert again.stderr.startswith("bus: no Java found at JAVA_HOME=/opt/none: install")


def test_a_report_without_its_packages_names_the_ones_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results(tmp_path, journals=[{"records": 0}])
    monkeypatch.setitem(sys.modules, "jinja2", None)

    result = invoke("report", "--out", tmp_path)

    assert result.exit_code == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("bus: jinja2 not installed: pip install ")


@pytest.mark.parametrize("broken", ["verdicts", "table", "page", "none"])
def test_a_report_of_broken_results_is_one_line(tmp_path: Path, broken: str) -> None:
    journals = [{"records": n} for n in range(999)]
    folder = results(tmp_path, journals=journals, routes=[{"source": "a"}])
    (table,) = folder.table("journals").iterdir()
    content = table.read_bytes()
    if broken == "verdicts":
        text = folder.verdicts.read_text()
        folder.verdicts.write_text(text[: len(text) // 2])
    elif broken == "table":
        table.write_bytes(content[:-5])
    elif broken == "page":
        table.write_bytes(content[:4] + bytes(200) + content[204:])
    else:
        folder.verdicts.unlink()

    result = invoke("report", "--out", tmp_path)

    assert result.exit_code == 4, result.exception
    assert result.stderr == (
        f"bus: cannot read the results in {tmp_path}: run `bus pipeline all` again\n"
    )


@pytest.mark.parametrize("verb", ["all", "check", "report"])
def test_a_folder_in_which_another_run_is_at_work_is_left_alone(
    journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(run, "missing", lambda **_: None)
    folder = results(tmp_path, journals=[{"records": 0}])
    arguments = () if verb == "report" else ("--journals", journals)

    with claimed(tmp_path):
        result = invoke(verb, *arguments, "--out", tmp_path)

    assert (result.exit_code, result.stderr) == (
        4,
        f"bus: cannot write to {tmp_path}: another run is writing there; wait for it,"
        " or name another with --out\n",
    )
    assert folder.verdicts.exists()
    assert not folder.report.exists()
