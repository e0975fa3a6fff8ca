"""Successive segments: under many threads, without end, on a full disk."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import pathlib
import threading
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.format import RecordKind
from bus.journal.incarnation import Incarnation
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.supply import Tally
from bus.journal.writer import Journal
from queuebroker import _files
from specs.clauses import clause
from tests.journal.telling import SLOTS, SMALL, only, records_of, spares_ready, tell
from tests.support import LIMIT_S, Threads, switch_interval, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Buffer


@pytest.fixture
def hasty() -> Iterator[None]:
    """Make the interpreter switch threads nearly anywhere."""
    with switch_interval(1e-5):
        yield


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Limit the bytes that the disk takes of a side-file line; None for all."""
    room: list[int | None] = [None]

    class Cramped(FileIO):
        def write(self, data: Buffer) -> int:
            return super().write(bytes(data)[: room[0]])

    monkeypatch.setattr("bus.journal.meta.FileIO", Cramped)
    return room


@pytest.mark.deep
@pytest.mark.usefixtures("hasty")
@clause("J1")
def test_sixteen_threads_fill_every_slot(tmp_path: Path) -> None:
    """A journal is complete: numbered without a gap, none lost, closed in order."""
    each = 3000

    def work(journal: Journal, number: int) -> None:
        for seq in range(1, each + 1):
            tell(journal, channel=number, seq=seq)

    with Journal(tmp_path) as journal, Threads() as threads:
        for number in range(1, 17):
            threads.start(work, journal, number)

    stored = only(tmp_path)
    facts = stored.facts()
    assert facts.complete
    assert facts.records == 16 * each + 2
    by_flow: dict[int, list[int]] = {}
    for record in records_of(stored):
        by_flow.setdefault(record.flow, []).append(record.seq)
    assert len(by_flow) == 16
    assert all(seqs == list(range(1, each + 1)) for seqs in by_flow.values())


@pytest.mark.usefixtures("hasty")
def test_sixteen_threads_change_segments_without_losing_a_record(
    tmp_path: Path,
) -> None:
    rounds, each = 12, 50  # fewer than the spare segments hold

    def work(journal: Journal, number: int, start: int) -> None:
        for seq in range(start, start + each):
            tell(journal, channel=number, seq=seq)

    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        for start_at in range(1, rounds * each, each):
            so_far = 1 + 16 * (start_at - 1)
            until(partial(spares_ready, journal, so_far), "spares lie ready")
            with Threads() as threads:
                for number in range(1, 17):
                    threads.start(work, journal, number, start_at)
        assert journal.lost == 0

    stored = only(tmp_path)
    facts = stored.facts()
    assert facts.complete
    assert facts.segments == facts.sealed > rounds * each * 16 // SLOTS
    seen = sorted((record.flow, record.seq) for record in records_of(stored))
    flows = sorted({flow for flow, _ in seen})
    assert seen == list(itertools.product(flows, range(1, rounds * each + 1)))


