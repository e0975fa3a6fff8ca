"""The races of a segment: late writers, sealed segments, interrupted threads."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from bus.journal import mapped_file
from bus.journal import segment as segments
from bus.journal.format import RecordKind
from bus.journal.retention import Retention
from bus.journal.segment import Segment
from bus.journal.stored_segment import read_segment
from bus.journal.supply import RETIRED_MAX, Supply, Tally
from bus.journal.writer import Journal
from tests.journal.segments import first_header, write
from tests.journal.telling import SLOTS, SMALL, only, records_of, spares_ready, tell
from tests.kit.systems import deletes_open_files
from tests.support import Threads, until

if TYPE_CHECKING:
    from pathlib import Path


FIRST = first_header(10)

RELEASED = (ValueError, TypeError)  # depending on the version of Python


def test_slots_are_drawn_once_each_and_then_no_more(tmp_path: Path) -> None:
    segment = Segment(tmp_path, FIRST)

    drawn = [segment.take() for _ in range(10)]

    assert [n for n, *_ in drawn] == list(range(10))
    assert [offset for _, offset, *_ in drawn] == list(range(4096, 4896, 80))
    with pytest.raises(StopIteration):
        segment.take()
    segment.seal(0)


def test_a_segment_is_whole_when_every_drawn_slot_is_written(tmp_path: Path) -> None:
    segment = Segment(tmp_path, FIRST)
    one, two = segment.take(), segment.take()

    write(two)
    assert not segment.whole(2)
    write(one)
    assert segment.whole(2)

    assert segment.seal(0).holes == 0


def test_a_segment_is_cut_after_the_last_record(tmp_path: Path) -> None:
    segment = Segment(tmp_path, FIRST)
    write(segment.take())
    segment.take()  # drawn by a writer after the last slot

    seal = segment.seal(3)

    assert (seal.used, seal.count, seal.holes, seal.lost) == (1, 1, 0, 3)
    assert segment.sealed_path.stat().st_size == 4096 + 80
    stored = read_segment(segment.sealed_path)
    assert stored.header.seal == seal
    assert stored.flaws == ()


def test_a_late_writer_cannot_change_a_sealed_segment(tmp_path: Path) -> None:
    segment = Segment(tmp_path, FIRST)
    late = segment.take()
    write(segment.take())

    seal = segment.seal(0)

    with pytest.raises(RELEASED):
        write(late)
    assert (seal.used, seal.count, seal.holes) == (2, 1, 1)
    stored = read_segment(segment.sealed_path)
    assert stored.invalid == (0,)
    assert stored.flaws == ()


def test_a_discarded_segment_leaves_nothing(tmp_path: Path) -> None:
    Segment(tmp_path, FIRST).discard()

    assert list(tmp_path.iterdir()) == []


def test_without_a_global_lock_slots_are_drawn_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates a build without a global lock: the draw detects any overlap."""
    inside, most = 0, 0
    gate = threading.Event()

    class Slow:
        def __init__(self, *iterators: object, strict: bool) -> None:
            self.drawn = iter(range(8))

        def __next__(self) -> int:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            gate.wait(0.001)
            inside -= 1
            return next(self.drawn)

    monkeypatch.setattr(mapped_file, "HAS_GIL", False)
    monkeypatch.setattr(segments, "zip", Slow, raising=False)
    segment = Segment(tmp_path, FIRST)
    with Threads() as threads:
        running = [threads.start(segment.take) for _ in range(8)]

    assert sorted(each.result() for each in running) == list(range(8))  # type: ignore[comparison-overlap] # numbers stand for slots
    assert most == 1
    segment.discard()


def test_a_writer_that_never_writes_does_not_hold_segments_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.journal.supply.STRAGGLER_S", 0.0)
    supply = Supply(tmp_path, FIRST, Retention(tmp_path))
    struck = []
    for _ in range(RETIRED_MAX + 2):
        supply.tend()
        drawn = [supply.current.take() for _ in range(10)]
        struck.append(drawn[0])
        for slot in drawn[1:]:
            write(slot)
        assert supply.advance()
    supply.tend()

    assert read_segment(tmp_path / "seg-00000.qbj").invalid == (0,)
    with pytest.raises(RELEASED):
        write(struck[0])
    write(struck[-1])  # its writer is still waited for
    supply.finish(supply.current.header.first_n)
    assert read_segment(tmp_path / f"seg-{RETIRED_MAX + 1:05d}.qbj").invalid == ()


def test_a_writer_draws_again_after_its_segment_was_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.journal.supply.RETIRED_MAX", 0)
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(partial(spares_ready, journal, 1), "spares lie ready")
        incarnation = journal._incarnation
        assert incarnation is not None
        slot = incarnation.draw()
        for seq in range(1, SLOTS + 1):
            tell(journal, seq=seq)
        until(partial(spares_ready, journal, SLOTS + 2), "the first is sealed")

        journal._write(slot, (77, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, 0))
        assert journal.lost == 0

    stored = only(tmp_path)
    assert [(r.n, r.seq) for r in records_of(stored) if r.kind == 77] == [
        (SLOTS + 2, 5)
    ]
    assert stored.facts().holes == stored.facts().gaps == 1
    assert stored.facts().damaged == 0


def test_a_finalizer_that_records_while_a_segment_changes_does_not_wait_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record is lost, and counted."""
    advance = Supply.advance
    with Journal(tmp_path, segment_bytes=SMALL) as journal:

        def interrupted(supply: Supply) -> bool:
            tell(journal, seq=1000)
            return advance(supply)

        until(partial(spares_ready, journal, 1), "spares lie ready")
        monkeypatch.setattr(Supply, "advance", interrupted)
        for seq in range(1, SLOTS + 2):
            tell(journal, seq=seq)
        monkeypatch.undo()
        assert journal.lost == 1

    stored = only(tmp_path)
    assert [r.seq for r in records_of(stored)] == list(range(1, SLOTS + 2))
    assert [r.seq for r in stored.records() if r.kind == RecordKind.LOST] == [1]


@deletes_open_files
def test_a_segment_that_cannot_be_sealed_is_logged_and_the_rest_is_sealed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    supply = Supply(tmp_path, FIRST, Retention(tmp_path))
    supply.tend()
    for _ in range(10):
        write(supply.current.take())
    assert supply.advance()
    (tmp_path / "seg-00000.open.qbj").unlink()
    write(supply.current.take())

    supply.finish(11)

    assert read_segment(tmp_path / "seg-00001.qbj").count == 1
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    assert "cannot seal" in caplog.text


def test_a_tally_counts_the_additions_of_many_threads() -> None:
    tally = Tally()

    def work() -> None:
        for _ in range(10_000):
            tally.add()

    with Threads() as threads:
        for _ in range(8):
            threads.start(work)

    assert tally.total == 80_000
