"""`Journal`: reported operations are on the disk, whatever happens around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bus.journal.format import RecordKind
from bus.journal.writer import Journal
from queuebroker.observer import Operation, Reason
from tests.journal.telling import SMALL, only, records_of, spares_ready, tell
from tests.kit.systems import deletes_open_files
from tests.support import Threads, until

if TYPE_CHECKING:
    from pathlib import Path


def test_an_operation_is_recorded_with_all_its_fields(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        tell(
            journal,
            operation=Operation.RECEIVE,
            channel=9,
            direction=1,
            seq=4,
            size=70_000,
            depth=2,
            waited_ns=1_234_567,
            reason=Reason.DISCARDED,
        )
        flow = journal.flow(9, 1)

    stored = only(tmp_path)
    (record,) = records_of(stored)
    assert record.kind == RecordKind.RECEIVE
    assert (record.flow, record.seq, record.size) == (flow, 4, 70_000)
    assert (record.depth, record.wait_us, record.port) == (2, 1234, 5)
    assert record.reason == Reason.DISCARDED
    assert stored.name(record.task) == "near"
    assert stored.name(record.peer) == "far"
    assert stored.thread(record.thread) == "MainThread"
    assert (record.flags, record.origin, record.hop) == (0, 0, 0)


def test_any_record_can_be_emitted(tmp_path: Path) -> None:
    fields = {
        "flags": 5,
        "reason": 600,
        "size": 7,
        "flow": 2**63 - 1,
        "seq": 8,
        "origin": 2**64 - 1,
        "mid": 9,
        "wait_us": 10,
        "depth": 11,
        "hop": 12,
    }
    with Journal(tmp_path) as journal:
        journal.emit(77, task=journal.name("one"), peer=journal.name("two"), **fields)

    stored = only(tmp_path)
    (record,) = records_of(stored)
    assert record.kind == 77
    assert {name: getattr(record, name) for name in fields} == fields
    assert (stored.name(record.task), stored.name(record.peer)) == ("one", "two")


def test_records_stand_between_an_open_and_a_close(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for seq in range(1, 6):
            tell(journal, seq=seq)

    records = list(only(tmp_path).records())
    assert [record.kind for record in records] == [
        RecordKind.OPEN,
        *[RecordKind.SEND] * 5,
        RecordKind.CLOSE,
    ]
    assert [record.n for record in records] == list(range(7))
    monos = [record.mono for record in records]
    assert monos == sorted(monos)


def test_before_a_match_there_is_no_channel(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        tell(
            journal, operation=Operation.ACCEPT_BEGIN, channel=0, direction=1, remote=""
        )

    (record,) = records_of(only(tmp_path))
    assert record.flow == 1
    assert record.peer == 0


def test_no_port_is_recorded_as_zero(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        tell(journal, operation=Operation.BIND, channel=0, port=-1)

    (record,) = records_of(only(tmp_path))
    assert record.port == 0
    assert only(tmp_path).facts().complete


@pytest.mark.parametrize(
    ("field", "value", "name", "stored"),
    [
        ("size", 2**40, "size", 2**32 - 1),
        ("depth", 2**32, "depth", 2**32 - 1),
        ("waited_ns", 2**63, "wait_us", 2**32 - 1),
        ("waited_ns", -1, "wait_us", 0),
        ("seq", 2**64, "seq", 2**62 - 1),
    ],
)
def test_a_value_beyond_its_field_saturates(
    tmp_path: Path, field: str, value: int, name: str, stored: int
) -> None:
    with Journal(tmp_path) as journal:
        tell(journal, **{field: value})

    (record,) = records_of(only(tmp_path))
    assert getattr(record, name) == stored
    assert only(tmp_path).facts().complete


def test_the_flow_of_a_channel_beyond_the_base_counts_on(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for channel in (2**31 - 1, 2**31, 2**31 + 1):
            tell(journal, channel=channel, direction=0)
        last = journal.flow(2**31 - 1, 0)

    assert [record.flow for record in records_of(only(tmp_path))] == [
        last,
        last + 2,
        last + 4,
    ]


def test_two_journals_have_different_channels(tmp_path: Path) -> None:
    with Journal(tmp_path) as one, Journal(tmp_path) as two:
        assert one.flow(1, 0) != two.flow(1, 0)
        assert one.flow(0, 1) == two.flow(0, 1) == 1
        for journal in (one, two):
            assert 0 < journal.flow(1, 0) < 2**63


def test_names_are_written_before_the_records_that_use_them(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        for number in range(50):
            tell(journal, local=f"near {number}", remote='quo"te\n\ud800é')
            live = only(tmp_path)
            record = list(live.records())[-1]
            assert live.name(record.task) == f"near {number}"
            assert live.name(record.peer) == 'quo"te\n\ud800é'


def test_each_thread_has_a_number_and_a_name(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal, Threads() as threads:
        running = [threads.start(tell, journal, seq=seq) for seq in (1, 2)]
        threads.join()

    stored = only(tmp_path)
    names = {stored.thread(record.thread) for record in records_of(stored)}
    assert names == {each.name for each in running}


def test_names_without_end_are_recorded_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.journal.meta.NAMES_MAX", 3)
    with Journal(tmp_path) as journal:
        for name in "abcd":
            tell(journal, local=name, remote="")

    stored = only(tmp_path)
    assert [stored.name(record.task) for record in records_of(stored)] == [
        "a",
        "b",
        "",
        "",
    ]


def test_the_clocks_are_read_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.journal.incarnation.ANCHOR_S", 0.001)
    with Journal(tmp_path, segment_bytes=SMALL) as journal:
        until(
            lambda: (
                sum(r.kind == RecordKind.CLOCK for r in only(tmp_path).records()) > 2
            ),
            "three anchors",
        )
        assert journal.folder is not None

    opened, *clocks = (r for r in only(tmp_path).records() if r.origin)
    assert opened.kind == RecordKind.OPEN
    for clock in clocks:
        elapsed_ns = clock.mono - opened.mono
        assert abs(clock.origin - opened.origin - elapsed_ns) < 10**9


def test_after_the_close_nothing_is_recorded_and_lateness_is_noted_once(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path)
    tell(journal)
    journal.close()
    facts = only(tmp_path).facts()
    assert facts.conclusive

    tell(journal)
    tell(journal, local="somebody else")
    journal.emit(77)

    assert only(tmp_path).facts().records == facts.records
    assert only(tmp_path).facts().complete
    assert not only(tmp_path).facts().conclusive
    text = (only(tmp_path).path / "meta.jsonl").read_text()
    assert text.count('"late"') == 1


@deletes_open_files
def test_a_journal_with_deleted_files_is_closed_with_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    until(lambda: spares_ready(journal, 1, 1), "a spare lies ready")
    assert journal.folder is not None
    for path in journal.folder.iterdir():
        path.unlink()

    tell(journal)
    journal.close()
    tell(journal)

    assert list(journal.folder.iterdir()) == []
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        f"cannot seal {journal.folder / 'seg-00000.qbj'}"
    ]


def test_closing_twice_and_at_the_same_time_is_closing_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with Threads() as threads:
        for _ in range(4):
            threads.start(journal.close)
    journal.close()

    records = list(only(tmp_path).records())
    assert [record.kind for record in records] == [RecordKind.OPEN, RecordKind.CLOSE]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"segment_bytes": SMALL - 1}, "segment_bytes must be 16384 to"),
        ({"segment_bytes": 2**40}, "got 1099511627776"),
        ({"max_bytes": 2**27 - 1}, "max_bytes must be >= 134217728, got 134217727"),
        ({"max_age_s": 0}, "max_age_s must be > 0 or None, got 0"),
        ({"min_free_bytes": -1}, "min_free_bytes must be > 0 or None, got -1"),
    ],
)
def test_impossible_sizes_are_refused(
    tmp_path: Path, arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Journal(tmp_path, **arguments)  # type: ignore[arg-type] # one of two ints


@pytest.mark.parametrize(
    ("machine", "folder"),
    [("host.example", "host-example"), ("../..", "-"), ("", "machine")],
)
def test_a_machine_cannot_lead_out_of_the_folder(
    tmp_path: Path, machine: str, folder: str
) -> None:
    with Journal(tmp_path, machine=machine):
        pass

    stored = only(tmp_path)
    assert stored.path.parent == tmp_path / folder
    assert stored.machine == (machine or folder)


def test_a_journal_shows_where_it_is_and_whether_it_is_open(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert repr(journal) == f"<Journal {str(journal.folder)!r} open, 0 lost>"
    assert repr(journal) == f"<Journal {str(journal.folder)!r} closed, 0 lost>"
