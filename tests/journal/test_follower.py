"""The journals below a folder as a stream: ends, shares, ranges, losses."""

from __future__ import annotations

import json
import logging
import shutil
from typing import TYPE_CHECKING

import pytest

from bus.errors import JournalError
from bus.journal.follower import EARLIEST, LATEST, Follower, starting_position
from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES, LOST, PUBLISHED_OFFSET
from bus.journal.reader import open_journals
from bus.journal.writer import Journal
from queuebroker import _files
from tests.journal.telling import spares_ready, tell
from tests.processes import start
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.follower import Position

SEGMENT = 16 << 10  # 153 records


def tell_some(journal: Journal, records: int) -> None:
    for seq in range(1, records + 1):
        tell(journal, seq=seq)


def numbers(folder: Path, start: Position, end: Position) -> list[tuple[int, int]]:
    """Read the records between two positions, as a restarted query does."""
    found = []
    for task in Follower(str(folder)).plan(start, end):
        for each in task:
            segment = each.read()
            assert segment is not None
            found += [(each.journal, record.n) for record in segment.records()]
    return found


@pytest.mark.parametrize("most", [1, 70, None])
def test_each_record_is_read_once_while_journals_grow_and_end(
    tmp_path: Path, most: int | None
) -> None:
    follower, position = Follower(str(tmp_path)), EARLIEST
    found: list[tuple[int, int]] = []

    def follow() -> None:
        nonlocal position
        end = follower.latest(position, most)
        batch = numbers(tmp_path, position, end)
        assert batch == numbers(tmp_path, position, end)
        assert most is None or len(batch) <= most
        found.extend(batch)
        position = json.loads(json.dumps(end))

    with Journal(tmp_path, segment_bytes=SEGMENT) as one:
        for records in (0, 30, 200):
            tell_some(one, records)
            follow()
        with Journal(tmp_path, segment_bytes=SEGMENT) as other:
            tell_some(other, 10)
            follow()
    while follower.latest(position, most) != position:
        follow()

    expected = [
        (journal.id, record.n)
        for journal in open_journals(tmp_path)
        for record in journal.records()
    ]
    assert sorted(found) == sorted(expected)


def test_a_stream_from_the_latest_position_omits_only_the_records_before(
    tmp_path: Path,
) -> None:
    follower = Follower(str(tmp_path))
    with Journal(tmp_path) as old:
        tell_some(old, 5)
        begin = follower.latest(LATEST, most=1)
        tell_some(old, 3)
        with Journal(tmp_path) as new:
            tell_some(new, 2)
            end = follower.latest(begin, most=None)

    assert numbers(tmp_path, LATEST, begin) == []
    first = dict.fromkeys(end, 0) | begin
    assert [end[key] - first[key] for key in first] == [3, 2 + 1]  # and its OPEN


def test_a_busy_journal_leaves_room_for_the_others(tmp_path: Path) -> None:
    with Journal(tmp_path) as busy, Journal(tmp_path) as idle:
        tell_some(busy, 1000)
        tell_some(idle, 20)

        end = Follower(str(tmp_path)).latest(EARLIEST, most=100)

    assert sorted(end.values()) == [21, 79]


@pytest.mark.parametrize(("published", "end"), [(3, 4), (4, 4), (5, 10), (10, 10)])
def test_an_empty_slot_is_awaited_until_its_writer_publishes_it(
    tmp_path: Path, published: int, end: int
) -> None:
    with Journal(tmp_path / "live") as journal:
        tell_some(journal, 9)
        # A copy, which the writer does not change during the test.
        spares = shutil.ignore_patterns("seg-00001*", "*.new")
        shutil.copytree(tmp_path / "live", tmp_path / "copy", ignore=spares)
    path = next((tmp_path / "copy").rglob("seg-00000*"))
    locked = path.with_name("meta.jsonl").open("rb")
    _files.lock(locked.fileno())  # as its writer would
    with path.open("r+b") as file:
        file.seek(PUBLISHED_OFFSET)
        file.write(LOST.pack(published))
        file.seek(HEADER_BYTES + 4 * RECORD_BYTES)
        file.write(bytes(RECORD_BYTES))

    with locked:
        assert [*Follower(str(tmp_path / "copy")).ends().values()] == [end]


