"""Channels over sockets in journals: both ends record one channel; all rules hold."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from bus.journal.checker import check
from bus.journal.format import RecordKind
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from queuebroker import BrokerManager, DisconnectedQueueError
from queuebroker.observer import Reason
from queuebroker.sockets import SocketQueueBroker
from specs.clauses import clause
from tests import processes
from tests.kit.systems import needs_unix_sockets
from tests.sockets.support import PORT, brokers, folder, meet, numbered, take
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    from pathlib import Path

OF_CHANNELS = [f"Q{number}" for number in range(1, 9)]

PEER = """
import signal, sys
from bus.journal.writer import Journal
from queuebroker import BrokerManager
from queuebroker.sockets import SocketQueueBroker
journal = Journal(sys.argv[2])
broker = SocketQueueBroker("guest", manager=BrokerManager(observer=journal.observe))
queue = broker.connect(sys.argv[1], 7, required=True)
for number in range(10):
    queue.send(queue.receive())
print("returned", flush=True)
if sys.argv[3] == "is killed":
    signal.pause()
queue.disconnect()
broker.close()
journal.close()
"""


def verdicts(place: Path) -> dict[str, Verdict]:
    """Return the verdicts on the channels of all journals below a folder."""
    result = check(open_journals(place))
    assert [each for each in result.violations if each.rule != "J1"] == []
    return {
        each.rule: each.verdict for each in result.verdicts if each.rule in OF_CHANNELS
    }


def drops(place: Path) -> list[tuple[int, int]]:
    """Return number and reason of the dropped messages in all journals."""
    return [
        (record.seq, record.reason)
        for journal in open_journals(place)
        for record in journal.records()
        if record.kind == RecordKind.DROP
    ]


@clause("QB-BOOK-4")
@pytest.mark.parametrize("leaves", ["reader", "sender"])
def test_both_ends_of_a_socket_record_one_channel(tmp_path: Path, leaves: str) -> None:
    """In one journal, too, where a peer may send to an end that has disconnected."""
    with (
        Journal(tmp_path) as journal,
        brokers(observer=journal.observe) as (host, guest),
    ):
        for _ in range(2):
            accepted, connected = meet(host, guest)
            for each in numbered(20):
                accepted.send(each)
                connected.send(each)
            assert take(connected, 20) == take(accepted, 20) == numbered(20)
            accepted.send(b"unread")
            (connected if leaves == "reader" else accepted).disconnect()
            with suppress(DisconnectedQueueError):
                while not accepted.remote_disconnected:
                    accepted.send(b"late")
            accepted.disconnect()
            connected.disconnect()

    assert verdicts(tmp_path) == dict.fromkeys(OF_CHANNELS, Verdict.PASS)


@clause("QB-BOOK-4")
@pytest.mark.parametrize("recorded", ["acceptor", "connector"])
@needs_unix_sockets
def test_a_channel_with_one_recorded_end_breaks_no_rule(
    tmp_path: Path, recorded: str
) -> None:
    """The sends of the other end are in no journal, which proves nothing."""
    with (
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
        folder() as place,
        SocketQueueBroker(
            "host",
            listen=f"ipc://{place}/host",
            manager=manager if recorded == "acceptor" else None,
        ) as host,
        SocketQueueBroker(
            "guest", manager=manager if recorded == "connector" else None
        ) as guest,
    ):
        for end in (ends := meet(host, guest)):
            end.send(b"x")
        for end in ends:
            assert end.receive(timeout=LIMIT_S) == b"x"
            end.disconnect()

    found = {each.rule: each for each in check(open_journals(tmp_path)).verdicts}
    assert Verdict.FAIL not in {each.verdict for each in found.values()}
    assert found["Q4"].why == "1 cannot be judged: a journal is open or missing"


@clause("QB-BOOK-4")
@pytest.mark.parametrize("peer", ["leaves", "is killed"])
@needs_unix_sockets
def test_journals_of_two_processes_share_a_channel(tmp_path: Path, peer: str) -> None:
    """If the peer is killed, a record shows each message that it may not have got."""
    with (
        folder() as place,
        Journal(tmp_path) as journal,
        BrokerManager(observer=journal.observe) as manager,
        SocketQueueBroker(
            "host", listen=f"ipc://{place}/host", manager=manager
        ) as host,
        processes.start(PEER, str(host.address), tmp_path, peer) as program,
    ):
        queue = host.accept(PORT, timeout=LIMIT_S)
        for each in numbered(10):
            queue.send(each)
            assert queue.receive(timeout=LIMIT_S) == each
        assert program.stdout is not None
        assert program.stdout.readline() == "returned\n"
        if peer == "is killed":
            queue.send(b"unread")
            program.kill()
        program.wait(LIMIT_S)
        until(lambda: queue.remote_disconnected, "the end of the peer is seen")
        queue.disconnect()

    lost = [(11, Reason.PEER_LOST)] if peer == "is killed" else []
    assert drops(tmp_path)[-1:] == lost
    assert Verdict.FAIL not in verdicts(tmp_path).values()
