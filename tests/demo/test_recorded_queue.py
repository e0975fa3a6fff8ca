"""A recorded queue between processes: both ends are one channel, numbers are true."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from bus.demo.faults import FAULTS
from bus.demo.processes import QUEUE_FAULTS, plant_fault_between_processes
from bus.demo.recorded_queue import RecordedConnector, RecordedQueue, new_channel
from bus.journal.checker import CheckResult, check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from queuebroker import BrokerManager, DisconnectedQueueError
from queuebroker.sockets import SocketMessageQueue, SocketQueueBroker
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def recorded(
    journals: Path,
) -> Iterator[tuple[RecordedQueue, RecordedQueue]]:
    """Give the accepting end and the connecting end."""
    with (
        Journal(journals) as here,
        Journal(journals) as there,
        BrokerManager() as ours,
        BrokerManager() as theirs,
        Threads() as threads,
    ):
        listening = SocketQueueBroker(
            "collector", listen="tcp://127.0.0.1:0", manager=ours
        )
        connecting = SocketQueueBroker("worker", manager=theirs, strict_half=True)
        address = listening.address
        assert address is not None
        channel = new_channel()
        accepted = threads.start(listening.accept, 2)
        connector = RecordedConnector(connecting, there, channel)
        with (
            connector.connect(address, 2, required=True) as far,
            RecordedQueue(accepted.result(), here, channel, 0) as near,
        ):
            assert (near.remote_name, far.remote_name) == ("worker", "collector")
            yield near, far


def _checked(journals: Path) -> CheckResult:
    return check(open_journals(journals))


@pytest.mark.parametrize(
    ("fault", "rules", "got"),
    [
        ("lost", {"Q5"}, [b"2", b"3"]),
        ("duplicate", {"Q3"}, [b"1", b"1", b"2", b"3"]),
        ("reorder", {"Q2"}, [b"2", b"1", b"3"]),
        ("half", {"Q5", "Q7"}, [b"1"]),
    ],
)
def test_a_fault_put_into_it_on_purpose_is_found(
    tmp_path: Path, fault: str, rules: set[str], got: list[bytes]
) -> None:
    with recorded(tmp_path / "journals") as (near, far):
        plant_fault_between_processes(fault, near)
        far.send_many([b"1", b"2", b"3"])
        assert [near.receive() for _ in got] == got
        far.disconnect()

    result = _checked(tmp_path / "journals")
    assert {each.rule for each in result.violations} == rules


def test_the_same_faults_are_known_between_processes_as_between_threads() -> None:
    assert set(QUEUE_FAULTS) == set(FAULTS)


def test_two_journals_are_read_as_one_channel(tmp_path: Path) -> None:
    with recorded(tmp_path / "journals") as (near, far):
        far.send(b"one")
        far.send_many([b"two", b""])
        assert [near.receive() for _ in range(3)] == [b"one", b"two", b""]
        near.send(b"thanks")
        assert far.receive() == b"thanks"
        far.disconnect()
        far.disconnect()
        with pytest.raises(DisconnectedQueueError):
            near.receive()
        assert near.remote_disconnected

    result = _checked(tmp_path / "journals")
    checked = {each.rule: each.checked for each in result.verdicts}
    assert result.verdict is Verdict.PASS, result.violations
    assert (checked["J1"], checked["Q1"]) == (2, 1)
    assert (checked["Q5"], checked["Q8"]) == (4, 4)


def test_a_message_lost_on_the_way_violates_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver records the sender's number, not one of its own."""
    with recorded(tmp_path / "journals") as (near, far):
        far.send(b"arrives")
        with monkeypatch.context() as patch:
            patch.setattr(SocketMessageQueue, "send_many", lambda *_: None)
            far.send(b"is lost")
        far.send(b"arrives")
        assert [near.receive(), near.receive()] == [b"arrives", b"arrives"]

    [violation] = _checked(tmp_path / "journals").violations
    assert (violation.rule, violation.verdict) == ("Q5", Verdict.FAIL)
    assert (violation.sender, violation.receiver) == ("worker", "collector")
    assert violation.seq == 2


def test_a_message_to_a_disconnected_peer_is_recorded_as_dropped(
    tmp_path: Path,
) -> None:
    with recorded(tmp_path / "journals") as (near, far):
        near.disconnect()
        with pytest.raises(DisconnectedQueueError):
            far.receive()
        with pytest.raises(DisconnectedQueueError):
            far.send(b"too late")

    result = _checked(tmp_path / "journals")
    assert result.verdict is Verdict.PASS, result.violations
    checked = {each.rule: each.checked for each in result.verdicts}
    assert checked["Q5"] == 1
