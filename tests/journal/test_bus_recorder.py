"""The records of the bus in the journal; a failing recorder never fails the bus."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from bus.journal.bus_recorder import BusRecorder
from bus.journal.format import RecordKind, kind_name
from bus.journal.reader import StoredJournal, open_journals
from bus.journal.wording import reason_name
from bus.journal.writer import Journal
from bus.model.events import BusOperation, BusReason
from bus.model.message import Kind as MessageKind
from queuebroker.observer import Operation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.format import Record


def reported(
    folder: Path, tell: Callable[[BusRecorder], None]
) -> tuple[StoredJournal, list[Record]]:
    """Return the records between the journal's first record and its last."""
    with Journal(folder, machine="here") as journal:
        tell(journal._trace_sink())
    (stored,) = open_journals(folder)
    return stored, [one for one in stored.records() if one.kind >= RecordKind.REGISTER]


def test_a_step_of_a_message_has_its_origin_number_and_destination(
    tmp_path: Path,
) -> None:
    _, (one,) = reported(
        tmp_path,
        lambda recorder: recorder.record(
            BusOperation.DISCARD,
            2**62,
            7,
            9,
            2,
            64,
            BusReason.OLDEST,
            MessageKind.NOTIFICATION,
        ),
    )

    assert (one.kind, one.origin, one.mid, one.flow) == (
        RecordKind.DISCARD,
        2**62,
        7,
        9,
    )
    assert (one.hop, one.size, one.reason, one.flags) == (2, 64, 70, 4)
    assert (one.seq, one.task, one.peer) == (0, 0, 0)


def test_a_registration_is_recorded_with_its_name(tmp_path: Path) -> None:
    def tell(recorder: BusRecorder) -> None:
        recorder.on_registered(5, "sensor")
        recorder.on_task_event(BusOperation.MOVE, 5)
        recorder.on_task_event(BusOperation.DEREGISTER, 5)

    stored, records = reported(tmp_path, tell)

    assert [
        (kind_name(one.kind), one.flow, one.origin, stored.name(one.task))
        for one in records
    ] == [("register", 5, 5, "sensor"), ("move", 5, 5, ""), ("deregister", 5, 5, "")]


def test_a_subscription_is_recorded_with_its_number_and_pattern(
    tmp_path: Path,
) -> None:
    def tell(recorder: BusRecorder) -> None:
        recorder.on_task_event(BusOperation.SUBSCRIBE, 5, 3, "news/*")
        recorder.on_task_event(BusOperation.UNSUBSCRIBE, 5, 3)

    stored, records = reported(tmp_path, tell)

    assert [
        (kind_name(one.kind), one.flow, one.mid, stored.name(one.task))
        for one in records
    ] == [("subscribe", 5, 3, "news/*"), ("unsubscribe", 5, 3, "")]


def test_links_are_recorded_with_process_machine_and_reason(tmp_path: Path) -> None:
    def tell(recorder: BusRecorder) -> None:
        recorder.link_up(12, "here", "worker")
        recorder.link_down(12, "here", "worker", BusReason.DIED)

    stored, records = reported(tmp_path, tell)

    assert [
        (one.kind, one.mid, stored.name(one.task), stored.name(one.peer), one.reason)
        for one in records
    ] == [
        (RecordKind.LINK_UP, 12, "worker", "here", 0),
        (RecordKind.LINK_DOWN, 12, "worker", "here", BusReason.DIED),
    ]


CALLS: dict[str, Callable[[BusRecorder], None]] = {
    "a step": lambda recorder: recorder.record(BusOperation.COMMAND, 1, 1, 1),
    "a name": lambda recorder: recorder.on_registered(1, "name"),
    "a link": lambda recorder: recorder.link_up(1, "machine", "process"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_recorder_that_fails_is_switched_off_with_one_line_in_the_log(
    call: Callable[[BusRecorder], None], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        calls = 0

        def name(self, _: str) -> int:
            return 1

        def emit(self, *_: Any, **__: Any) -> None:
            Broken.calls += 1
            raise RuntimeError("broken")

    broken = Broken()
    recorder = BusRecorder(broken.emit, broken.name)
    with caplog.at_level(logging.ERROR, "bus.journal"):
        for _ in range(3):
            call(recorder)

    assert Broken.calls == 1
    assert len(caplog.records) == 1


def test_the_bus_has_numbers_and_words_of_its_own() -> None:
    assert min(BusOperation) > max(Operation)
    assert min(BusReason) > max(Reason)
    for operation in BusOperation:
        assert RecordKind[operation.name] == operation.value
    words = [reason_name(each) for each in (*Reason, *BusReason)]
    assert len(set(words)) == len(words)
    assert reason_name(BusReason.DIED) == "died"
