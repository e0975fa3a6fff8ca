"""`LinkPool`: links that are made, used and closed, in every relevant order."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from bus.kernel.wire import FRAME_BYTES_MAX
from bus.model.config import BusConfig
from bus.process.failures import PeerLog
from bus.process.link_pool import LinkPool
from bus.process.memory_network import MemoryNetwork
from queuebroker import (
    DisconnectedError,
    ReceiveTimeoutError,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.process.link_owner import (
    LinkOwner,
    rest,
    under_every_schedule,
    under_some_schedules,
)

if TYPE_CHECKING:
    from queuebroker.testing import Run


@clause("BUS-CHAN-8")
def test_frames_for_a_full_link_wait_and_keep_their_order() -> None:
    def program(run: Run) -> None:
        owner = LinkOwner(capacity=2)
        owner.open()
        [far] = owner.connected()
        sent = [bytes([n]) for n in range(5)]
        got: list[bytes] = []

        def reads() -> None:
            got.extend(far.receive() for _ in sent)

        reading = run.spawn(reads)
        for frame in sent:
            owner.link_pool.send(1, frame)
        owner.until(lambda: not owner.link_pool.sending)
        reading.join()
        owner.close()
        assert got == sent

    # Each round that finds the link full backs off: few schedules end soon.
    explore(program, bound=1, limit=schedules(300), random=schedules(100), seed=1)


@clause("BUS-CHAN-8")
def test_frames_of_one_step_keep_their_order_behind_those_that_wait() -> None:
    def program(_run: Run) -> None:
        owner = LinkOwner(capacity=3)
        owner.open()
        [far] = owner.connected()
        steps: list[list[bytes]] = [[b"1", b"2"], [b"3", b"4", b"5"], [b"6", b"7"]]
        done = [owner.link_pool.send_all(1, frames) for frames in steps]
        got = [far.receive(timeout=0)]
        # Now there is room, but not for the next frames.
        done.append(owner.link_pool.send_all(1, [b"8", b"9"]))
        while owner.link_pool.sending or far.pending:
            got += far.receive_many(timeout=0)
            owner.link_pool.resume()
        owner.close()

        assert done == [True, False, False, False]
        assert got == [b"%d" % number for number in range(1, 10)]

    under_some_schedules(program)


@clause("BUS-CHAN-8")
def test_a_peer_that_reads_is_served_while_another_link_stays_full() -> None:
    def program(_run: Run) -> None:
        owner = LinkOwner(capacity=1)
        owner.open()
        _full, other = owner.connected(2)
        for number in (1, 2):
            for frame in (b"1", b"2"):
                owner.link_pool.send(number, frame)
        first = other.receive(timeout=0)
        owner.link_pool.resume()
        pending = other.pending
        second = other.receive(timeout=0) if pending else None
        owner.close()

        assert (first, second) == (b"1", b"2")

    under_some_schedules(program)


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("capacity", [1, 2, 8])
def test_a_link_is_closed_after_all_frames_sent_on_it(capacity: int) -> None:
    def program(run: Run) -> None:
        owner = LinkOwner(capacity=capacity)
        owner.open()
        [far] = owner.connected()
        reading = run.spawn(rest, far)
        for frame in (b"1", b"2", b"3"):
            owner.link_pool.send(1, frame)
        owner.link_pool.hang_up(1)
        owner.until(lambda: not owner.link_pool._closing)
        reading.join()
        owner.close()

        assert reading.result == [b"1", b"2", b"3"]
        assert not owner.link_pool._closing

    explore(program, bound=1, limit=schedules(300), random=schedules(100), seed=1)


@clause("BUS-CHAN-8")
def test_a_closing_link_is_dropped_if_the_peer_does_not_read() -> None:
    """After a timeout; until then it wakes no thread, and does not count as sending."""

    def program(run: Run) -> None:
        owner = LinkOwner(capacity=1, timeout_s=2.0)
        owner.open()
        far, other = owner.connected(2)
        for frame in (b"1", b"2", b"3"):
            owner.link_pool.send(1, frame)
        before = owner.link_pool.sending
        owner.link_pool.hang_up(1)
        after = owner.link_pool.sending
        owner.link_pool.send(2, b"x")
        owner.link_pool.send(2, b"y")
        other_waits = owner.link_pool.sending
        assert other.receive() == b"x"
        owner.turn()
        assert other.receive() == b"y"
        began, owner.rounds = run.now, 0
        owner.until(lambda: not owner.link_pool._closing)
        took = run.now - began
        read = rest(far)
        owner.close()

        assert (before, after, other_waits) == (True, False, True)
        assert 1.9 < took < 2.1
        assert owner.rounds < 60
        assert read == [b"1"]
        assert (owner.received, owner.gave_up) == ([], [])

    explore(program, bound=0, limit=20, random=0, seed=1)


@clause("BUS-CHAN-8")
def test_a_peer_that_begins_to_read_is_served_soon_and_then_at_once() -> None:
    """The retries on a full link back off until the peer reads."""

    def program(run: Run) -> None:
        owner = LinkOwner(capacity=1)
        owner.open()
        [far] = owner.connected()
        for frame in (b"1", b"2", b"3", b"4"):
            owner.link_pool.send(1, frame)
        began, owner.rounds = run.now, 0
        owner.until(lambda: run.now > began + 1)
        rounds = owner.rounds
        got, took = list[bytes](), list[float]()
        for _ in range(3):
            got.append(far.receive())
            began = run.now
            owner.until(lambda: far.pending)
            took.append(run.now - began)
        owner.close()

        assert rounds < 40
        assert got == [b"1", b"2", b"3"]
        assert took[0] < 0.051
        assert max(took[1:]) < 0.002

    explore(program, bound=0, limit=20, random=0, seed=1)


@pytest.mark.parametrize("capacity", [1, 8])
def test_frames_from_a_closed_link_are_not_reported(capacity: int) -> None:
    def program(run: Run) -> None:
        owner = LinkOwner(capacity=capacity)
        owner.open()
        [far, other] = owner.connected(2)

        def speaks() -> None:
            try:
                far.send(b"x", timeout=0)
            except DisconnectedError:
                return
            far.disconnect()

        for _ in range(2):
            owner.link_pool.send(1, b"y")
        before = len(owner.received)
        owner.link_pool.hang_up(1)
        speaking = run.spawn(speaks)
        other.send(b"z")
        owner.until(lambda: owner.frames(2))
        speaking.join()
        owner.until(lambda: not owner.link_pool._closing)
        owner.turn()
        owner.close()

        assert before == 0
        assert owner.frames(1) == []
        assert not owner.link_pool._closing

    under_every_schedule(program, bound=1)


@clause("BUS-CHAN-4", "BUS-CHAN-5")
@pytest.mark.parametrize("waits", [False, True])
def test_frames_for_a_lost_link_are_discarded(*, waits: bool) -> None:
    """Also those that have waited for room in it."""

    def program(_run: Run) -> None:
        owner = LinkOwner(capacity=1)
        owner.open()
        [far] = owner.connected()
        for _ in range(3 * waits):
            owner.link_pool.send(1, b"x")
        assert owner.link_pool.sending is waits
        far.disconnect()
        dropped = [owner.link_pool.send_all(1, [b"1", b"2"])] * (not waits)
        owner.until(lambda: owner.received)
        dropped += [owner.link_pool.send(1, b"x")]
        dropped += [owner.link_pool.send_all(1, [b"3", b"4"])]
        sending = owner.link_pool.sending
        owner.link_pool.hang_up(1)
        owner.close()
        assert all(dropped)
        assert not sending
        assert owner.received == [(1, None)]

    under_some_schedules(program)


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("frame", [b"x", bytes(400)], ids=["frames", "bytes"])
@pytest.mark.parametrize("waiting", [3, 4], ids=["fits", "too much"])
def test_too_much_that_waits_for_room_ends_the_link(frame: bytes, waiting: int) -> None:
    """As if it were lost; another link is not affected."""

    def program(_run: Run) -> None:
        owner = LinkOwner(
            capacity=1, backlog=(3, 1_000_000 if len(frame) == 1 else 1200)
        )
        owner.open()
        far, other = owner.connected(2)
        owner.link_pool.send(2, b"y")
        for _ in range(1 + waiting):
            owner.link_pool.send(1, frame)
        given_up = list(owner.gave_up)
        if given_up:
            owner.until(lambda: owner.received)
            owner.link_pool.send(1, frame)  # dropped
        else:
            assert far.receive() == frame
            owner.turn()
            owner.link_pool.send(1, frame)
            assert owner.gave_up == []
        sending, reported = owner.link_pool.sending, list(owner.received)
        assert other.receive() == b"y"
        owner.close()
        assert given_up == ([1] if waiting > 3 else [])
        assert reported == [(each, None) for each in given_up]
        assert sending == (not given_up)

    under_some_schedules(program)


@clause("BUS-CHAN-6")
@pytest.mark.parametrize("waits", [False, True])
def test_a_frame_that_a_link_never_takes_ends_that_link(*, waits: bool) -> None:
    """As if it were lost, even if it has waited for room; other links are served."""

    def program(_run: Run) -> None:
        owner = LinkOwner(capacity=1, limit=FRAME_BYTES_MAX, backlog=(100, 2**22))
        owner.open()
        far, other = owner.connected(2)
        if waits:
            owner.link_pool.send(1, b"x")
            owner.link_pool.send(1, b"y")
        went = owner.link_pool.send(1, bytes(FRAME_BYTES_MAX + 1))
        if waits:
            assert far.receive() == b"x"
            owner.turn()
            assert far.receive() == b"y"
            owner.turn()
        owner.until(lambda: owner.received)
        owner.link_pool.send(2, b"z")
        sending = owner.link_pool.sending
        assert other.receive() == b"z"
        owner.close()

        assert not went
        assert owner.received == [(1, None)]
        assert owner.gave_up == [1]
        assert owner.words == [
            f"it cannot carry a frame of {FRAME_BYTES_MAX + 1} bytes"
        ]
        assert not sending

    under_some_schedules(program)


@clause("BUS-CHAN-5")
def test_frames_sent_before_a_loss_are_reported_before_it() -> None:
    """BUS-CHAN-5: all frames, in order, and then the loss, once."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        [far, other] = owner.connected(2)
        frames = [bytes([n]) for n in range(6)]

        def speaks() -> None:
            for frame in frames:
                far.send(frame)
            far.disconnect()

        run.spawn(speaks)
        owner.until(lambda: (1, None) in owner.received)
        other.disconnect()
        owner.until(lambda: (2, None) in owner.received)
        owner.close()
        assert owner.frames(1) == [*frames, None]
        assert owner.frames(2) == [None]

    under_every_schedule(program)


