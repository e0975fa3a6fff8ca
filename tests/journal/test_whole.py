"""The conditions for a whole journal, one at a time, each with its opposite (J1).

Writers that have drawn a slot, losses that only an older segment records, deaths in the
journal of another boot or of the dead process itself.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest

from bus.journal.checker import check
from bus.journal.format import RecordKind
from bus.journal.header import LOST_OFFSET
from bus.journal.incarnation import _write
from bus.journal.reader import open_journals
from bus.journal.stored_segment import read_segment
from bus.journal.writer import Journal
from specs.clauses import clause
from tests.journal.deaths import KILLED, death
from tests.journal.histories import Condition, History, clean, store
from tests.journal.reading import facts, patch, stored
from tests.journal.telling import SLOTS, SMALL, only, records_of, spares_ready, tell
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.incarnation import Incarnation


def incarnation(journal: Journal) -> Incarnation:
    assert journal._incarnation is not None
    return journal._incarnation


@clause("J1")
@pytest.mark.parametrize("segment", [0, 1, 2])
def test_the_loss_of_a_killed_process_is_the_largest_of_any_segment(
    tmp_path: Path, segment: int
) -> None:
    """The process lost records, then moved on to a segment created without a loss."""
    path = stored(tmp_path, closed=False, sealed=False)
    name = f"seg-{segment:05d}{'.open' if segment == 2 else ''}.qbj"
    patch(path / name, LOST_OFFSET, struct.pack("<Q", 3))

    assert facts(tmp_path).lost == 3
    one, *_ = check(open_journals(tmp_path)).violations
    assert (one.rule, one.case, one.explanation) == (
        *("J1", "lost", "3 records could not be written"),
    )


@clause("J1")
@pytest.mark.parametrize("retired", [False, True])
def test_a_close_waits_for_a_writer_that_has_drawn_a_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, retired: bool
) -> None:
    """In the segment it closes, or a full earlier one; the record arrives meanwhile."""
    journal = Journal(tmp_path, segment_bytes=SMALL)
    until(partial(spares_ready, journal, 1), "spares lie ready")
    slot = incarnation(journal).draw()
    assert slot is not None
    for seq in range(1, SLOTS if retired else 10):
        tell(journal, seq=seq)
    waited = []

    def come(_: float) -> None:
        waited.append(_write(slot, RecordKind.SEND, seq=1000))

    monkeypatch.setattr("bus.journal.supply.pause", come)
    journal.close()

    assert waited == [slot[0]]
    assert only(tmp_path).facts().complete
    assert 1000 in [record.seq for record in records_of(only(tmp_path))]


@clause("J1")
def test_a_retired_segment_is_not_sealed_before_its_late_writer_came(
    tmp_path: Path,
) -> None:
    """Its slot would be a hole, though the record arrives a moment later."""
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(partial(spares_ready, journal, 1), "spares lie ready")
        slot = incarnation(journal).draw()
        assert slot is not None
        for seq in range(1, SLOTS + 1):
            tell(journal, seq=seq)
        until(partial(spares_ready_behind, journal), "the housekeeper has looked")
        assert not list(tmp_path.rglob("seg-00000.qbj"))
        _write(slot, RecordKind.SEND, seq=1000)

    assert only(tmp_path).facts().complete


def spares_ready_behind(journal: Journal) -> bool:
    """Whether the housekeeper has made the next spare, after checking segment 0."""
    supply = incarnation(journal)._supply
    return len(supply._line) == 9 and bool(supply._retired)


@clause("J1")
@pytest.mark.parametrize(
    "told_by", ["another process", "another boot", "the dead one itself"]
)
def test_a_death_counts_if_another_journal_of_its_boot_records_it(
    tmp_path: Path, told_by: str
) -> None:
    """A pid of an earlier boot proves nothing; no process records its own end."""
    history = clean(3, steps=40)
    history.journals = 2
    witness = 0 if told_by == "the dead one itself" else 1
    history.entries.append(attrs.evolve(death(0, witness), late=10**9))
    history.number()
    conditions = {0: KILLED, 1: Condition()}
    _, other = store(history, tmp_path, slots=4096, conditions=conditions)
    if told_by == "another boot":
        reboot(other / "seg-00000.qbj")

    by_journal = {each.journal: each for each in check(open_journals(tmp_path)).facts}
    died = [each.died for each in by_journal.values()]
    assert died == [told_by == "another process", False]


def reboot(path: Path) -> None:
    """Assign a segment to another boot of its machine."""
    segment = read_segment(path)
    header = attrs.evolve(segment.header, boot_id=b"\1" * 16)
    patch(path, 0, header.pack())


@clause("J1")
@pytest.mark.parametrize(
    ("late", "closed", "conclusive"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_journal_is_conclusive_if_it_has_an_end_and_nothing_came_after_it(
    tmp_path: Path, *, late: bool, closed: bool, conclusive: bool
) -> None:
    """Both conditions are needed: each alone proves no absence."""
    store(History(), tmp_path, conditions={0: Condition(closed=closed, late=late)})

    assert facts(tmp_path).conclusive is conclusive
