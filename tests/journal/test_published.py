"""The published end of a journal: which records a reader may rely on meanwhile."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES, LOST, PUBLISHED_OFFSET
from bus.journal.retention import Retention
from bus.journal.segment import Segment
from bus.journal.stored_segment import read_segment
from bus.journal.supply import LATE_S, Supply
from bus.journal.writer import Journal
from queuebroker.testing import explore
from specs.clauses import clause
from tests.journal.reading import patch, stored
from tests.journal.segments import first_header, write
from tests.journal.telling import only, tell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.journal.incarnation import Incarnation
    from bus.journal.stored_segment import StoredSegment
    from queuebroker.testing import Run


def first_segment(folder: Path) -> StoredSegment:
    return next(only(folder).segments())


def incarnation(journal: Journal) -> Incarnation:
    assert journal._incarnation is not None
    return journal._incarnation


@pytest.fixture
def supply(tmp_path: Path) -> Iterator[Supply]:
    """A supply without a housekeeper, whose two segments have three slots each."""
    supply = Supply(tmp_path, first_header(slots=3), Retention(tmp_path))
    supply.tend()
    yield supply
    supply.finish(None)


def read(supply: Supply) -> StoredSegment:
    """Return the current segment as a reader finds it."""
    return read_segment(supply.current._path)


@clause("J1")
def test_a_slot_is_final_once_it_was_empty_for_a_while(supply: Supply) -> None:
    write(supply.current.take())
    supply.current.take()  # an interrupt ended the call
    assert supply.publish(100.0)
    write(supply.current.take())
    assert supply.publish(100.0 + LATE_S - 0.1)
    assert read(supply).published == 1

    supply.publish(100.0 + LATE_S)

    assert read(supply).published == 3
    assert not supply.publish(100.0 + LATE_S + 1)


def test_a_late_record_ends_the_wait_for_it(supply: Supply) -> None:
    late = supply.current.take()
    assert supply.publish(100.0)
    write(late)
    assert not supply.publish(100.0 + LATE_S)

    supply.current.take()

    assert supply.publish(100.0 + LATE_S)  # its own wait begins
    assert read(supply).published == 1


def test_an_idle_program_looks_at_no_slot_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Journal(tmp_path, segment_bytes=1 << 20) as journal:
        supply = incarnation(journal)._supply
        tell(journal)
        assert not supply.publish(0.0)
        with monkeypatch.context() as patched:
            patched.setattr(Segment, "empty", lambda *_: pytest.fail("looked again"))
            assert not supply.publish(0.0)


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
            supply.publish(0.0)
            run.join()
            for now in (1.0, 1.0 + LATE_S, 1.0 + 2 * LATE_S):
                supply.publish(now)
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
