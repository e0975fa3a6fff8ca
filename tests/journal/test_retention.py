"""The limits of a journal's files: bytes, age, free room; and a disk that is full."""

from __future__ import annotations

import errno
import os
import pathlib
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from bus.journal.format import Flag
from bus.journal.payloads import Payloads
from bus.journal.retention import Retention
from bus.journal.writer import Journal
from bus.testing import memory_bus
from queuebroker import _files
from specs.clauses import clause
from tests.journal.telling import SLOTS, SMALL, only, records_of, spares_ready, tell
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

FILE = 100


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Set the time of `Retention` by hand."""
    time = SimpleNamespace(now=0.0)
    time.monotonic = lambda: time.now
    monkeypatch.setattr("bus.journal.retention._sync", time)
    return time


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Set the free bytes of the file system by hand; deletions do not change them."""
    disk = SimpleNamespace(free=1 << 40)
    monkeypatch.setattr("shutil.disk_usage", lambda _: disk)
    return disk


def closed(retention: Retention, folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(bytes(FILE))
        retention.opened(FILE)
        retention.closed(folder / name, FILE)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_displaces_the_oldest_of_either_kind(tmp_path: Path) -> None:
    retention = Retention(tmp_path, max_bytes=4 * FILE)
    retention.opened(FILE)  # the current one is never deleted
    closed(retention, tmp_path, "seg-0", "payloads-0", "seg-1")

    retention.make_room()
    assert left(tmp_path) == ["payloads-0", "seg-0", "seg-1"]
    retention.make_room(FILE + 1)
    assert left(tmp_path) == ["seg-1"]
    retention.make_room(9 * FILE)
    assert left(tmp_path) == []


def test_files_are_deleted_once_they_are_too_old(
    tmp_path: Path, clock: SimpleNamespace
) -> None:
    retention = Retention(tmp_path, max_age_s=60)
    for clock.now in (0.0, 30.0):
        closed(retention, tmp_path, f"seg-{clock.now:.0f}")

    for clock.now, expected in (60.0, 2), (60.1, 1), (90.0, 1), (90.1, 0):
        retention.make_room()
        assert len(left(tmp_path)) == expected


def test_files_are_deleted_for_other_programs_and_then_no_new_one_is_made(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    retention = Retention(tmp_path, min_free_bytes=1000)
    closed(retention, tmp_path, "seg-0")
    disk.free = 1000 + FILE
    retention.make_room(FILE)
    assert left(tmp_path) == ["seg-0"]

    disk.free -= 1
    with pytest.raises(OSError, match="less than min_free_bytes=1,000 would be free"):
        retention.make_room(FILE)

    assert left(tmp_path) == []
    retention.make_room()


def test_a_file_that_a_reader_has_open_on_windows_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit deletes the next one in its place, and one warning names it."""
    retention = Retention(tmp_path, max_bytes=2 * FILE)
    closed(retention, tmp_path, "seg-0", "seg-1", "seg-2")
    unlink = pathlib.Path.unlink
    in_use = [tmp_path / "seg-0"]

    def unless_in_use(path: Path, missing_ok: bool = False) -> None:
        if path in in_use:
            raise PermissionError(errno.EACCES, "used by another process")
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(pathlib.Path, "unlink", unless_in_use)
    retention.make_room()
    assert left(tmp_path) == ["seg-0", "seg-2"]
    retention.make_room(FILE)
    assert left(tmp_path) == ["seg-0"]
    in_use.clear()
    retention.make_room(2 * FILE)
    assert left(tmp_path) == []
    assert len(caplog.messages) == 1


@clause("J1")
def test_segments_and_payload_files_share_the_limit(tmp_path: Path) -> None:
    limit = 6 * SMALL
    with (
        Journal(
            tmp_path,
            payloads=True,
            segment_bytes=SMALL,
            payload_bytes_max=4096,
            max_bytes=limit,
        ) as journal,
        memory_bus(journal=journal) as bus,
    ):
        incarnation = journal._incarnation
        assert incarnation is not None
        payloads = incarnation._payloads
        assert payloads is not None
        bus.register("reader", on_command=lambda _: None)
        for _ in range(26):
            until(lambda: len(payloads._line) > 1, "a payload file is ready")
            bus.call("reader", bytes(4000))

    stored = only(tmp_path)
    named = [one for one in stored.records() if one.flags & Flag.PAYLOAD]
    bodies = [stored.payload(one) for one in named]
    assert sum(path.stat().st_size for path in stored.path.iterdir()) <= limit + SMALL
    assert bodies[0] is None
    assert bodies[-1] is not None
    assert stored.problems == []
    assert stored.facts().payloads_lost == 0


def test_recording_goes_on_once_a_full_disk_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records and payloads are counted as lost meanwhile; the program goes on."""
    full = False
    allocate = _files.allocate

    def maybe(file: int, size: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(file, size)

    monkeypatch.setattr(_files, "allocate", maybe)
    monkeypatch.setattr("bus.journal.incarnation.RETRY_S", 0.001)
    with Journal(
        tmp_path, payloads=True, segment_bytes=SMALL, payload_bytes_max=8000
    ) as journal:
        incarnation = journal._incarnation
        assert incarnation is not None
        payloads = incarnation._payloads
        assert isinstance(payloads, Payloads)
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        until(lambda: len(payloads._line) > 1, "a payload file is ready")
        full = True
        with memory_bus(journal=journal) as bus:
            bus.register("reader", on_command=lambda _: None)
            for _ in range(25):
                bus.call("reader", bytes(7000))
            lost = journal.payloads_lost
            assert lost > 0
            assert only(tmp_path).facts().payloads_lost == lost
            until(lambda: payloads.short, "the housekeeper finds no room")
            full = False
            until(lambda: len(payloads._line) > 1, "there is room again")
            bus.call("reader", "kept")
        assert journal.payloads_lost == lost

    stored = only(tmp_path)
    assert stored.facts().complete
    assert b"kept" in b"".join(stored.payload(one) or b"" for one in stored.records())


def test_recording_goes_on_after_a_failed_look_at_the_free_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 0

    def disk_usage(_: Path) -> SimpleNamespace:
        nonlocal failures
        failures += 1
        if failures < 4:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return SimpleNamespace(free=1 << 40)

    monkeypatch.setattr("bus.journal.incarnation.RETRY_S", 0.001)
    with Journal(tmp_path, segment_bytes=SMALL, min_free_bytes=1) as journal:
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        monkeypatch.setattr("shutil.disk_usage", disk_usage)
        for seq in range(1, 2 * SLOTS):
            tell(journal, seq=seq)
        until(lambda: spares_ready(journal, 2 * SLOTS), "there are spares again")
    assert failures > 4


def test_a_journal_leaves_room_for_others_and_goes_on_later(
    tmp_path: Path, disk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.journal.incarnation.RETRY_S", 0.001)
    with Journal(tmp_path, segment_bytes=SMALL, min_free_bytes=1 << 20) as journal:
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        disk.free = 1 << 20
        for seq in range(1, 12 * SLOTS):
            tell(journal, seq=seq)
        assert journal.lost > 0
        folder = only(tmp_path).path
        until(lambda: not [*folder.glob("seg-00000.*")], "the oldest is deleted")
        disk.free = 1 << 40
        until(lambda: spares_ready(journal, 9 * SLOTS), "there is room again")
        tell(journal, seq=12 * SLOTS)

    assert records_of(only(tmp_path))[-1].seq == 12 * SLOTS
    assert only(tmp_path).facts().first != 0
