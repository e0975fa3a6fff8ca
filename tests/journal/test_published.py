"""The published end of a journal: which records a reader may rely on meanwhile."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES, LOST, PUBLISHED_OFFSET
from bus.journal.retention import Retention
from bus.journal.stored_segment import read_segment
from bus.journal.supply import Supply
from bus.journal.writer import Journal
from queuebroker.testing import explore
from specs.clauses import clause
from tests.journal.reading import patch, stored
from tests.journal.segments import first_header, write
from tests.journal.telling import only, tell
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from bus.journal.incarnation import Incarnation
    from bus.journal.stored_segment import StoredSegment
    from queuebroker.testing import Run


def first_segment(folder: Path) -> StoredSegment:
    return next(only(folder).segments())


def incarnation(journal: Journal) -> Incarnation:
    assert journal._incarnation is not None
    return journal._incarnation


def publish(journal: Journal) -> None:
    """Publish, as the housekeeper does; it may be about to do so, too."""
    supply, idle = incarnation(journal)._supply, journal._recorder.idle
    until(lambda: not supply.publish(idle), "all slots are final")


def test_a_slot_that_was_drawn_and_never_written_is_final_once_no_thread_records(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal:
        assert incarnation(journal).draw() is not None  # an interrupt ended the call
        tell(journal)
        publish(journal)

        segment = first_segment(tmp_path)
        assert segment.invalid == (1,)
        assert segment.published == segment.used == 3


@clause("J1")
def test_a_slot_whose_writer_is_suspended_is_not_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is stopped between drawing the slot and writing it."""
    drawn, go_on = threading.Event(), threading.Event()

    def clock() -> int:
        if threading.current_thread().name == "suspended":
            drawn.set()
            assert go_on.wait(LIMIT_S)
        return 1

    monkeypatch.setattr("bus.journal.recorder._sync.monotonic_ns", clock)
    with Journal(tmp_path, segment_bytes=1 << 20) as journal, Threads() as threads:

        def record() -> None:
            threading.current_thread().name = "suspended"
            tell(journal)

        supply, idle = incarnation(journal)._supply, journal._recorder.idle
        running = threads.start(record)
        assert drawn.wait(LIMIT_S)
        try:
            tell(journal)
            assert supply.publish(idle)
            before = first_segment(tmp_path)
        finally:
            go_on.set()
        running.result(LIMIT_S)
        publish(journal)
        after = first_segment(tmp_path)

    assert before.published == 1  # OPEN
    assert before.used == 3
    assert after.published == after.used == 3


def test_an_idle_program_publishes_nothing_again(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=1 << 20) as journal:
        supply = incarnation(journal)._supply
        tell(journal)
        publish(journal)

        assert not supply.publish(lambda: pytest.fail("asked again"))


def test_a_segment_that_a_writer_replaces_meanwhile_is_published() -> None:
    def program(run: Run) -> None:
        with tempfile.TemporaryDirectory() as folder:
            header = first_header(slots=2)
            supply = Supply(Path(folder), header, Retention(Path(folder)))
            supply.tend()

            def fill() -> None:
                supply.current.take()  # an interrupt ended the call
                write(supply.current.take())
                assert supply.advance()

            run.spawn(fill)
            supply.publish(lambda: True)
            run.join()
            supply.publish(lambda: True)
            (segment, *_) = sorted(Path(folder).iterdir())
            assert read_segment(segment).published == 2
            supply.finish(2)

    explore(program, bound=1, random=0, seed=1, bytecode=[Supply.publish])


@pytest.mark.parametrize(
    ("header", "hole", "published"),
    [(0, None, 20), (0, 5, 5), (5, 5, 5), (6, 5, 20), (41, 5, 5), (30, 5, 30)],
)
def test_the_end_is_that_of_the_header_and_of_the_records_behind_it(
    tmp_path: Path, header: int, hole: int | None, published: int
) -> None:
    """A number beyond the segment is damaged, and publishes nothing."""
    path = stored(tmp_path, 19, closed=False, sealed=False)
    segment = path / "seg-00000.open.qbj"
    patch(segment, PUBLISHED_OFFSET, LOST.pack(header))
    if hole is not None:
        patch(segment, HEADER_BYTES + hole * RECORD_BYTES, bytes(RECORD_BYTES))

    assert first_segment(tmp_path).published == published


def test_a_sealed_segment_is_final_to_its_end(tmp_path: Path) -> None:
    stored(tmp_path, 19, holes=(5,))

    segment = first_segment(tmp_path)
    assert segment.published == segment.used == 21