@pytest.mark.parametrize(
    ("machine", "restarted", "end"),
    [
        ("", False, 200),
        ("", True, 200),
        ("other", False, 200),
        ("other", True, 4),  # its process may live: a lock may not reach this machine
    ],
)
def test_all_records_of_a_killed_process_are_final(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    restarted: bool,
    end: int,
) -> None:
    """Other threads had written records after a slot that was never written.

    restarted: the machine was, after the process had ended.
    """
    code = """
        import sys, time
        from bus.journal.supply import Supply
        from bus.journal.writer import Journal
        from tests.journal.telling import spares_ready
        from tests.support import until

        Supply.publish = lambda *_: False
        machine = sys.argv[2] or None
        journal = Journal(sys.argv[1], segment_bytes=16 << 10, machine=machine)
        until(lambda: spares_ready(journal, 1), "a spare is ready")
        for number in range(1, 200):
            if number in (4, 152, 160):  # the second is the last slot of its segment
                journal._incarnation.draw()
            else:
                journal.emit(99)
        print("written", flush=True)
        time.sleep(1000)
    """
    follower = Follower(str(tmp_path))
    with start(code, tmp_path, machine) as process:
        assert process.stdout is not None
        process.stdout.readline()
        before = follower.latest(EARLIEST, most=None)
        process.kill()
    with next(tmp_path.rglob("seg-00001.open.qbj")).open("r+b") as file:
        file.seek(HEADER_BYTES + (160 - 153) * RECORD_BYTES + 5)
        file.write(b"killed in the middle of a record")
    if restarted:
        monkeypatch.setattr("bus.journal.follower.boot_id", lambda: b"another boot")

    after = follower.latest(before, most=None)

    assert [*before.values(), *after.values()] == [4, end]
    found = [n for _, n in numbers(tmp_path, EARLIEST, after)]
    assert found == sorted({*range(end)} - {4, 152, 160})
    assert follower.latest(after, most=None) == after


@pytest.mark.parametrize("more", [0, 60])
def test_a_segment_whose_last_slot_is_empty_does_not_end_a_journal(
    tmp_path: Path, more: int
) -> None:
    """An interrupt ended the call that had drawn the slot."""
    with Journal(tmp_path, segment_bytes=SEGMENT) as journal:
        until(lambda: spares_ready(journal, 1), "a spare is ready")
        tell_some(journal, 151)  # after OPEN
        assert journal._incarnation is not None
        assert journal._incarnation.draw() is not None
        tell_some(journal, more)
    follower = Follower(str(tmp_path))

    (end,) = follower.ends().values()

    assert end == 153 + more + 1  # and its CLOSE
    found = numbers(tmp_path, EARLIEST, follower.ends())
    assert [n for _, n in found] == [*range(152), *range(153, end)]


@pytest.mark.parametrize("harm", ["segment", "folder", "torn"])
def test_lost_records_end_the_stream_or_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    with Journal(tmp_path, segment_bytes=SEGMENT) as journal:
        tell_some(journal, 400)
    folder = journal.folder
    assert folder is not None
    end = Follower(str(tmp_path)).latest(EARLIEST, most=None)
    start = dict.fromkeys(end, 100)
    if harm == "segment":
        (folder / "seg-00000.qbj").unlink()
    elif harm == "folder":
        shutil.rmtree(folder)
    else:
        with (folder / "seg-00000.qbj").open("r+b") as file:
            file.seek(HEADER_BYTES + 120 * RECORD_BYTES)
            file.write(b"\xff" * RECORD_BYTES)

    with pytest.raises(JournalError, match=r"records 100 to .*failOnData"):
        numbers(tmp_path, start, end)
    tasks = Follower(str(tmp_path), may_lack=True).plan(start, end)
    with caplog.at_level(logging.WARNING, "bus.journal"):
        read = [each.read() for task in tasks for each in task]

    assert sum(segment is None for segment in read) == (harm != "folder")
    if harm != "folder":
        assert "are lost" in caplog.text


def test_a_deleted_journal_leaves_the_position_if_it_was_read_whole(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal, Journal(tmp_path):
        tell_some(journal, 5)
    follower = Follower(str(tmp_path))
    whole = follower.latest(EARLIEST, most=None)
    (key,) = (key for key, n in whole.items() if n > 2)
    assert journal.folder is not None
    shutil.rmtree(journal.folder)

    with pytest.raises(JournalError, match="records 3 to 6 of journal"):
        follower.latest(whole | {key: 3}, most=None)
    end = follower.latest(whole, most=None)

    assert end == {name: n for name, n in whole.items() if name != key}


def test_a_stream_follows_no_missing_folder_and_no_copies(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="make the folder first"):
        Follower(str(tmp_path / "typo")).ends()
    with Journal(tmp_path / "a") as journal:
        tell_some(journal, 1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(JournalError, match="two copies"):
        Follower(str(tmp_path)).ends()


def test_a_starting_position_names_journals_as_the_progress_does() -> None:
    assert starting_position('{"ab": 7}') == {"00000000000000ab": 7}
    for wrong in ("soon", "[]", '{"ab": -1}', '{"x": 1}', '{"ab": true}'):
        with pytest.raises(ValueError, match="startingOffsets must be"):
            starting_position(wrong)
