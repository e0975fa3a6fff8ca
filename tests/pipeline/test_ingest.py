"""`events` and `segments` after any change of the journals, and after any kill."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet  # type: ignore[import-untyped] # pyarrow ships no types

from bus.journal.header import HEADER_BYTES, SEAL_OFFSET
from bus.pipeline import bronze
from bus.pipeline.bronze import Plan, segments
from bus.pipeline.event_file import write_events
from bus.pipeline.folder import OutFolder
from bus.pipeline.share import Share
from tests.journal.histories import store
from tests.pipeline.reading import long_history, update

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOTS: Final = 64


class Killed(BaseException):
    """Ends an update as a kill would, at a chosen step."""


class Recording:
    """A folder of two journals that grow, are sealed and lose segments."""

    def __init__(self, folder: Path, whole: Path) -> None:
        self.folder, self._whole = folder / "journals", whole
        for meta in self._whole.rglob("meta.jsonl"):
            self._place(meta).parent.mkdir(parents=True)
            shutil.copy(meta, self._place(meta))
        self._sources = sorted(self._whole.rglob("*.qbj"))
        self.segments = len(self._sources)

    def _place(self, source: Path) -> Path:
        return self.folder / source.relative_to(self._whole)

    def grow(self, number: int, records: int) -> None:
        """Leave a segment open, with some records; a sealed one stays."""
        source = self._sources[number]
        place = self._place(source)
        if not place.exists():
            data = bytearray(source.read_bytes())
            data[SEAL_OFFSET : SEAL_OFFSET + 512] = bytes(512)
            used = HEADER_BYTES + 80 * records
            place.with_suffix(".open.qbj").write_bytes(
                bytes(data[:used]).ljust(len(data), b"\0")
            )

    def seal(self, number: int, _: int) -> None:
        """Seal a segment."""
        place = self._place(self._sources[number])
        place.with_suffix(".open.qbj").unlink(missing_ok=True)
        shutil.copy(self._sources[number], place)

    def delete(self, number: int, _: int) -> None:
        """Delete a segment."""
        place = self._place(self._sources[number])
        for path in (place, place.with_suffix(".open.qbj")):
            path.unlink(missing_ok=True)

    def spoil(self, number: int, _: int) -> None:
        """Put rubbish in place of an open segment."""
        place = self._place(self._sources[number]).with_suffix(".open.qbj")
        if place.exists():
            place.write_bytes(b"rubbish")

    def note(self, number: int, records: int) -> None:
        """Add a line to a side file: of a late operation, or unreadable."""
        meta = self._place(self._sources[number]).parent / "meta.jsonl"
        with meta.open("a") as lines:
            lines.write('{"is": "late"}\n' if records % 2 else "{{{\n")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two journals of several segments."""
    folder = tmp_path_factory.mktemp("whole")
    store(long_history(journals=2), folder, slots=_SLOTS)
    return folder


@pytest.fixture
def recording(tmp_path: Path, whole: Path) -> Recording:
    return Recording(tmp_path, whole)


@pytest.fixture
def out(tmp_path: Path) -> OutFolder:
    return OutFolder(tmp_path / "out")


def content(out: OutFolder) -> tuple[list[Any], list[Any]]:
    """Return the rows of both tables, as their readers find them."""
    table, events = segments(out), []
    for name in sorted({row.pop("file") for row in table} - {None}):
        events += parquet.read_table(out.events / name).to_pylist()
    return sorted(events, key=lambda row: (row["journal"], row["n"])), table


def fresh(journals: Path) -> tuple[list[Any], list[Any]]:
    """Return the rows of both tables after an update of an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        update(journals, OutFolder(Path(folder)))
        return content(OutFolder(Path(folder)))


def killed_at(step: int) -> pytest.MonkeyPatch:
    """Kill the caller after some steps that change files; even ones have no effect."""
    steps, patch = count(), pytest.MonkeyPatch()

    def struck(change: Callable[..., Any]) -> Callable[..., Any]:
        def either(*arguments: Any, **named: Any) -> Any:
            if next(steps) == step:
                raise Killed
            result = change(*arguments, **named)
            if next(steps) == step:
                raise Killed
            return result

        return either

    patch.setattr("tests.pipeline.reading.write_events", struck(write_events))
    patch.setattr(parquet, "write_table", struck(parquet.write_table))
    for name in ("replace", "unlink", "mkdir"):
        patch.setattr(os, name, struck(getattr(os, name)))
    return patch


@given(data=st.data())
def test_tables_brought_up_to_date_are_those_of_a_new_folder(
    whole: Path, data: st.DataObject
) -> None:
    """After any changes of the journals, and kills at any point of an update."""
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(Path(folder), whole)
        out = OutFolder(Path(folder, "out"))
        edits = [getattr(Recording, name) for name in EDITS]
        for _ in range(data.draw(st.integers(1, 4))):
            for _ in range(data.draw(st.integers(1, 6))):
                edit = data.draw(st.sampled_from(edits))
                number = data.draw(st.integers(0, recording.segments - 1))
                edit(recording, number, data.draw(st.integers(0, _SLOTS)))
            before = content(out)
            patch = killed_at(data.draw(st.integers(0, 60)))
            try:
                update(recording.folder, out)
            except Killed:
                assert content(out) in (before, fresh(recording.folder))
            finally:
                patch.undo()
        update(recording.folder, out)

        assert content(out) == fresh(recording.folder)
        assert update(recording.folder, out) == []
        assert out.event_files() == {row["file"] for row in segments(out)} - {None}


EDITS: Final = ("grow", "seal", "delete", "spoil", "note")


def test_only_new_and_changed_segments_are_read(
    recording: Recording, out: OutFolder
) -> None:
    recording.seal(0, 0)
    recording.grow(1, 10)
    update(recording.folder, out)

    recording.grow(1, 11)
    recording.seal(2, 0)
    read = update(recording.folder, out)

    assert [(row["segment"], row["records"]) for row in read] == [(2, 64), (1, 11)]


def test_segments_in_one_file_are_read_again_together() -> None:
    shares = [Share(1, "folder", name) for name in ("a", "b", "c", "d")]
    rows = [
        {"journal": 1, "path": share.path, "state": "old", "file": file}
        for share, file in zip(shares, ("x", "x", "y", "z"), strict=True)
    ]
    listed = dict.fromkeys(shares, "old") | {shares[0]: "new"}

    plan = Plan.of(rows, listed, files={"x", "y"})

    assert plan.to_read == (shares[0], shares[1], shares[3])
    assert plan.files == {"y"}


def test_tables_of_other_code_are_made_again(
    recording: Recording, out: OutFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording.seal(0, 0)
    update(recording.folder, out)

    monkeypatch.setattr(bronze, "code_version", lambda: "other")

    assert [row["records"] for row in update(recording.folder, out)] == [_SLOTS, 0]
    assert update(recording.folder, out) == []


def test_a_table_that_cannot_be_read_is_made_again(
    recording: Recording, out: OutFolder
) -> None:
    recording.seal(0, 0)
    update(recording.folder, out)

    out.segments.write_bytes(b"rubbish")
    update(recording.folder, out)

    assert content(out) == fresh(recording.folder)
