"""The whole run over a small folder: equal to the serial one, every fault reported."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from bus.api.membership import _joined
from bus.demo.faults import FAULTS
from bus.demo.files import FileList, list_files
from bus.demo.inventory import Inventory
from bus.demo.messages import Damaged, Event, HungUp, PassDone, Took
from bus.demo.run import Outcome, take_inventory
from bus.demo.threads import LEAVER
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.model.config import BusConfig
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create thirty files: some alike, one empty, some of several chunks."""
    root = tmp_path / "files"
    root.mkdir()
    for number in range(30):
        content = b"%d" % (number % 12) * (number * 997)
        (root / f"{number:02}").write_bytes(content)
    return root


def test_a_run_is_equal_to_the_serial_one_and_keeps_every_promise(
    folder: Path, tmp_path: Path
) -> None:
    files = list_files(folder)
    reported: list[Event] = []

    outcome = take_inventory(files, tmp_path / "journal", on_event=reported.append)

    assert [comparison.equal for comparison in outcome.comparisons] == [True]
    assert outcome.inventories[0].files == 30
    assert len([event for event in reported if isinstance(event, Took)]) == 30
    assert reported.count(PassDone(1)) == 1
    assert not any(
        isinstance(each, Took) for each in reported[reported.index(PassDone(1)) :]
    )
    result = check(open_journals(tmp_path / "journal"))
    assert result.verdict is Verdict.PASS
    # The rules of the bus have nothing to check: its traffic is not recorded.
    assert all(each.checked for each in result.verdicts if each.rule[0] != "B")


def test_a_worker_that_disconnects_is_reported_and_another_does_its_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[Event] = []
    gone = threading.Event()
    read = FileList.read

    def read_later(files: FileList, index: int) -> bytes:
        # Otherwise the others may finish all files before it has its second one.
        if threading.current_thread().name.endswith(("worker/2", "worker/3")):
            assert gone.wait(LIMIT_S)
        return read(files, index)

    def tell(event: Event) -> None:
        reported.append(event)
        if isinstance(event, HungUp):
            gone.set()

    monkeypatch.setattr(FileList, "read", read_later)

    outcome = take_inventory(list_files(folder), tmp_path / "journal", on_event=tell)

    [left] = [event for event in reported if isinstance(event, HungUp)]
    assert left.worker == LEAVER
    assert left.unfinished in outcome.inventories[0].digests


def test_passes_go_on_until_the_time_is_up(folder: Path, tmp_path: Path) -> None:
    outcome = take_inventory(list_files(folder), tmp_path / "journal", seconds=0.3)

    assert len(outcome.inventories) > 1
    assert outcome.equal


@pytest.mark.deep
def test_no_news_is_dropped_for_a_console_that_is_slow(tmp_path: Path) -> None:
    root = tmp_path / "files"
    root.mkdir()
    room = BusConfig().task_fifo_messages
    for number in range(room + 50):
        (root / f"{number}").touch()
    reported: list[Event] = []

    def slow(event: Event) -> None:
        if not reported:
            until(lambda: _unread_by_console() == room, "it has no more room")
        reported.append(event)

    take_inventory(list_files(root), tmp_path / "journal", on_event=slow)

    assert len([each for each in reported if isinstance(each, Took)]) == room + 50
    assert reported[-1] == PassDone(1)


def _unread_by_console() -> int:
    [console] = [
        each for each in _joined["demo"].tasks() if each.address.module == "console"
    ]
    return console.subscriptions[0].notifications.unread


def test_a_file_that_vanishes_is_reported_and_the_rest_is_done(
    folder: Path, tmp_path: Path
) -> None:
    files = list_files(folder)
    (folder / "07").unlink()

    outcome = take_inventory(files, tmp_path / "journal")

    assert outcome.inventories[0].unread == {7: "No such file or directory"}
    assert outcome.inventories[0].files == 29
    assert outcome.equal


def test_one_pass_that_differs_makes_a_run_unequal() -> None:
    serial, other = Inventory(), Inventory()
    serial.add(0, 1, "aa")
    other.add(0, 1, "bb")

    outcome = Outcome((serial, other), serial, 0.0)

    assert [comparison.equal for comparison in outcome.comparisons] == [True, False]
    assert not outcome.equal


_NAMED_BY = {"lost": "Q5", "duplicate": "Q3", "reorder": "Q2", "half": "Q7"}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_planted_fault_is_found_and_its_message_named(
    folder: Path, tmp_path: Path, fault: str
) -> None:
    outcome = take_inventory(list_files(folder), tmp_path / "journal", fault=fault)

    assert outcome.equal
    result = check(open_journals(tmp_path / "journal"))
    [violation] = result.violations
    assert (violation.rule, violation.verdict) == (_NAMED_BY[fault], Verdict.FAIL)
    assert (violation.sender, violation.receiver) == (LEAVER, "collector")
    assert violation.seq == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, BrokenPipeError])
def test_an_interrupted_run_ends_all_its_threads(
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    error: type[BaseException],
) -> None:
    def interrupt(_: Event) -> None:
        raise error

    with pytest.raises(error):
        take_inventory(list_files(folder), tmp_path / "journal", on_event=interrupt)

    # A check after every test finds leaked threads.
    assert caplog.records == []


def test_a_file_damaged_on_the_way_is_reported_and_sent_again(
    folder: Path, tmp_path: Path
) -> None:
    reported: list[Event] = []

    outcome = take_inventory(
        list_files(folder), tmp_path / "journal", fault="lost", on_event=reported.append
    )

    assert reported.count(Damaged(LEAVER)) == 1
    assert outcome.inventories[0].unread == {}


def test_the_record_covers_the_queues_that_carry_content(
    folder: Path, tmp_path: Path
) -> None:
    take_inventory(list_files(folder), tmp_path / "journal")

    result = check(open_journals(tmp_path / "journal"))
    checked = {each.rule: each.checked for each in result.verdicts}
    assert checked["Q1"] == 3
