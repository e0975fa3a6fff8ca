"""Real channels, recorded during use, held to their promises afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import bus
import queuebroker
from bus.demo.faults import FAULTS, plant_fault
from bus.journal.checker import CheckResult, check
from bus.journal.format import RecordKind
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from queuebroker import Broker, BrokerManager, DisconnectedQueueError, QueueBroker
from specs.clauses import clause
from tests.journal.telling import SMALL
from tests.strikes import Blow, everywhere
from tests.support import Threads

if TYPE_CHECKING:
    from queuebroker import MessageQueue

PORT = 80
CLIENTS, MESSAGES = 4, 300


def judged(folder: Path) -> CheckResult:
    return check(open_journals(folder))


def held(result: CheckResult) -> bool:
    verdicts = {each.rule: each.verdict for each in result.verdicts}
    return set(verdicts.values()) <= {Verdict.PASS, Verdict.NOTHING}


def pair(manager: BrokerManager) -> tuple[MessageQueue, MessageQueue]:
    """Return an accepted end and a connected one."""
    server = QueueBroker("server", manager=manager)
    client = QueueBroker("client", manager=manager)
    with Threads() as threads:
        accepted = threads.start(server.accept, PORT)
        connected = client.connect("server", PORT, required=True)
    return accepted.result(), connected


def echo(queue: MessageQueue) -> None:
    with queue:
        try:
            for message in queue:
                queue.send(message)
        except DisconnectedQueueError:
            pass  # the client left before its last answers


def serve(server: QueueBroker) -> None:
    with Threads() as threads:
        for queue in server.accept_iter(PORT):
            threads.start(echo, queue)


def ask(manager: BrokerManager, number: int) -> None:
    """Send messages to be echoed; do not wait for the last answers."""
    with (
        QueueBroker(f"client {number}", manager=manager) as broker,
        broker.connect("server", PORT, required=True) as queue,
    ):
        for count in range(MESSAGES):
            queue.send(bytes(count % 70))
            if count % 3 or queue.pending > 5:
                queue.receive()


def test_many_clients_and_a_server_keep_every_promise(tmp_path: Path) -> None:
    with (
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
        Threads() as threads,
    ):
        server = QueueBroker("server", manager=manager)
        serving = threads.start(serve, server)
        asking = [threads.start(ask, manager, number) for number in range(CLIENTS)]
        for each in asking:
            each.result()
        server.close()
        serving.result()

    result = judged(tmp_path)
    assert held(result), result.violations[:3]
    checked = {each.rule: each.checked for each in result.verdicts}
    assert checked["Q1"] == CLIENTS
    assert checked["Q5"] >= CLIENTS * MESSAGES


def test_messages_unread_when_the_journal_is_closed_break_no_promise(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path) as journal:
        manager = BrokerManager(observer=journal.observe)
        accepted, connected = pair(manager)
        for size in range(5):
            connected.send(bytes(size))
        accepted.receive()
    accepted.disconnect()
    connected.disconnect()
    manager.close()

    result = judged(tmp_path)
    assert held(result), result.violations
    assert result.facts[0].late


def test_messages_unread_at_a_disconnect_are_accounted_for(tmp_path: Path) -> None:
    with (
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
    ):
        accepted, connected = pair(manager)
        accepted.send(b"unread, too")
        for size in range(5):
            connected.send(bytes(size))
        connected.send_many([b"1", b"2"])
        accepted.receive_many(2)
        accepted.disconnect()
        connected.send(b"to nobody")  # half-disconnected: dropped
        connected.receive()
        connected.disconnect()

    result = judged(tmp_path)
    assert held(result), result.violations
    (journal_,) = open_journals(tmp_path)
    assert sum(record.kind == RecordKind.DROP for record in journal_.records()) == 6


def test_a_byte_channel_is_recorded_and_breaks_no_promise(tmp_path: Path) -> None:
    with (
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
        Threads() as threads,
    ):
        server, client = Broker("s", manager=manager), Broker("c", manager=manager)
        accepted = threads.start(server.accept, PORT)
        with client.connect("s", PORT, required=True) as near, accepted.result() as far:
            near.write_all(bytes(100))
            far.read_exactly(60)

    result = judged(tmp_path)
    assert held(result), result.violations
    (journal_,) = open_journals(tmp_path)
    kinds = {record.kind for record in journal_.records()}
    assert {RecordKind.WRITE, RecordKind.READ} <= kinds


@pytest.mark.deep
@clause("QB-BOOK-4")
def test_a_send_that_is_interrupted_anywhere_breaks_no_rule() -> None:
    """A receivable message is recorded as sent, or the journal reports a gap."""
    outcomes: set[tuple[bool, bool]] = set()

    def case(struck: Blow) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with (
                Journal(folder, segment_bytes=SMALL) as journal,
                BrokerManager(observer=journal.observe) as manager,
            ):
                accepted, connected = pair(manager)
                connected.send(b"before")
                struck(lambda: connected.send(b"struck"))
                connected.send(b"after")
                received = accepted.receive_many()
                accepted.disconnect()
                connected.disconnect()
            result = judged(Path(folder))

        assert received in ([b"before", b"struck", b"after"], [b"before", b"after"])
        assert [one for one in result.violations if one.verdict is Verdict.FAIL] == []
        assert result.verdict is not Verdict.FAIL
        outcomes.add((b"struck" in received, result.verdict is Verdict.PASS))

    everywhere(case, packages=[queuebroker, bus])
    # Interrupts before and after the message could be received.
    assert {(False, True), (True, True)} <= outcomes


FINDS = {
    "lost": ("Q5", "overtaken"),
    "duplicate": ("Q3", "twice"),
    "reorder": ("Q2", "overtaken"),
    "half": ("Q7", "received"),
}


@clause("QB-BOOK-4")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_inside_a_real_queue_shows_in_its_records(
    tmp_path: Path, fault: str
) -> None:
    """`seq` travels with the message, so the records prove the order."""
    with (
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
    ):
        accepted, connected = pair(manager)
        for _ in range(3):
            connected.send(b"before")
            accepted.receive()
        plant_fault(fault, accepted)
        for _ in range(4):
            connected.send(b"after")
        accepted.receive()
        if fault != "half":
            accepted.receive_many()
            accepted.disconnect()
        connected.disconnect()

    (violation, *others) = judged(tmp_path).violations
    rule, case = FINDS[fault]
    assert (violation.rule, violation.case) == (rule, case)
    assert violation.verdict is Verdict.FAIL
    assert (violation.sender, violation.receiver, violation.port) == (
        "client",
        "server",
        PORT,
    )
    assert violation.seq == 4
    assert others == []
