"""From journals to all results, and every mistake of a user."""

from __future__ import annotations

import json
import platform
import shutil
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import JournalError, PipelineError
from bus.journal.rules import RULES, Verdict
from bus.pipeline import run
from bus.pipeline.folder import OutFolder
from bus.pipeline.results import first_violations, read_rows, read_verdicts
from bus.pipeline.run import draw_report, run_pipeline
from tests.journal.histories import Condition, clean, journal_id, plant, store
from tests.pipeline.batch import judge

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

TABLES = {
    *("events", "segments", "journals", "messages", "sessions", "flows"),
    *("violations", "verdicts"),
    *("routes", "traffic", "latency", "distribution", "depth", "waits", "drops"),
    "marks",
}


def rows(folder: OutFolder, table: str) -> list[tuple[tuple[str, Any], ...]]:
    found = (tuple(row.items()) for row in read_rows(folder, table))
    return sorted(found, key=repr)  # columns may be null


@pytest.mark.spark
def test_a_run_leaves_tables_verdicts_violations_and_report(
    finished: OutFolder,
) -> None:
    assert {path.name for path in finished.table("").iterdir()} == TABLES
    assert finished.report.exists()
    about = json.loads(finished.about.read_text())
    assert about["master"] == "local[2]"
    assert about["versions"]["pyspark"]
    assert finished.violations.read_text() == ""
    reported = read_verdicts(finished)
    assert reported["verdict"] == "PASS"
    # The journals have no traffic of a bus.
    assert {one["rule"]: one["verdict"] for one in reported["verdicts"]} == {
        rule: "nothing to check" if rule.startswith("B") else "PASS" for rule in RULES
    }
    assert all(
        bool(one["checked"]) is not one["rule"].startswith("B")
        for one in reported["verdicts"]
    )


@pytest.mark.spark
@pytest.mark.parametrize("drawn", [True, False])
def test_a_run_without_new_records_repeats_the_verdicts_without_spark(
    finished: OutFolder,
    journals: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drawn: bool,
) -> None:
    out = OutFolder(tmp_path / "out")
    shutil.copytree(finished.path, out.path)
    if not drawn:  # its run was killed at the end
        out.report.unlink()
    monkeypatch.setattr(run, "session", None)

    outcome = run_pipeline(journals, out.path)

    started = json.loads(out.about.read_text())["started"]
    assert outcome.news.startswith(f"nothing new since {started}: 1 journal, ")
    assert outcome.verdict is Verdict.PASS
    assert outcome.report == out.report
    assert out.report.read_bytes() == finished.report.read_bytes()


@pytest.mark.spark
@pytest.mark.deep
def test_a_run_after_an_interrupted_one_reads_nothing_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It has the results of a run in a new folder."""
    history = clean(6, channels=4, steps=300, journals=2)
    plant(history, "duplicate", Random(6))
    journals, out = tmp_path / "journals", tmp_path / "out"
    _, second = store(history, journals, slots=64)
    second.rename(tmp_path / "later")
    assert run_pipeline(journals, out, report=False).journals_read == 1
    (tmp_path / "later").rename(second)

    def strike(stage: str) -> None:
        if stage == "joining sends and receives":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pipeline(journals, out, report=False, progress=strike)
    assert not OutFolder(out).verdicts.exists()
    outcome = run_pipeline(journals, out, report=False)

    whole = run_pipeline(journals, tmp_path / "fresh", report=False)
    assert (whole.journals_read, outcome.journals_read) == (2, 0)
    assert outcome.verdicts == whole.verdicts
    assert outcome.first == whole.first
    for table in ("events", "journals", "messages", "flows", "violations"):
        found, expected = (
            rows(OutFolder(tmp_path / name), table) for name in ("out", "fresh")
        )
        assert found == expected, table


@pytest.mark.spark
@pytest.mark.deep
def test_lost_records_may_have_broken_any_rule(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = clean(3)
    store(history, tmp_path / "journals", conditions={0: Condition(lost=2)})

    judged = judge(tmp_path / "journals", tmp_path / "out")

    assert judged.result.verdict is Verdict.UNKNOWN
    assert [one.key for one in judged.violations] == [
        ("J1", None, None, None, journal_id(0))
    ]
    for verdict in judged.result.verdicts:
        assert verdict.verdict is Verdict.UNKNOWN
        assert verdict.why


@pytest.mark.spark
@pytest.mark.deep
def test_unreadable_files_are_reported_and_the_rest_is_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A garbage file, a truncated one, one that vanishes during the run."""
    history = clean(4, channels=8, steps=400, journals=2)
    key = plant(history, "duplicate", Random(4))
    first, second = store(history, tmp_path / "journals", slots=32)
    rubbish = first / "seg-00099.qbj"
    rubbish.write_bytes(b"rubbish")
    gone, cut, *_ = sorted(second.glob("*.qbj"))
    cut.write_bytes(cut.read_bytes()[:-200])

    def remove(doing: str) -> None:
        if doing == "reading journals":
            gone.unlink()

    result = run_pipeline(
        tmp_path / "journals", tmp_path / "out", report=False, progress=remove
    )

    assert result.verdict is Verdict.FAIL
    # A file may have several flaws, a line each; no other file has any.
    reported = [
        [path for path in (rubbish, cut, gone) if str(path) in line]
        for line in result.problems
    ]
    assert all(len(paths) == 1 for paths in reported)
    assert {paths[0] for paths in reported} == {rubbish, cut, gone}
    found = {one.rule: one for one in first_violations(OutFolder(tmp_path / "out"), 9)}
    assert key is not None
    assert found["Q3"].key == key
    verdicts = {one.rule: one.verdict for one in result.verdicts}
    assert verdicts["J1"] is Verdict.FAIL
    # The truncated journal's gap would be a loss if the journal were complete.
    assert verdicts["Q5"] is Verdict.UNKNOWN


