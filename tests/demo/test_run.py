"""The whole run over a small folder: equal to the serial one, and every fault named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.demo.files import list_files
from bus.demo.messages import HungUp, News, PassDone, Took
from bus.demo.plant import FAULTS
from bus.demo.run import Outcome, take_stock
from bus.demo.stock import Stock
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty files: some alike, one empty, some of several chunks."""
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
    told: list[News] = []

    outcome = take_stock(files, tmp_path / "journal", news=told.append)

    assert [comparison.equal for comparison in outcome.comparisons] == [True]
    assert outcome.stocks[0].files == 30
    assert len([news for news in told if isinstance(news, Took)]) == 30
    assert told[-1] == PassDone(1)
    result = check(open_journals(tmp_path / "journal"))
    assert result.verdict is Verdict.PASS
    assert all(each.checked for each in result.verdicts)


def test_the_worker_that_hangs_up_is_told_of_and_its_file_done_by_another(
    folder: Path, tmp_path: Path
) -> None:
    told: list[News] = []

    outcome = take_stock(list_files(folder), tmp_path / "journal", news=told.append)

    [left] = [news for news in told if isinstance(news, HungUp)]
    assert left.worker == "worker-1"
    assert left.unfinished in outcome.stocks[0].digests


def test_passes_go_on_until_the_time_is_up(folder: Path, tmp_path: Path) -> None:
    outcome = take_stock(list_files(folder), tmp_path / "journal", seconds=0.3)

    assert len(outcome.stocks) > 1
    assert outcome.equal


def test_a_file_that_vanishes_is_said_and_the_rest_is_done(
    folder: Path, tmp_path: Path
) -> None:
    files = list_files(folder)
    (folder / "07").unlink()

    outcome = take_stock(files, tmp_path / "journal")

    assert outcome.stocks[0].unread == {7: "No such file or directory"}
    assert outcome.stocks[0].files == 29
    assert outcome.equal


def test_one_pass_that_differs_makes_a_run_unequal() -> None:
    serial, other = Stock(), Stock()
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
    outcome = take_stock(list_files(folder), tmp_path / "journal", fault=fault)

    assert outcome.equal
    result = check(open_journals(tmp_path / "journal"))
    [violation] = result.violations
    assert (violation.rule, violation.verdict) == (_NAMED_BY[fault], Verdict.FAIL)
    assert (violation.sender, violation.receiver) == ("collector", "console")
    assert violation.seq == 1
