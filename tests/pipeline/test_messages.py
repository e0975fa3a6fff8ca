"""Recorded notifications as rows: values, senders, one row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bus.errors import JournalError
from bus.journal.follower import EARLIEST, Follower
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from bus.model.message import Kind
from bus.model.specification import Specification
from bus.pipeline.messages import message_batches
from bus.testing import memory_bus
from tests.journal.telling import SLOTS, spares_ready, tell
from tests.support import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SEGMENT = 16 << 10


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(
        tmp_path, payloads=True, segment_bytes=SEGMENT, payload_bytes_max=200
    ) as journal:
        yield journal


def rows(folder: Path, *patterns: str, most: int | None = None) -> list[dict[str, Any]]:
    """Return all rows, from batches of at most ``most`` records."""
    follower, position, found = Follower(str(folder)), EARLIEST, []
    senders = [*map(Specification.parse, patterns)]
    while (end := follower.latest(position, most)) != position:
        for task in follower.plan(position, end):
            for part in task:
                for batch in message_batches(part, senders):
                    found += batch.to_pylist()
        position = end
    return found


@pytest.mark.parametrize("most", [1, 7, None])
def test_a_notification_to_several_tasks_is_one_row(
    tmp_path: Path, journal: Journal, most: int | None
) -> None:
    with memory_bus(journal=journal) as bus:
        sensors = [bus.register(f"sensor/{name}") for name in ("a", "b")]
        for _ in range(3):
            bus.subscribe("sensor/*", lambda _: None)
        for number in range(40):
            sensors[number % 2].notify({"celsius": number})

    journal.close()
    found = rows(tmp_path, most=most)

    assert [row["value"] for row in found] == [
        b'{"celsius":%d}' % number for number in range(40)
    ]
    assert [row["topic"] for row in found] == ["sensor/a", "sensor/b"] * 20
    assert len({row["offset"] for row in found}) == 40
    assert rows(tmp_path, "sensor/b", most=most) == found[1::2]


def test_a_notification_with_records_in_two_segments_is_one_row(
    tmp_path: Path, journal: Journal
) -> None:
    """The comm thread writes the second one, after a delay."""
    sink = journal._trace_sink()

    def notify(number: int, subscriber: int) -> None:
        where = BusOperation.NOTIFY, 5, number, subscriber
        sink.record(*where, kind=Kind.NOTIFICATION, flags=flags, location=location)

    until(lambda: spares_ready(journal, 1), "spares lie ready")
    for number in range(4):
        flags, location = sink.write_payload(number, None, failed=False)
        notify(number, 8)
        for _ in range(SLOTS):
            tell(journal)
        notify(number, 9)

    assert [row["value"] for row in rows(tmp_path)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("payload", "value"),
    [(b"\xff\0", b"\xff\0"), ("é", "é".encode()), ([1, None], b"[1,null]")],
)
def test_a_value_is_bytes_text_or_json(
    tmp_path: Path, journal: Journal, payload: object, value: bytes
) -> None:
    with memory_bus(journal=journal) as bus:
        bus.subscribe("sensor", lambda _: None)
        bus.register("sensor").notify(payload)

    journal.close()
    (row,) = rows(tmp_path)

    assert row["value"] == value
    assert row["timestamp"].year >= 2024


def test_a_lost_payload_is_an_error(tmp_path: Path, journal: Journal) -> None:
    with memory_bus(journal=journal) as bus:
        bus.subscribe("sensor", lambda _: None)
        bus.register("sensor").notify("x")
    journal.close()
    for path in list(tmp_path.rglob("payloads-00000*")):
        path.unlink()

    with pytest.raises(JournalError, match="are lost: the payload"):
        rows(tmp_path, "sensor")


def test_a_sender_has_its_name_although_its_registration_was_deleted(
    tmp_path: Path, journal: Journal
) -> None:
    until(lambda: spares_ready(journal, 1), "spares lie ready")
    with memory_bus(journal=journal) as bus:
        bus.subscribe("sensor", lambda _: None)
        sensor = bus.register("sensor")
        for _ in range(SLOTS):
            tell(journal)
        sensor.notify("x")
    journal.close()
    for path in list(tmp_path.rglob("seg-00000*")):
        path.unlink()

    (row,) = rows(tmp_path, "sensor")

    assert row["topic"] == "sensor"
