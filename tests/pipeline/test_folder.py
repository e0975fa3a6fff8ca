"""The results folder: foreign files are not touched, old results are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.errors import PipelineError
from bus.pipeline.folder import MARKER, OutFolder, claimed
from queuebroker import _files

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_made_with_all_above_it(tmp_path: Path) -> None:
    folder = OutFolder.claim(tmp_path / "a" / "b")

    assert (folder.path / MARKER).exists()


def test_an_empty_folder_and_one_of_ours_are_taken(tmp_path: Path) -> None:
    OutFolder.claim(tmp_path)
    (tmp_path / "report.html").touch()

    assert OutFolder.claim(tmp_path).path == tmp_path


def test_a_folder_of_others_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()

    with pytest.raises(PipelineError, match="not empty, and not a folder of results"):
        OutFolder.claim(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_is_no_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(PipelineError, match=r"cannot write to .*file"):
        OutFolder.claim(tmp_path / "file" / below)


def test_clearing_a_folder_removes_the_files_of_a_run_and_nothing_else(
    tmp_path: Path,
) -> None:
    folder = OutFolder.claim(tmp_path)
    for file in (folder.report, folder.verdicts, folder.violations):
        file.touch()
    folder.table("events").mkdir(parents=True)
    (tmp_path / "journal").mkdir()

    folder.clear()
    folder.clear()

    assert {path.name for path in tmp_path.iterdir()} == {MARKER, "journal"}


def test_a_folder_without_results_is_not_reopened(tmp_path: Path) -> None:
    OutFolder.claim(tmp_path)

    with pytest.raises(PipelineError, match="no results in"):
        OutFolder.reopen(tmp_path)

    (tmp_path / "tables").mkdir()
    assert OutFolder.reopen(tmp_path).path == tmp_path


def test_a_folder_in_which_a_run_is_at_work_is_claimed_by_no_other(
    tmp_path: Path,
) -> None:
    with claimed(tmp_path):
        with (
            pytest.raises(PipelineError, match="another run is writing there"),
            claimed(tmp_path),
        ):
            pass
        assert (tmp_path / MARKER).exists()

    with claimed(tmp_path):
        pass


def test_a_run_that_locks_a_replaced_marker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = OutFolder.claim(tmp_path)

    def replace(*_: int) -> None:
        (tmp_path / MARKER).rename(tmp_path / "old")
        (tmp_path / MARKER).touch()

    monkeypatch.setattr(_files, "lock", replace)

    with (
        pytest.raises(PipelineError, match="another run is writing there"),
        folder.locked(),
    ):
        pass


@pytest.mark.parametrize("state", ["absent", "empty", "ours", "used"])
def test_a_run_that_fails_before_it_writes_leaves_its_folder_unchanged(
    tmp_path: Path, state: str
) -> None:
    out = tmp_path / "out"
    if state == "empty":
        out.mkdir()
    if state == "ours":
        OutFolder.claim(out)

    with pytest.raises(KeyboardInterrupt), claimed(out) as folder:  # noqa: PT012
        if state == "used":
            folder.log.touch()
        raise KeyboardInterrupt

    found = {each.name for each in out.iterdir()} if out.exists() else None
    left = {"absent": None, "empty": set(), "ours": {MARKER}}
    assert found == left.get(state, {MARKER, "spark.log"})
