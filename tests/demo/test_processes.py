"""The whole run in processes, one of which is killed in the middle of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bus
from bus import Role, open_bus
from bus.demo import processes
from bus.demo.files import FileList, list_files
from bus.demo.messages import Event, HungUp, Rescued, Took
from bus.demo.run import take_inventory
from bus.errors import DemoError
from bus.journal.checker import CheckResult, check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from tests.kit.systems import needs_unix_sockets

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.demo.run import Outcome

pytestmark = needs_unix_sockets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create twenty files: some alike, one empty, some of several pieces."""
    root = tmp_path / "files"
    root.mkdir()
    for number in range(20):
        content = b"%d" % (number % 12) * (number * 997)
        (root / f"{number:02}").write_bytes(content)
    return root


def _run(
    files: FileList,
    tmp_path: Path,
    count: int,
    *,
    seconds: float = 0.0,
    on_event: Callable[[Event], None] = lambda _: None,
) -> tuple[Outcome, CheckResult, list[Event]]:
    reported: list[Event] = []

    def tell(each: Event) -> None:
        reported.append(each)
        on_event(each)

    journals = tmp_path / "journal"
    outcome = take_inventory(
        files, journals, processes=count, seconds=seconds, on_event=tell
    )
    return outcome, check(open_journals(journals)), reported


def _left_behind() -> list[str]:
    folder = Path(os.environ["BUS_RUN_DIR"], "demo")
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.deep
def test_all_is_done_and_kept_though_one_leaves_and_one_is_killed(
    folder: Path, tmp_path: Path
) -> None:
    outcome, result, reported = _run(list_files(folder), tmp_path, 4)

    assert [comparison.equal for comparison in outcome.comparisons] == [True]
    assert outcome.inventories[0].files == 20
    [left] = [event for event in reported if isinstance(event, HungUp)]
    assert left.worker == "worker/2"
    rescued = [event for event in reported if isinstance(event, Rescued)]
    assert {event.worker for event in rescued} == {"worker/1"}
    assert {event.told for event in rescued} <= {"in doubt", "peer lost"}
    assert all(event.by in {"worker/2", "worker/3"} for event in rescued)
    assert all(event.index in outcome.inventories[0].digests for event in rescued)

    assert result.verdict is Verdict.PASS, result.violations
    checked = {each.rule: each.checked for each in result.verdicts}
    assert (checked["J1"], checked["Q1"]) == (4, 3)
    # The traffic of the bus is recorded, too: each file is assigned and answered.
    assert checked["B1"] >= 40
    assert all(checked[rule] > 0 for rule in ("B2", "B3", "B5"))
    open_ended = [each for each in result.facts if not each.closed]
    assert len(open_ended) == 1  # the journal of the killed process
    # The lock file stays, unlocked.
    assert _left_behind() == ["lock"]


@pytest.mark.deep
def test_in_a_long_list_each_has_done_its_share_before(tmp_path: Path) -> None:
    root = tmp_path / "files"
    root.mkdir()
    for number in range(100):
        (root / f"{number:02}").write_bytes(b"%d" % number * 99)

    outcome, result, reported = _run(list_files(root), tmp_path, 4)

    assert outcome.equal
    assert result.verdict is Verdict.PASS, result.violations
    [left] = [event for event in reported if isinstance(event, HungUp)]
    rescued = [event for event in reported if isinstance(event, Rescued)]
    assert left.worker == "worker/2"
    assert left.unfinished >= 80 or len(outcome.inventories) > 1
    assert {event.worker for event in rescued} == {"worker/1"}
    # The answers of the files before it may be under way when a worker is killed.
    first = min(event.index for event in rescued)
    assert first >= 60 - processes.AHEAD or len(outcome.inventories) > 1


@pytest.mark.deep
def test_one_worker_alone_is_let_live(folder: Path, tmp_path: Path) -> None:
    outcome, result, reported = _run(list_files(folder), tmp_path, 2)

    assert outcome.equal
    assert result.verdict is Verdict.PASS
    assert all(each.closed for each in result.facts)
    assert not any(isinstance(event, HungUp | Rescued) for event in reported)