def test_operations_that_outrun_the_spare_segments_are_counted_as_lost(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        # The housekeeper cannot keep up with a thread that never releases the GIL.
        with switch_interval(10.0):
            for seq in range(1, 3000):
                tell(journal, seq=seq)
        lost = journal.lost

    stored = only(tmp_path)
    facts = stored.facts()
    records = list(stored.records())
    assert lost > 0
    assert facts.lost == lost
    assert sum(r.seq for r in records if r.kind == RecordKind.LOST) == lost
    assert facts.gaps == 0
    assert len(records_of(stored)) + lost == 2999
    assert records[-1].kind == RecordKind.CLOSE


def test_a_spare_is_ready_once_a_writer_can_draw_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tests wait for this: a file with a name is not yet a spare in the line."""
    named, go_on = threading.Event(), threading.Event()
    rename = pathlib.Path.rename

    def suspended(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        if target.name == "seg-00001.open.qbj":
            named.set()
            assert go_on.wait(LIMIT_S)
        return renamed

    monkeypatch.setattr("pathlib.Path.rename", suspended)
    with Journal(tmp_path, segment_bytes=SMALL, max_bytes=3 * SMALL) as journal:
        assert named.wait(LIMIT_S)
        try:
            assert not spares_ready(journal, 1, 1)
        finally:
            go_on.set()
        until(lambda: spares_ready(journal, 1, 1), "a spare is ready")


@clause("J1")
def test_a_full_disk_blocks_no_writer_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The losses are counted in the header, and in a record once there is room."""
    full = False
    allocate = _files.allocate

    def maybe(file: int, size: int) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(file, size)

    monkeypatch.setattr(_files, "allocate", maybe)
    monkeypatch.setattr("bus.journal.incarnation.RETRY_S", 0.001)
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        full = True
        for seq in range(1, 12 * SLOTS):
            tell(journal, seq=seq)
        lost = journal.lost
        assert lost > 0
        assert only(tmp_path).facts().lost == lost
        until(lambda: bool(caplog.records), "the housekeeper finds no room")
        full = False
        until(lambda: spares_ready(journal, 9 * SLOTS), "there is room again")
        tell(journal, seq=12 * SLOTS)
        assert journal.lost == lost
        told_open = [
            r.seq for r in only(tmp_path).records() if r.kind == RecordKind.LOST
        ]
        assert sum(told_open) == lost

    facts = only(tmp_path).facts()
    assert facts.lost == lost
    assert facts.closed
    assert records_of(only(tmp_path))[-1].seq == 12 * SLOTS
    result = check(open_journals(tmp_path))
    assert result.verdict is Verdict.UNKNOWN
    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    (line,) = [r.getMessage() for r in warnings]
    assert line.startswith(f"cannot make a journal segment in {journal.folder}: [Errno")
    assert "No space left on device; records without room are counted as lost" in line


def test_lost_records_do_not_wake_the_housekeeper_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    wakes: list[int] = []
    wake = Incarnation._wake_locked

    def counted(incarnation: Incarnation) -> None:
        wakes.append(journal.lost)
        wake(incarnation)

    monkeypatch.setattr("bus.journal.incarnation.RETRY_S", 60.0)
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        assert journal._incarnation is not None
        supply = journal._incarnation._supply
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        monkeypatch.setattr(_files, "allocate", full)
        while not journal.lost:
            tell(journal, seq=1)
        until(lambda: supply.short, "the housekeeper finds no room")
        monkeypatch.setattr(Incarnation, "_wake_locked", counted)
        for seq in range(2, 12):
            tell(journal, seq=seq)
        assert journal.lost > 10
        assert not wakes


def test_the_seal_counts_the_losses_of_a_disk_that_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(lambda: spares_ready(journal, 1), "spares lie ready")
        monkeypatch.setattr("bus.journal.supply.Supply._make_spare", lambda _: False)
        for seq in range(1, 12 * SLOTS):
            tell(journal, seq=seq)
        lost = journal.lost

    facts = only(tmp_path).facts()
    assert facts.lost >= lost > 0
    assert not facts.closed
    assert facts.sealed == facts.segments


@clause("J1")
def test_a_loss_that_the_close_did_not_count_makes_the_journal_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer is suspended before its loss is counted; the journal is closed."""
    journal = Journal(tmp_path, segment_bytes=SMALL)
    assert journal._incarnation is not None
    add = Tally.add

    def suspended(tally: Tally) -> None:
        journal.close()
        add(tally)

    monkeypatch.setattr(Tally, "add", suspended)
    journal._incarnation.lose()

    facts = only(tmp_path).facts()
    assert journal.lost == 1
    assert (facts.closed, facts.lost) == (True, 0)
    assert facts.late
    assert not facts.conclusive


def test_without_a_thread_there_is_no_journal_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partial journal would be UNKNOWN forever; a later call makes a whole one."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("bus.journal.incarnation._sync.Thread.start", refuse)
        with pytest.raises(OSError, match="can't start new thread") as failed:
            Journal(tmp_path)
    assert failed.value.errno == errno.EAGAIN
    assert not any(path.is_file() for path in tmp_path.rglob("*"))

    with Journal(tmp_path) as journal:
        tell(journal)
    assert only(tmp_path).facts().complete


def test_a_file_that_a_full_disk_took_in_part_is_no_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On systems without preallocation: mapped, it would crash the process later."""

    def unable(_file: int, _offset: int, _length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    pwrite = _files.pwrite
    monkeypatch.setattr(os, "posix_fallocate", unable, raising=False)
    monkeypatch.setattr(
        _files, "pwrite", lambda file, data, at: pwrite(file, data[:9], at)
    )

    with pytest.raises(OSError, match="No space left"):
        Journal(tmp_path, segment_bytes=SMALL)


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_where_files_cannot_be_preallocated_they_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unable(_file: int, _offset: int, _length: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", unable, raising=False)
    with Journal(tmp_path, segment_bytes=3 << 20) as journal:
        tell(journal)

    assert only(tmp_path).facts().complete


def test_where_names_cannot_be_written_they_are_unknown_which_is_logged_once(
    tmp_path: Path, room: list[int | None], caplog: pytest.LogCaptureFixture
) -> None:
    with Journal(tmp_path) as journal:
        room[0] = 9  # a full disk takes a part of a line; later there is room again
        tell(journal, local="lost", remote="")
        room[0] = None
        tell(journal, local="known", remote="")

    stored = only(tmp_path)
    (line,) = caplog.messages
    assert journal.folder is not None
    assert line.startswith(f"cannot write names to {journal.folder / 'meta.jsonl'}")
    assert [stored.name(record.task) for record in records_of(stored)] == ["", "known"]
    assert stored.facts().complete
    assert [p.startswith("cannot read 2 lines of") for p in stored.problems] == [True]


def test_lateness_is_noted_though_the_line_before_it_is_torn(
    tmp_path: Path, room: list[int | None]
) -> None:
    journal = Journal(tmp_path)
    room[0] = 9
    tell(journal, local="lost", remote="")
    room[0] = None
    journal.close()
    assert not only(tmp_path).meta.late

    tell(journal)

    assert only(tmp_path).meta.late


@pytest.mark.parametrize(
    ("number", "settings", "remedy"),
    [
        (
            errno.ENOSPC,
            {"segment_bytes": SMALL},
            "No space left on device; make room for 2 segments of 16,336 bytes, give"
            " another folder, or give Journal a smaller segment_bytes=",
        ),
        (
            errno.EFBIG,
            {},
            "File too large; make room for 2 segments of 67,108,816 byte",
        ),
        (
            errno.EMFILE,
            {},
            "Too many open files; let this process open more files (ulimit -n)",
        ),
        (errno.EACCES, {}, "Permission denied; give a folder that this process can w"),
    ],
)
def test_without_a_first_segment_there_is_no_journal_and_the_remedy_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    settings: dict[str, int],
    remedy: str,
) -> None:
    def refuse(_file: int, _size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(_files, "allocate", refuse)
    parent = str(tmp_path / "journals")

    with pytest.raises(OSError, match="cannot record in") as failed:
        Journal(parent, **settings)  # type: ignore[arg-type] # one of two ints

    assert failed.value.errno == number
    text = str(failed.value.strerror)
    assert text.startswith(f"cannot record in {parent!r}: {remedy}")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
