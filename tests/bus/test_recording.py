"""A bus in one process and its journal: each guarantee of `BusRecorder`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from bus import BusConfig, Incoming
from bus.journal.bus_recorder import BusRecorder
from bus.journal.format import RecordKind, kind_name
from bus.journal.reader import open_journals
from bus.journal.writer import Journal
from bus.model.events import BusOperation
from bus.testing import memory_bus
from specs.clauses import clause
from tests.bus.scenarios import SCENARIOS, Bench
from tests.journal.telling import SMALL
from tests.kit.journals import holds, lines, names, steps_of
from tests.kit.serving import serve
from tests.kit.tasks import Holder, ignore
from tests.support import Threads, switch_interval, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bus import Bus


@contextmanager
def recorded(folder: Path, config: BusConfig | None = None) -> Iterator[Bus]:
    """Yield a bus with its journal in a folder; it is small, to be read quickly."""
    with (
        Journal(folder, segment_bytes=SMALL) as journal,
        memory_bus(journal=journal, config=config) as bus,
    ):
        yield bus


@clause("B1", "B3", "B5")
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_operation_is_recorded_step_by_step(name: str, tmp_path: Path) -> None:
    scenario, steps = SCENARIOS[name]
    config = BusConfig(send_timeout_s=0.01)
    with recorded(tmp_path, config) as bus:
        scenario(Bench(bus))

    expected = lines(steps)
    assert steps_of(tmp_path) == expected
    delivered = any(line.startswith("deliver") for line in expected)
    holds(tmp_path, checked=("B1", "B3", "B5") if delivered else ())


@clause("B1", "B3", "B5")
def test_two_threads_that_send_as_one_task_are_seen_in_one_order(
    tmp_path: Path,
) -> None:
    """The numbers rise in the order in which the messages are in the FIFO."""
    each = 200
    with (
        Journal(tmp_path) as journal,
        memory_bus(journal=journal) as bus,
    ):
        reader = bus.register("b", thread=bus.thread("far"), on_command=ignore)
        other = bus.register("c", thread=bus.thread("far too"), on_command=ignore)
        sender = bus.register("a")

        def send() -> None:
            for number in range(each):
                sender.command("b", number)
                sender.command("c", number)

        with switch_interval(1e-5), Threads() as threads:
            threads.start(send)
            threads.start(send)
        for task in (reader, other):
            bus.call(task.address)

    steps = steps_of(tmp_path)
    numbers = [int(line.split()[3]) for line in steps if line.startswith("command a ")]
    assert sorted(numbers) == list(range(1, 4 * each + 1))
    holds(tmp_path, checked=("B1", "B3", "B5"))


@clause("B5")
def test_a_message_that_is_refused_takes_no_number(tmp_path: Path) -> None:
    """Else one thread could get the number, and another one the room."""
    with recorded(tmp_path) as bus:
        bench = Bench(bus)
        bench.task("b", capacity=1)
        bench.send(1, 2)
        bench.settle()
        bench.send(3)
        bench.settle()

    assert [line for line in steps_of(tmp_path) if line.startswith("command")] == [
        "command a b 1",
        "command a b 2",
    ]


@clause("B3", "B5")
def test_a_command_is_recorded_before_anybody_can_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is drawn there, too, so it is in the same order as the commands."""
    seen: list[tuple[bool, int]] = []

    with (
        recorded(tmp_path) as bus,
        Holder.holding(bus) as holder,
    ):
        inbox = holder.thread._manager.inbox
        tell = BusRecorder.record

        def looked(recorder: BusRecorder, operation: BusOperation, *rest: Any) -> None:
            if operation is BusOperation.COMMAND:
                unread = [each for each in inbox.items if type(each) is Incoming]
                seen.append((inbox.lock.locked(), len(unread)))
            tell(recorder, operation, *rest)

        monkeypatch.setattr(BusRecorder, "record", looked)
        sender = bus.register("a")
        sender.command("holder", 1)
        sender.command("holder", 2)
        holder.let_go()

    assert seen == [(True, 0), (True, 1)]


def test_tasks_and_the_process_are_registered_and_leave(tmp_path: Path) -> None:
    with recorded(tmp_path) as bus:
        bench = Bench(bus)
        bench.a.move(bus.thread("far"))
        serve(bus, lambda: "move a" in registrations(tmp_path), "it has moved")
        bench.a.deregister()
        until(lambda: "deregister a" in registrations(tmp_path), "it has left")
        bench.task("a")
        bench.settle()

    assert registrations(tmp_path) == [
        "register process",
        "register a",
        "move a",
        "deregister a",
        "register a'",
        "deregister a'",
    ]
    assert len(names(tmp_path)) == 3


@clause("B4", "BUS-MSG-4")
def test_a_subscription_is_recorded_from_before_its_first_notification_to_its_end(
    tmp_path: Path,
) -> None:
    """Two notifications that are unread when it ends are not delivered."""
    got: list[Incoming] = []
    with recorded(tmp_path) as bus:
        sender, reader = bus.register("a"), bus.register("b")
        subscription = reader.subscribe("a", got.append)
        sender.notify(1)
        serve(bus, lambda: got, "it is notified")
        sender.notify(2)
        sender.notify(3)
        subscription.cancel()
        reader.subscribe("*", got.append)
        sender.notify(4)
        serve(bus, lambda: got[1:], "it is notified again")

    (journal,) = open_journals(tmp_path)
    kinds = {RecordKind.SUBSCRIBE, RecordKind.UNSUBSCRIBE, RecordKind.DELIVER}
    assert [
        (kind_name(record.kind), journal.name(record.task))
        for record in journal.records()
        if record.kind in kinds
    ] == [
        *[("subscribe", "a"), ("deliver", ""), ("unsubscribe", "")],
        *[("subscribe", "*"), ("deliver", ""), ("unsubscribe", "")],
    ]
    holds(tmp_path, checked=("B3", "B4", "B6"))


def registrations(folder: Path) -> list[str]:
    """Return the records of registrations, moves and departures."""
    (journal,) = open_journals(folder)
    called = names(folder)
    return [
        f"{kind_name(record.kind)} {called[record.flow]}"
        for record in journal.records()
        if RecordKind.REGISTER <= record.kind <= RecordKind.MOVE
    ]


def test_a_message_of_an_unrecorded_bus_has_no_trace() -> None:
    got: list[Incoming] = []
    with memory_bus() as bus:
        bench = Bench(bus)
        bench.task("b", on_command=got.append).subscribe("a", got.append)
        bench.send(1)
        bench.a.notify(2)
        bench.settle()

    assert [message._trace for message in got] == [None, None]


def test_a_journal_is_one() -> None:
    with (
        pytest.raises(TypeError, match=r"must be a bus\.journal\.writer\.Journal"),
        memory_bus(journal="here"),  # type: ignore[arg-type] # on purpose
    ):
        pass
