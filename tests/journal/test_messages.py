"""`read_messages`: each message of a recording once, in the order of time."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import pytest

from bus.errors import BusError, JournalError
from bus.journal.format import RecordKind
from bus.journal.messages import KINDS, RecordedMessage, read_messages
from bus.journal.writer import Journal
from bus.testing import memory_bus
from specs.clauses import clause
from tests.journal.bus_by_hand import NOTE, A, B, C, bus, sent
from tests.journal.bus_history import clean_bus, process, step
from tests.journal.histories import Condition, journal_id, store
from tests.journal.telling import has_spare
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journal.history import Entry

_KIND = {
    RecordKind.COMMAND: "command",
    RecordKind.RESPOND: "answer",
    RecordKind.NOTIFY: "notification",
}


def _accepted(entries: list[Entry]) -> dict[tuple[object, ...], Entry]:
    """Return the first record of each message, by its identity."""
    found: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        if entry.kind in _KIND and not entry.hop:
            to = entry.flow if entry.kind is RecordKind.RESPOND else 0
            found.setdefault((entry.kind, entry.origin, entry.port, to), entry)
    return found


def read(folder: Path, **choice: object) -> list[RecordedMessage]:
    problems: list[str] = []
    found = list(read_messages(folder, on_problem=problems.append, **choice))  # type: ignore[arg-type] # as the caller says
    assert problems == []
    return found


@pytest.mark.parametrize("seed", range(6))
def test_each_message_is_read_once_at_its_origin_in_order_of_time(
    tmp_path: Path, seed: int
) -> None:
    history = clean_bus(seed, journals=3, steps=400)
    rng = Random(seed)
    for entry in history.entries:  # threads suspended before they read the clock
        entry.late = rng.choice([0, 0, 0, 2_500, 70_000])
    store(history, tmp_path)

    found = read(tmp_path)

    due = {
        (10**13 + 1000 * each.at + each.late, journal_id(each.journal), each.n): each
        for each in _accepted(history.entries).values()
    }
    assert [(one.wall_ns, one.journal, one.n) for one in found] == sorted(due)
    for one in found:
        entry = due[one.wall_ns, one.journal, one.n]
        assert (one.kind, one.origin) == (_KIND[entry.kind], entry.origin)
        assert (one.mid, one.size, one.encoded) == (entry.port, 8, None)
        assert one.sender == f"task-{entry.origin}"
        to = "" if entry.kind is RecordKind.NOTIFY else f"task-{entry.flow}"
        assert one.receiver == to


def test_messages_are_chosen_by_time_name_and_kind(tmp_path: Path) -> None:
    history = clean_bus(2, journals=2, steps=300)
    store(history, tmp_path)
    everything = read(tmp_path)
    middle = everything[len(everything) // 2].wall_ns
    name = everything[0].sender

    assert read(tmp_path, since_ns=middle) + read(tmp_path, until_ns=middle) == [
        *(one for one in everything if one.wall_ns >= middle),
        *(one for one in everything if one.wall_ns < middle),
    ]
    assert read(tmp_path, names=[name, "other"]) == [
        one for one in everything if name in (one.sender, one.receiver)
    ]
    assert read(tmp_path, names=["*"]) == everything
    for kind in KINDS:
        chosen = [one for one in everything if one.kind == kind]
        assert chosen
        assert read(tmp_path, kinds=[kind]) == chosen
    with pytest.raises(ValueError, match="a kind must be one of command, answer"):
        read_messages(tmp_path, kinds=["note"])
    with pytest.raises(ValueError, match="'a\\*' is no specification"):
        read_messages(tmp_path, names=["a*"])


def test_a_message_sent_on_and_a_notification_to_two_processes_are_one(
    tmp_path: Path,
) -> None:
    again = step(RecordKind.COMMAND, A, 1, C)
    twice = [sent(2, to=to, flags=NOTE)[0] for to in (process(1), process(0))]
    store(bus(sent(1, to=B)[0], again, *twice), tmp_path)

    found = [(one.kind, one.mid, one.receiver) for one in read(tmp_path)]

    assert found == [("command", 1, f"task-{B}"), ("notification", 2, "")]


def test_an_unreadable_part_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    history = clean_bus(1, journals=2, steps=300)
    store(history, tmp_path, conditions={0: Condition(damaged=True, holes=(40,))})
    problems: list[str] = []

    count = sum(1 for _ in read_messages(tmp_path, on_problem=problems.append))

    hole = [one for one in history.entries if (one.journal, one.n) == (0, 40)]
    history.entries.remove(*hole)
    assert count == len(_accepted(history.entries))
    assert [problem.partition(": ")[2][:12] for problem in problems] == ["the checksum"]


def test_payloads_are_those_that_the_tasks_sent(tmp_path: Path) -> None:
    """Also of a notification to several tasks, and of an answer that is an error."""

    def answer(message: object) -> object:
        raise ValueError("no")

    with (
        Journal(tmp_path, payloads=True) as journal,
        memory_bus(process="near", journal=journal) as near,
        Journal(tmp_path, payloads=True) as other,
        memory_bus(beside=near, process="far", journal=other) as far,
    ):
        sensor = near.register("sensor")
        for place, where in itertools.product("ab", (near, far)):
            where.register(f"{where.process}-{place}").subscribe("sensor", id)
        far.register("broken", on_command=answer)
        sensor.wait_for_subscribers(4, 10)
        for number in range(3):
            sensor.notify({"number": number, "data": b"\xff"})
        with pytest.raises(BusError, match="no"):
            near.call("broken", ("x", 1.5))

    found = [one for one in read(tmp_path) if not one.receiver.startswith("_bus")]

    told = [(one.kind, one.sender, one.failed, one.payload()) for one in found]
    notes = [
        ("notification", "sensor", False, {"number": n, "data": b"\xff"})
        for n in range(3)
    ]
    assert told[:3] == notes
    assert [each[:1] + each[2:] for each in told[3:]] == [
        ("command", False, ("x", 1.5)),
        ("answer", True, "ValueError: no"),
    ]


def test_a_payload_that_is_not_whole_is_refused_with_the_remedy(tmp_path: Path) -> None:
    for folder, settings in {
        "short": {"payloads": True, "payload_bytes_max": 10},
        "none": {},
    }.items():
        with (
            Journal(tmp_path / folder, **settings) as journal,  # type: ignore[arg-type] # as the names say
            memory_bus(journal=journal) as one,
        ):
            one.register("echo", on_command=lambda message: None)
            one.call("echo", "x" * 100)

    (short, *_), (none, *_) = read(tmp_path / "short"), read(tmp_path / "none")

    assert (short.truncated, len(short.encoded or b""), short.size) == (True, 10, 102)
    with pytest.raises(JournalError, match=r"larger Journal\(payload_bytes_max=\)"):
        short.payload()
    assert (none.truncated, none.encoded) == (False, None)
    with pytest.raises(JournalError, match=r"record with Journal\(payloads=True\)"):
        none.payload()


@clause("J1")
def test_the_names_of_tasks_outlive_the_segments_that_record_them(
    tmp_path: Path,
) -> None:
    with (
        Journal(tmp_path, segment_bytes=16 << 10) as journal,
        memory_bus(journal=journal) as one,
    ):
        one.register("echo", on_command=lambda message: message.payload)
        for _ in range(60):
            until(lambda: has_spare(journal), "a spare segment is ready")
            one.call("echo", None)
    (first,) = tmp_path.rglob("seg-00000.qbj")
    first.unlink()

    found = read(tmp_path, kinds=["command"])

    assert 0 < len(found) < 60
    assert {one.receiver for one in found} == {"echo"}
    assert "" not in {one.sender for one in found}