@pytest.mark.spark
def test_an_error_of_spark_is_one_line_that_names_its_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    store(clean(5), tmp_path / "journals")

    def spoil(doing: str) -> None:
        if doing == "joining sends and receives":
            for file in (tmp_path / "out" / "tables" / "events").glob("*.parquet"):
                file.write_bytes(b"rubbish")

    with pytest.raises(PipelineError) as caught:
        run_pipeline(
            tmp_path / "journals", tmp_path / "out", report=False, progress=spoil
        )

    assert str(caught.value).startswith("Spark failed: ")
    assert str(caught.value).endswith(f"more in {tmp_path / 'out' / 'spark.log'}")
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_a_worker_that_cannot_write_names_the_file_and_the_cause(
    spark: SparkSession, tmp_path: Path
) -> None:
    store(clean(5), tmp_path / "journals")
    events = tmp_path / "out" / "tables" / "events"

    def spoil(doing: str) -> None:
        if doing == "starting Spark":
            events.parent.mkdir()
            events.symlink_to("/proc")  # makes no file, as a full disk

    with pytest.raises(PipelineError) as caught:
        run_pipeline(
            tmp_path / "journals", tmp_path / "out", report=False, progress=spoil
        )

    error = str(caught.value)
    assert error.startswith(f"Spark failed: cannot write {events}/")
    assert f" on {platform.node()}: No such file or directory; more in " in error
    assert "\n" not in error


def test_of_an_error_of_java_the_cause_in_the_system_is_told() -> None:
    error = Exception(
        "An error occurred while calling o13.parquet.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: No space\n"
        "Caused by: java.io.IOException: No space left on device\n"
        "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
    )

    assert run._gist(error) == "No space left on device"


@pytest.mark.spark
def test_the_report_can_be_drawn_again_without_spark(
    finished: OutFolder, tmp_path: Path
) -> None:
    shutil.copytree(finished.path, tmp_path / "copy")
    copy = OutFolder(tmp_path / "copy")
    copy.report.unlink()

    assert draw_report(copy.path) == copy.report

    assert copy.report.read_text() == finished.report.read_text()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nowhere"):
        run_pipeline(tmp_path / "nowhere", tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_folder_without_journals_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(JournalError, match=r"no journal in .*empty"):
        run_pipeline(tmp_path / "empty", tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_results_go_into_no_folder_of_others(journals: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(PipelineError, match="not empty"):
        run_pipeline(journals, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_without_java_nothing_is_touched(
    journals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "missing", lambda *, drawing: "no Java found: install it")

    with pytest.raises(PipelineError, match="no Java found"):
        run_pipeline(journals, tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_there_is_no_report_to_draw_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no results in"):
        draw_report(tmp_path)
