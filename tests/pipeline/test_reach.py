"""Relative paths, and executors that do not find the folders of the driver."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bus.errors import PipelineError
from bus.journal.reader import StoredJournal
from bus.pipeline import share as share_module
from bus.pipeline.session import LOCAL_MASTER, _defaults, is_local
from bus.pipeline.share import Share, _asker, require
from tests.journal.histories import store
from tests.pipeline.reading import long_history, reader

if TYPE_CHECKING:
    from pathlib import Path


def test_a_share_is_read_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(long_history(), tmp_path / "journals", slots=64)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    shares = Share.list_all("journals")
    source = reader("journals")
    tasks = source.partitions()

    monkeypatch.chdir(tmp_path / "elsewhere")

    facts = [share.read(coded=True)[0] for share in shares]
    assert all(row["records"] and not row.get("problems") for row in facts)
    rows = [len(list(batch)) for task in tasks for batch in source.read(task)]
    assert len(rows) == len([row for row in facts if row["records"]])


def test_a_task_that_does_not_find_the_journals_names_their_folder(
    tmp_path: Path,
) -> None:
    """Otherwise it reads nothing, and every verdict is UNKNOWN."""
    store(long_history(), tmp_path / "journals", slots=64)
    source = reader(tmp_path / "journals")
    (task, *_) = source.partitions()

    (tmp_path / "journals").rename(tmp_path / "gone")

    with pytest.raises(PipelineError, match=f"cannot use {tmp_path / 'journals'}: "):
        list(source.read(task))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    require(str(tmp_path))
    with pytest.raises(PipelineError, match="file"):
        require(str(tmp_path / "file"))


def test_an_executor_needs_no_package_but_attrs_numpy_and_pyarrow() -> None:
    """All others have compiled code, which Spark cannot send in a zip, or are unused.

    Messages alone, which executors decode, need msgspec.
    """
    source = (
        "import sys\n"
        "for name in ('msgspec', 'packaging', 'pandas', 'click', 'rich', 'jinja2'):\n"
        "    sys.modules[name] = None\n"  # importing it fails
        "import bus.pipeline.event_file, bus.pipeline.source\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


def test_a_stream_makes_its_folder_and_a_task_without_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path is that of the driver's directory, wherever the task runs."""
    types = pytest.importorskip("pyspark.sql.types")
    sink = pytest.importorskip("bus.pipeline.sink")
    monkeypatch.chdir(tmp_path)
    rows = types.StructType().add("value", "string")

    writer = sink.BatchWriter({"path": "spool", "topic": "result"}, rows)

    assert (tmp_path / "spool" / "ready").is_dir()
    (tmp_path / "spool").rename(tmp_path / "elsewhere")
    with pytest.raises(PipelineError, match=f"cannot use {tmp_path / 'spool'}: "):
        writer.write(iter(()))


def test_executors_name_the_first_path_that_they_do_not_find(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "empty").mkdir()
    paths = [str(tmp_path / name) for name in ("full", "empty", "none")]

    sent = cloudpickle.dumps(_asker(paths))
    answers = list(pickle.loads(sent)([1]))

    assert [path for _, path in answers] == [paths[1]]
    assert list(_asker(paths[:1])([1])) == []


@pytest.mark.parametrize("master", ["local", "local[2]", LOCAL_MASTER])
def test_a_local_session_stays_on_the_loopback_address(master: str) -> None:
    assert is_local(master)
    assert _defaults(master, 0)["spark.driver.host"] == "127.0.0.1"


@pytest.mark.parametrize(
    "master", ["spark://far:7077", "local-cluster[2,1,1024]", "yarn", "k8s://far"]
)
def test_executors_elsewhere_choose_how_to_reach_the_driver(master: str) -> None:
    assert not is_local(master)
    assert not [name for name in _defaults(master, 0) if "driver" in name]


def test_the_side_file_of_a_journal_is_read_once_by_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(long_history(), tmp_path, slots=64)
    shares = Share.list_all(tmp_path)
    read: list[Path] = []

    def noted(path: Path) -> StoredJournal:
        read.append(path)
        return StoredJournal(path)

    monkeypatch.setattr(share_module, "StoredJournal", noted)
    for share in shares:
        assert sum(batch.num_rows for batch in share.events())
        assert share.read(coded=True)[0]["records"]

    assert len(shares) > 2
    assert len(read) == 1
