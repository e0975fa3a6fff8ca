"""A close that is interrupted, at every point, is finished by the next one."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import bus
from bus.journal import segment as segments
from bus.journal.format import RecordKind
from bus.journal.retention import Retention
from bus.journal.stored_segment import read_segment
from bus.journal.supply import Supply
from bus.journal.writer import Journal
from tests.journal.segments import first_header, write
from tests.journal.telling import SLOTS, SMALL, only, records_of, spares_ready, tell
from tests.kit.systems import deletes_open_files
from tests.strikes import Blow, everywhere
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Callable


FIRST = first_header(3)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.deep
@pytest.mark.parametrize("records", [1, SLOTS - 1])
def test_a_close_that_was_interrupted_is_finished_by_the_next(records: int) -> None:
    """With room for the last record in the current segment, or in a spare one."""

    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(folder, segment_bytes=SMALL)
            for seq in range(1, records + 1):
                tell(journal, seq=seq)
            struck(journal.close)
            journal.close()

            stored = only(Path(folder))
            facts = stored.facts()
            assert facts.conclusive
            assert facts.segments == facts.sealed == 1 + (records == SLOTS - 1)
            assert facts.records == 2 + records
            kinds = [record.kind for record in stored.records()]
            assert kinds == [
                RecordKind.OPEN,
                *[RecordKind.SEND] * records,
                RecordKind.CLOSE,
            ]
            sealed = [f"seg-{number:05d}.qbj" for number in range(facts.segments)]
            assert names(stored.path) == ["meta.jsonl", *sealed]
            assert stored.problems == []

    everywhere(case, packages=[bus])


@pytest.mark.deep
def test_the_end_of_the_program_finishes_a_close_that_was_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_end: list[Callable[[], None]] = []
    # The journal's own only: other libraries register exit handlers, too.
    stand_in = SimpleNamespace(register=at_end.append, unregister=at_end.remove)
    monkeypatch.setattr("bus.process.at_exit.atexit", stand_in)

    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(folder, segment_bytes=SMALL)
            struck(journal.close)
            while at_end:
                at_end[-1]()

            assert only(Path(folder)).facts().conclusive

    everywhere(case, packages=[bus])


def test_an_interrupted_close_that_lives_on_in_a_traceback_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its frames hold views of the mapped file, which then cannot be unmapped."""

    def interrupted(slots: memoryview, *_: object) -> list[int]:
        view = slots[:80]
        raise KeyboardInterrupt(len(view))

    journal = Journal(tmp_path, segment_bytes=SMALL)
    with monkeypatch.context() as patched:
        patched.setattr(Supply, "_await_stragglers", lambda *_: None)
        patched.setattr(Supply, "publish", lambda *_: False)
        patched.setattr(segments, "invalid_slots", interrupted)
        with pytest.raises(KeyboardInterrupt) as struck:
            journal.close()

    journal.close()

    assert struck.value.args == (80,)
    assert only(tmp_path).facts().conclusive
    assert only(tmp_path).facts().sealed == 1


def supply_of_three(folder: Path) -> Supply:
    """Return one sealed segment, one full but not sealed, and one with one record."""
    supply = Supply(folder, FIRST, Retention(folder))
    for _ in range(2):
        supply.tend()
        for _ in range(3):
            write(supply.current.take())
        assert supply.advance()
    write(supply.current.take())
    return supply


@pytest.mark.deep
def test_all_segments_are_sealed_once_though_that_is_interrupted() -> None:
    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            supply = supply_of_three(folder)
            struck(lambda: supply.finish(7))
            supply.finish(7)

            assert names(folder) == [f"seg-{number:05d}.qbj" for number in range(3)]
            stored = [read_segment(path) for path in sorted(folder.iterdir())]
            assert [each.count for each in stored] == [3, 3, 1]
            assert not any(each.flaws for each in stored)

    everywhere(case, packages=[bus])


@pytest.mark.deep
def test_a_change_of_segments_that_is_interrupted_leaves_each_in_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most the record that was interrupted is missing; nothing is sealed twice."""
    monkeypatch.setattr("bus.journal.supply.STRAGGLER_S", 0.0)

    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with Journal(folder, segment_bytes=SMALL) as journal:
                until(partial(spares_ready, journal, 1), "spares lie ready")
                for seq in range(1, SLOTS):
                    tell(journal, seq=seq)
                struck(lambda: tell(journal, seq=SLOTS))
                tell(journal, seq=SLOTS + 1)

            facts = only(folder).facts()
            assert facts.closed
            assert (facts.segments, facts.sealed, facts.damaged) == (2, 2, 0)
            assert facts.gaps <= 1
            seqs = [record.seq for record in records_of(only(folder))]
            seqs = [seq for seq in seqs if seq != SLOTS]
            assert seqs == [*range(1, SLOTS), SLOTS + 1]

    everywhere(case, packages=[bus])


@deletes_open_files
def test_a_spare_is_made_again_after_an_interrupt_of_its_making() -> None:
    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            supply = Supply(folder, FIRST, Retention(folder))
            struck(supply.refill)
            supply.refill()
            assert not supply.short
            for n in range(4):
                if n == 3:
                    assert supply.advance()
                write(supply.current.take())
            supply.refill()
            supply.finish(4)

            assert names(folder) == ["seg-00000.qbj", "seg-00001.qbj"]

    everywhere(case, packages=[bus])
