"""OPEN-2: a process sends PING on a silent link, and reacts if no answer comes."""

from __future__ import annotations

from bus.kernel.wire import FrameType, Ping, Pong
from specs.clauses import clause
from tests.simulate.stage import Stage

KEEP_ALIVE_S, LEASE_S = 2.5, 10.0


def stage_of(*, machines: int = 1, slaves: int = 1) -> Stage:
    return Stage(
        machines=machines, slaves=slaves, keep_alive_s=KEEP_ALIVE_S, lease_s=LEASE_S
    )


def complaints(stage: Stage, process: str, machine: str = "m1") -> list[str]:
    """Return a list that receives the complaints of a process from now on."""
    reported: list[str] = []
    stage.process(process, machine).remote.topology.complain = reported.append  # type: ignore[misc]
    return reported


@clause("OPEN-2")
def test_a_silent_link_is_asked_once_in_a_while_and_answers() -> None:
    stage = stage_of()

    stage.soon(4 * KEEP_ALIVE_S)

    pings = [each for each in stage.frames() if isinstance(each, Ping)]
    pongs = [each for each in stage.frames() if isinstance(each, Pong)]
    # Either both ends ask at about the same time, or one does; then neither is silent.
    assert 3 <= len(pings) <= 8
    assert [each.number for each in pongs] == [each.number for each in pings]


@clause("OPEN-2")
def test_a_process_that_receives_other_frames_sends_no_ping() -> None:
    stage = stage_of()
    a, b = stage.task("a", "s1"), stage.task("b", "s2")
    stage.soon()
    stage.forget()  # drops the PINGs that ask for verdicts on their names
    for _ in range(10):
        stage.send(a, "b")
        stage.send(b, "a")
        stage.soon(KEEP_ALIVE_S / 2)

    kinds = {getattr(each, "type", FrameType.MSG) for each in stage.frames()}
    assert FrameType.PING not in kinds


@clause("OPEN-2")
def test_an_unresponsive_slave_is_reported_once_and_kept() -> None:
    stage = stage_of()
    a, b = stage.task("a", "s1"), stage.task("b", "s2")
    stage.send(a, "b")
    stage.soon()
    reported = complaints(stage, "s1")
    slave = stage.process("s2")
    slave.frozen = True
    stage.soon(LEASE_S - 2 * KEEP_ALIVE_S)
    assert reported == []

    stage.soon(4 * LEASE_S)

    assert reported == ["process m1/s2 has not responded for 10 s"]
    (peer,) = stage.process("s1").remote.topology.peers.values()
    assert [each.unresponsive for each in (peer,)] == [True]
    (command,) = stage.send(a, "b")
    stage.soon()
    assert command.reported is None  # still queued: a process in a debugger is not dead

    slave.thaw()
    stage.soon()

    assert reported[1:] == ["process m1/s2 responds again"]
    assert not peer.unresponsive
    assert command.taken_by == b.id


@clause("OPEN-2")
def test_an_unresponsive_process_on_another_machine_loses_its_link() -> None:
    stage = stage_of(machines=2, slaves=0)
    reported = complaints(stage, "s1", "m1")
    far = stage.process("s1", "m2")
    far.frozen = True

    stage.soon(LEASE_S + 2 * KEEP_ALIVE_S)

    assert reported[0] == "process m2/s1 has not responded for 10 s"
    near = stage.process("s1", "m1").remote.topology
    assert not any(peer.session.ready for peer in near.peers.values())

    far.thaw()
    stage.soon(LEASE_S)

    assert [peer.session.ready for peer in near.peers.values()] == [True]


@clause("OPEN-2")
def test_a_pause_of_this_process_does_not_count_as_silence_of_its_peers() -> None:
    """The peer pauses right after it, and has answered nothing meanwhile."""
    stage = stage_of(machines=2, slaves=0)
    near, far = (stage.process("s1", machine) for machine in ("m1", "m2"))
    reported = complaints(stage, "s1", "m1")
    stage.soon(2 * KEEP_ALIVE_S)
    near.frozen = True
    stage.soon(LEASE_S - KEEP_ALIVE_S)
    far.frozen = True

    near.thaw()
    stage.soon(LEASE_S - 2 * KEEP_ALIVE_S)
    assert reported == []

    stage.soon(3 * KEEP_ALIVE_S)  # a pause is counted once, so this silence is noticed
    assert reported[:1] == ["process m2/s1 has not responded for 10 s"]