@pytest.mark.parametrize("content", [b"", b"x"], ids=["empty", "short"])
@pytest.mark.deep
def test_one_file_is_enough_to_be_killed_in(tmp_path: Path, content: bytes) -> None:
    root = tmp_path / "files"
    root.mkdir()
    (root / "only").write_bytes(content)

    outcome, result, reported = _run(list_files(root), tmp_path, 3)

    assert outcome.equal
    assert result.verdict is Verdict.PASS, result.violations
    [rescued] = [event for event in reported if isinstance(event, Rescued)]
    assert (rescued.worker, rescued.index, rescued.by) == ("worker/1", 0, "worker/2")


@pytest.mark.deep
def test_files_that_cannot_be_read_are_enough_too(folder: Path, tmp_path: Path) -> None:
    files = list_files(folder)
    for path in folder.iterdir():
        path.unlink()

    outcome, result, reported = _run(files, tmp_path, 3)

    assert len(outcome.inventories[0].unread) == 20
    assert result.verdict is Verdict.PASS, result.violations
    assert any(isinstance(event, Rescued) for event in reported)


@pytest.mark.deep
def test_in_many_passes_one_is_killed_once(folder: Path, tmp_path: Path) -> None:
    outcome, result, reported = _run(list_files(folder), tmp_path, 3, seconds=1.5)

    assert len(outcome.inventories) > 1
    assert outcome.equal
    assert result.verdict is Verdict.PASS, result.violations
    rescued = [event for event in reported if isinstance(event, Rescued)]
    assert 1 <= len(rescued) <= 2  # the files assigned to it at the time
    assert len([each for each in result.facts if not each.closed]) == 1


@pytest.mark.deep
def test_others_can_look_at_its_bus(folder: Path, tmp_path: Path) -> None:
    seen: list[dict[str, object]] = []

    def look(event: Event) -> None:
        if not seen and isinstance(event, Took):
            command = [sys.executable, "-m", "bus", "tree", "--bus", "demo", "--json"]
            path = str(Path(bus.__file__).parents[1])
            printed = subprocess.run(
                command,
                check=True,
                stdout=subprocess.PIPE,
                timeout=30,
                env={**os.environ, "PYTHONPATH": path},
            )
            seen.append(json.loads(printed.stdout))

    _run(list_files(folder), tmp_path, 2, on_event=look)

    [tree] = seen
    assert '"worker/1"' in json.dumps(tree)
    assert '"collector"' in json.dumps(tree)


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
@pytest.mark.deep
def test_an_interrupted_run_ends_all_its_threads_and_processes(
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    error: type[BaseException],
) -> None:
    def interrupt(_: Event) -> None:
        raise error

    with pytest.raises(error):
        _run(list_files(folder), tmp_path, 4, on_event=interrupt)

    # A check after every test finds leaked threads, processes and descriptors.
    assert caplog.records == []
    assert capfd.readouterr().err == ""
    assert _left_behind() == ["lock"]


def test_two_at_a_time_are_one_error(folder: Path, tmp_path: Path) -> None:
    with (
        open_bus("demo", role=Role.MASTER),
        pytest.raises(DemoError, match="cannot open bus 'demo': another demo is"),
    ):
        _run(list_files(folder), tmp_path, 3)


def test_a_process_that_does_not_start_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", "raise SystemExit(3)")
    monkeypatch.setattr(processes, "_COMMAND", command)

    with pytest.raises(DemoError, match=r"cannot start worker/\d: .* exit code 3"):
        _run(list_files(folder), tmp_path, 3)

    assert _left_behind() == ["lock"]


def test_a_process_that_comes_to_nothing_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It receives its whole job, and then ends without a report."""
    command = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(64)")
    monkeypatch.setattr(processes, "_COMMAND", command)

    with pytest.raises(DemoError, match=r"cannot start worker/\d: .* exit code"):
        _run(list_files(folder), tmp_path, 2)
