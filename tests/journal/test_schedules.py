"""Every schedule of writers, housekeeper and close: nothing is lost without a count."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bus.journal.format import Flag, RecordKind
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from bus.model.payload import encode
from queuebroker.testing import explore
from tests.journal.telling import only, tell

if TYPE_CHECKING:
    from bus.journal.reader import JournalFacts
    from queuebroker.testing import Run

TINY = 4096 + 3 * 80  # three records: every writer changes segments
EACH = 4


@pytest.fixture(autouse=True)
def _tiny_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.journal.writer.SEGMENT_BYTES_MIN", TINY)
    monkeypatch.setattr("bus.journal.retention.SPARES_MAX", 1)


def work(journal: Journal, channel: int) -> None:
    for seq in range(1, EACH + 1):
        tell(journal, channel=channel, seq=seq)


def sound(folder: Path) -> tuple[JournalFacts, int]:
    """Return the facts of a closed journal, and the number of its operations."""
    stored = only(folder)
    facts = stored.facts()
    assert (facts.gaps, facts.damaged, facts.first) == (0, 0, 0)
    assert facts.sealed == facts.segments
    by_flow: dict[int, list[int]] = {}
    for record in stored.records():
        if record.kind == RecordKind.SEND:
            by_flow.setdefault(record.flow, []).append(record.seq)
    assert all(seqs == sorted(set(seqs)) for seqs in by_flow.values())
    return facts, sum(map(len, by_flow.values()))


@pytest.mark.deep
def test_operations_that_are_not_recorded_are_counted() -> None:
    def program(run: Run) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with Journal(folder, segment_bytes=TINY) as journal:
                for channel in (1, 2):
                    run.spawn(work, journal, channel)
                run.join()
            facts, recorded = sound(Path(folder))
            assert recorded + facts.lost == 2 * EACH
            assert facts.closed
            assert not facts.late

    explore(program, bound=1, random=30, seed=1)


@pytest.mark.deep
def test_a_close_among_writers_leaves_a_sound_journal() -> None:
    def program(run: Run) -> None:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(folder, segment_bytes=TINY)
            run.spawn(work, journal, 1)
            run.spawn(journal.close)
            journal.close()
            run.join()
            facts, recorded = sound(Path(folder))
            assert recorded + facts.lost == EACH or facts.late

    explore(program, bound=1, random=30, seed=1)


@pytest.mark.deep
def test_each_payload_is_kept_whole_or_not_named() -> None:
    """Two writers find the file full, and the journal closes meanwhile."""

    def keep(journal: Journal, origin: int) -> None:
        sink = journal._trace_sink()
        payload = bytes((origin,)) * 3000  # a file has room for one
        flags, location = sink.write_payload(payload, None, failed=False)
        sink.record(BusOperation.COMMAND, origin, 1, 9, flags=flags, location=location)

    def program(run: Run) -> None:
        with tempfile.TemporaryDirectory() as folder:
            journal = Journal(
                folder, segment_bytes=TINY, payloads=True, payload_bytes_max=4000
            )
            keep(journal, 1)
            run.spawn(keep, journal, 2)
            run.spawn(journal.close)
            keep(journal, 3)
            run.join()
            journal.close()
            stored = only(Path(folder))
            kept = [one for one in stored.records() if one.flags & Flag.PAYLOAD]
            for one in kept:
                payload = bytes((one.origin,)) * 3000
                assert stored.payload(one) == encode(payload)
            assert kept[0].origin == 1
            assert stored.problems == []

    explore(program, bound=1, random=30, seed=1)
