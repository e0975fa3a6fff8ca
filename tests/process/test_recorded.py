"""Several processes of a bus and their journals: the events between them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from bus import BusFullError, Role
from bus.features.memory.link_memory import LinkMemory
from bus.journal.checker import check
from bus.journal.reader import open_journals
from bus.journal.rules import Verdict
from bus.journal.writer import Journal
from bus.kernel.wire import Batch, pieces
from specs.clauses import clause
from tests.journal.telling import SMALL
from tests.kit.buses import socket_bus
from tests.kit.comm_threads import comm_of, held, settled
from tests.kit.journals import OF_COMMANDS, holds, lines, links, steps_of
from tests.kit.tasks import Reader
from tests.process.processes import commands, linked, subscribed, under_way
from tests.process.real import Far
from tests.process.scenarios import MACHINE, SCENARIOS, pair, unread
from tests.support import until

if TYPE_CHECKING:
    from pathlib import Path

    from bus import Bus, Incoming, Overflow, Undelivered
    from bus.kernel.peer.peer import Peer
    from bus.kernel.wire import Frame


def peer_of(bus: Bus) -> Peer:
    """Return the peer object for the only other process."""
    (peer,) = comm_of(bus).remote.topology.peers.values()
    return peer


def by_message(steps: list[str]) -> list[str]:
    """Group the steps by message, keeping their order.

    Unrelated threads record steps of different messages in any order.
    """
    return sorted(steps, key=lambda line: line.split()[3:4])


@clause("B1", "B2", "B3", "B5")
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_message_to_another_process_is_recorded_in_both(
    name: str, tmp_path: Path
) -> None:
    scenario, near, far = SCENARIOS[name]
    with pair(tmp_path) as both:
        scenario(both)
        settled(both.near)

    assert by_message(steps_of(tmp_path, "near")) == by_message(lines(near))
    assert by_message(steps_of(tmp_path, "far")) == by_message(lines(far))
    holds(tmp_path, checked=OF_COMMANDS if " deliver " in near + far else ("B2", "B3"))


# The outcomes of commands 2 to 5 with room for two; one is under way.
FULL: dict[Overflow, list[str]] = {
    "error": ["command a b 2", "command a b 3"],
    "drop-newest": ["command a b 2", "command a b 3"],
    "drop-oldest": [
        *("command a b 2", "command a b 3"),
        *("command a b 4", "undelivered a b 2 oldest"),
        *("command a b 5", "undelivered a b 3 oldest"),
    ],
}


@clause("B2", "B3")
@pytest.mark.parametrize("overflow", FULL)
def test_the_overflow_of_a_relay_is_recorded(
    overflow: Overflow, tmp_path: Path
) -> None:
    with pair(tmp_path, window=1, task_fifo_messages=2) as both:
        both.far.register("b", overflow=overflow)
        a = both.start()
        a.command("b", 1)
        unread(both.far, 1)
        with held(both.near):
            for number in (2, 3, 4, 5):
                with suppress(BusFullError):
                    a.command("b", number)
            steps = steps_of(tmp_path, "near")

    assert steps == ["command a b 1", "relay_out a b 1 +1", *FULL[overflow]]
    holds(tmp_path, checked=("B2", "B3"))


@clause("B2", "B3", "B5")
def test_a_notification_dropped_for_newer_ones_is_recorded(tmp_path: Path) -> None:
    """One is under way, and two wait for the link."""
    got: list[Incoming] = []
    with pair(tmp_path, window=1, task_fifo_messages=2) as both:
        a = both.start()
        # With room for all, so that drops happen before sending.
        both.far.register("b").subscribe("a", got.append, capacity=5)
        subscribed(both.near, "a")
        with held(both.far):
            for number in range(1, 6):
                a.notify(number)
                settled(both.near)
        until(lambda: bool(got) and got[-1].payload == 5, "the last one is received")

    steps = steps_of(tmp_path, "near")
    assert [line for line in steps if line.startswith("discard")] == [
        "discard a FAR *2 oldest",
        "discard a FAR *3 oldest",
    ]
    assert [message.payload for message in got] == [1, 4, 5]
    holds(tmp_path)


# A recorded process with one that is not recorded.


@pytest.mark.deep
@clause("B1", "B2", "B3", "B5")
@pytest.mark.parametrize("recorded", ["near", "far"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_with_a_process_that_does_not_record_nothing_is_found(
    name: str, recorded: str, tmp_path: Path
) -> None:
    """The check cannot know about missing steps; the recorded ones are right."""
    with pair(tmp_path, recorded=recorded) as both:
        SCENARIOS[name][0](both)

    result = check(open_journals(tmp_path))
    assert result.problems == ()
    assert Verdict.FAIL not in {each.verdict for each in result.violations}
    assert {each.rule for each in result.violations} <= {"B2", "B3"}


@clause("B2")
@pytest.mark.parametrize("recorded", ["near", "far", ""])
def test_commands_go_one_by_one_only_where_they_are_recorded(
    recorded: str, tmp_path: Path, frames: list[Frame]
) -> None:
    with pair(tmp_path, recorded=recorded) as both:
        reader = Reader(both.far, "b")
        a = both.start()
        a.command("b", b"0")
        reader.has(1)
        frames.clear()
        for _ in range(10):
            a.command("b", b"1")
        send_batch = both.near._exchange.find("b") is not None and bool(a._send_batches)
        reader.has(11)

    assert send_batch is (recorded != "near")
    assert sum(commands(frames)) == 10
    with_number = [
        bool(run.mid)
        for frame in frames
        for run in getattr(frame, "runs", ())
        if run.to
    ]
    assert set(with_number) == {recorded == "near"}


# Links.


@clause("B2")
def test_messages_resent_on_another_link_are_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From some time on, frames put on the first link never arrive."""
    swallows = False

    def swallowed(_: LinkMemory, __: int, frame: Frame) -> tuple[bytes, ...]:
        return () if swallows and isinstance(frame, Batch) else pieces(frame)

    monkeypatch.setattr(LinkMemory, "pieces", swallowed)
    with pair(tmp_path) as both:
        reader = Reader(both.far, "b")
        a = both.start()
        a.command("b", 0)
        reader.has(1)
        swallows = True
        for number in range(1, 6):
            a.command("b", number)
        until(lambda: len(steps_of(tmp_path, "near")) >= 12, "all are on the link")
        settled(both.near)
        swallows = False
        link = peer_of(both.near).session.link
        assert link is not None
        comm_of(both.near)._link_pool._queues[link].disconnect()
        reader.has(6)
        assert reader.got == list(range(6))

    steps = steps_of(tmp_path, "near")
    assert len([line for line in steps if line.startswith("relay_out")]) == 6
    assert links(tmp_path / "near").count("link_up far") == 1
    holds(tmp_path)