@clause("BUS-CHAN-5")
def test_a_link_known_as_lost_before_its_last_frame_is_examined_again() -> None:
    """No other event wakes the owner for that link."""
    poller, queue, numbers = Mock(), Mock(remote_disconnected=True), list[int]()
    queue.receive_many.side_effect = [ReceiveTimeoutError(0.0), [b"last"]]
    poller.take_ready.return_value = [1]

    link_pool = LinkPool(
        Mock(),
        BusConfig(),
        MemoryNetwork("bus1"),
        poller=poller,
        peer_log=PeerLog(),
        on_aborted=Mock(),
    )
    link_pool._own(queue, numbers.append)

    for received in ([], [(1, b"last")]):
        poller.mark_ready.reset_mock()
        assert link_pool.take() == received
        poller.mark_ready.assert_called_once_with(1)


def test_many_frames_of_one_link_do_not_keep_others_waiting() -> None:
    def program(_run: Run) -> None:
        owner = LinkOwner(capacity=1_000)
        owner.open()
        busy, other = owner.connected(2)
        for _ in range(600):
            busy.send(b"x")
        other.send(b"y")
        owner.turn()
        reported = len(owner.frames(1)), len(owner.frames(2))
        owner.close()
        assert reported == (256, 1)

    explore(program, bound=0, limit=1, random=0)


@pytest.mark.parametrize("by", ["frame", "inbox", "loss"])
def test_one_of_many_simultaneous_events_wakes_the_owner(by: str) -> None:
    """No wake-up is lost, whichever comes first, and each event is reported once."""

    def program(run: Run) -> None:
        owner = LinkOwner()
        owner.open()
        far = owner.connected(2)
        asked: list[int] = []

        def wakes(number: int) -> None:
            if by == "inbox":
                owner.ask(lambda: asked.append(number))
            elif by == "frame":
                far[number].send(b"x")
            else:
                far[number].disconnect()

        for number in range(2):
            run.spawn(wakes, number)
        run.spawn(owner.ask, lambda: asked.append(7))
        owner.until(lambda: len(owner.received) + len(asked) == 3)
        owner.close()
        reported = sorted(link for link, _ in owner.received)
        assert reported == ([] if by == "inbox" else [1, 2])
        assert sorted(asked) == ([0, 1, 7] if by == "inbox" else [7])

    under_every_schedule(program, limit=1_000)