@clause("B2")
def test_messages_that_arrive_twice_by_a_link_are_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubled(_: LinkMemory, __: int, frame: Frame) -> tuple[bytes, ...]:
        return pieces(frame) * (2 if isinstance(frame, Batch) else 1)

    monkeypatch.setattr(LinkMemory, "pieces", doubled)
    with pair(tmp_path) as both:
        reader = Reader(both.far, "b")
        a = both.start()
        for number in range(3):
            a.command("b", number)
        reader.has(3)
        assert a.call("b", 3) == 3

    steps = steps_of(tmp_path, "far")
    assert [line for line in steps if line.startswith("relay_in")] == [
        f"relay_in a b {mid} +1" for mid in (1, 2, 3, 4)
    ]
    holds(tmp_path)


@clause("J1")
def test_each_link_is_recorded_once_and_with_its_end(tmp_path: Path) -> None:
    with pair(tmp_path) as both:
        until(lambda: linked(both.near) == {"far"}, "they speak with one another")
        both.far.close()
        until(lambda: len(links(tmp_path / "near")) == 2, "it is reported")

    assert links(tmp_path / "near") == ["link_up far", "link_down far left"]


# Real processes.


@clause("J1")
def test_a_killed_process_is_recorded_as_died(tmp_path: Path) -> None:
    """Its unread messages are in doubt, which explains all missing steps."""
    lost: list[Undelivered] = []
    with (
        Journal(tmp_path / "near", machine=MACHINE, segment_bytes=SMALL) as journal,
        socket_bus("near", role=Role.MASTER, journal=journal) as near,
    ):
        a = near.register("a", on_undelivered=lost.append)
        with Far("far", journal=tmp_path / "far") as far:
            far.started()
            far("made.update(go=__import__('threading').Event())")
            far("bus.register('b', on_command=lambda m: made['go'].wait(60)) and None")
            a.command("b", 0)
            until(lambda: "deliver" in "".join(steps_of(tmp_path, "far")), "it is busy")
            until(lambda: under_way(near) == 0, "it is known to be busy")
            for number in range(3):
                a.command("b", number)
            until(lambda: under_way(near) == 3, "three are on their way to it")
            far.kill()
            until(lambda: len(lost) == 3, "all are reported")
            until(lambda: len(links(tmp_path / "near")) == 2, "its death is reported")

    assert links(tmp_path / "near") == ["link_up far", "link_down far died"]
    doubtful = [
        line for line in steps_of(tmp_path, "near") if line.startswith("in_doubt")
    ]
    assert doubtful == [f"in_doubt a b {mid} process_lost" for mid in (2, 3, 4)]
    holds(tmp_path)
    (dead,) = [
        each for each in check(open_journals(tmp_path)).facts if each.pid != os.getpid()
    ]
    assert dead.died
