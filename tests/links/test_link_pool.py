"""`LinkPool`: links that are made, used and closed, in every relevant order."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from bus.core.wire import FRAME_BYTES_MAX
from bus.links.link_pool import PORT, LinkPool
from queuebroker import (
    BrokerClosedError,
    DisconnectedError,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    _sync,
)
from queuebroker.meeting.queue_broker import QueueBroker
from queuebroker.testing import explore
from specs.clauses import clause
from tests.links.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.testing import Run


def under_every_schedule(
    program: Callable[[Run], object], *, bound: int = 2, limit: int = 1_500
) -> None:
    explore(program, bound=bound, limit=limit, random=100, seed=1)


def under_some_schedules(program: Callable[[Run], object]) -> None:
    """Explore few schedules: the test needs the virtual clock, not an order."""
    explore(program, bound=1, limit=150, random=20, seed=1)


def rest(queue: MessageQueue) -> list[bytes]:
    """Return all frames received by a far end until the link is lost."""
    frames = []
    while True:
        try:
            frames.append(queue.receive())
        except DisconnectedError:
            return frames


# Making links.


def test_the_accepting_and_the_dialling_process_get_one_link_each() -> None:
    def program(run: Run) -> None:
        desk, other = Desk(), Desk()
        desk.open()
        # Both use one broker manager, so that one can reach the other.
        other.here.close()
        broker = QueueBroker("other", manager=desk.manager)
        other.link_pool.accept_links(broker, other.made.append)
        other.link_pool.dial(["here"], other.made.append)

        def serves() -> None:
            other.until(lambda: other.made)
            other.link_pool.send(1, b"hello")
            other.until(lambda: other.came)

        serving = run.spawn(serves)
        desk.until(lambda: desk.came)
        desk.link_pool.send(1, b"welcome")
        serving.join()
        desk.close()
        other.close()

        assert (desk.made, other.made) == ([1], [1])
        assert desk.frames(1) == [b"hello"]
        assert other.frames(1)[0] == b"welcome"

    under_some_schedules(program)


@clause("BUS-CHAN-3")
@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "deaf"])
def test_a_dial_in_vain_reports_its_failure_and_delays_no_link(listens: bool) -> None:
    """No broker has that name, or no broker accepts there within the deadline."""

    def program(run: Run) -> None:
        desk = Desk(timeout_s=2.0)
        desk.open()
        [far] = desk.connected()
        desk.link_pool.dial(["there" if listens else "nobody"], desk.made.append)
        # Meanwhile links are served.
        before = run.now
        far.send(b"x")
        desk.until(lambda: desk.came)
        served = run.now - before
        desk.until(lambda: len(desk.made) == 2)
        took = run.now - before
        desk.close()

        assert desk.made == [1, None]
        if listens:
            assert served < 2.0 <= took
        else:
            assert took < 2.0

    explore(program, bound=0, limit=50, random=0, seed=1)


@clause("BUS-CHAN-3")
def test_a_dial_to_a_process_that_closes_reports_its_failure() -> None:
    """Else it would wait for the link for ever, and never dial again."""

    def program(run: Run) -> None:
        desk = Desk()
        desk.open()
        desk.link_pool.dial(["there"], desk.made.append)
        run.spawn(desk.there.close)
        desk.until(lambda: desk.made)
        desk.close()
        assert desk.made == [None]

    under_every_schedule(program)


@pytest.mark.parametrize("first", ["nobody", ""])
def test_the_first_address_where_somebody_listens_is_taken(first: str) -> None:
    """Invalid addresses before it are skipped: they may come from another process."""

    def program(run: Run) -> None:
        desk = Desk(timeout_s=2.0)
        desk.open()
        last = QueueBroker("last", manager=desk.manager)
        far = run.spawn(last.accept, PORT)
        desk.link_pool.dial([first, "there", "last"], desk.made.append)
        desk.until(lambda: desk.made)
        desk.link_pool.send(1, b"x")
        far.join()
        with far.result as queue:
            received = queue.receive()
        desk.close()

        assert desk.made == [1]
        assert received == b"x"

    explore(program, bound=0, limit=50, random=0, seed=1)


@clause("BUS-SEC-9")
@pytest.mark.parametrize("scheme", ["tcp", "tls", "udp"])
def test_an_address_on_another_machine_is_not_dialled(scheme: str) -> None:
    """An address from another process may name one; the log reports the refusal."""

    def program(run: Run) -> None:
        desk = Desk()
        desk.open()
        address = f"{scheme}://127.0.0.1:1"
        there = QueueBroker(address, manager=desk.manager)

        def accept() -> None:
            with pytest.raises(RendezvousTimeoutError):
                there.accept(PORT, timeout=1)

        accepting = run.spawn(accept)
        why: list[str] = []
        desk.link_pool.dial([address], desk.made.append, why.append)
        desk.until(lambda: desk.made)
        desk.close()

        assert desk.made == [None]
        assert why == [f"{address}: not a socket on this machine"]
        accepting.join()

    explore(program, bound=0, limit=50, random=0, seed=1)


@clause("BUS-CHAN-6")
@pytest.mark.parametrize("dials", [False, True])
@pytest.mark.parametrize("limit", [10, FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX])
def test_a_link_that_takes_less_than_a_frame_is_turned_away(
    limit: int, *, dials: bool
) -> None:
    """Both the dialler and the listener reject it; the peer and the log learn it."""

    def program(run: Run) -> None:
        desk = Desk(limit=limit)
        desk.open()
        if dials:
            accepting = run.spawn(desk.there.accept, PORT)
            desk.link_pool.dial(["there"], desk.made.append)
            desk.until(lambda: desk.made)
            accepting.join()
            far = accepting.result
        else:
            far = desk.there.connect("here", PORT, required=True)
            desk.until(lambda: desk.made or desk.words)
        ended = far.remote_disconnected
        desk.close()
        far.disconnect()

        if limit == FRAME_BYTES_MAX:
            assert (desk.made, desk.words, ended) == ([1], [], False)
        else:
            assert ended
            assert desk.made == ([None] if dials else [])
            who = "there is not used" if dials else "a peer is rejected"
            takes = f"its link carries frames of {limit} bytes, not {FRAME_BYTES_MAX}"
            assert desk.words == [f"{who}: {takes}"]

    explore(program, bound=0, limit=50, random=0, seed=1)


class _NoThread(_sync.Thread):
    """A thread that the system does not start."""

    def start(self) -> None:
        raise RuntimeError("can't start new thread")


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Make every start of a link thread fail."""
    with monkeypatch.context() as patch:
        patch.setattr(_sync, "Thread", _NoThread)
        yield patch


@clause("BUS-CHAN-3")
def test_where_no_thread_can_be_started_a_dial_fails_like_any_other(
    no_threads: pytest.MonkeyPatch,
) -> None:
    """A later dial may succeed."""
    desk = Desk()
    no_threads.undo()
    desk.open()
    no_threads.setattr(_sync, "Thread", _NoThread)
    desk.link_pool.dial(["there"], desk.made.append)
    desk.turn()
    assert desk.made == [None]
    no_threads.undo()
    desk.link_pool.dial(["nobody"], desk.made.append)
    desk.until(lambda: len(desk.made) == 2)
    desk.close()
    assert desk.made == [None, None]


@clause("BUS-CHAN-3")
@pytest.mark.usefixtures("no_threads")
def test_open_fails_and_accepts_no_peer_if_no_thread_can_start() -> None:
    """The caller gets the error; no peer can connect and wait there."""
    desk = Desk()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        desk.open()
    assert desk.here.closed
    desk.close()


@clause("BUS-CHAN-8")
def test_frames_of_a_capacity_fit_in_each_direction() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=3)
        desk.open()
        [far] = desk.connected()
        for _ in range(3):
            desk.link_pool.send(1, b"x")
            far.send(b"y", timeout=0)
        fits = not desk.link_pool.sending
        desk.link_pool.send(1, b"x")
        full = desk.link_pool.sending
        desk.close()

        assert fits
        assert full

    under_some_schedules(program)


# Frames on links.


@clause("BUS-CHAN-8")
def test_frames_for_a_full_link_wait_and_keep_their_order() -> None:
    def program(run: Run) -> None:
        desk = Desk(capacity=2)
        desk.open()
        [far] = desk.connected()
        sent = [bytes([n]) for n in range(5)]
        got: list[bytes] = []

        def reads() -> None:
            got.extend(far.receive() for _ in sent)

        reading = run.spawn(reads)
        for frame in sent:
            desk.link_pool.send(1, frame)
        desk.until(lambda: not desk.link_pool.sending)
        reading.join()
        desk.close()
        assert got == sent

    # Each round that finds the link full backs off: few schedules end soon.
    explore(program, bound=1, limit=300, random=100, seed=1)


@clause("BUS-CHAN-8")
def test_a_full_link_delays_no_other_link() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        full, other = desk.connected(2)
        for frame in (b"1", b"2"):
            desk.link_pool.send(1, frame)
        desk.link_pool.send(2, b"3")
        received = other.receive(timeout=0)
        sending = desk.link_pool.sending
        first = full.receive(timeout=0)
        desk.link_pool.resume()
        second = full.receive(timeout=0)
        still = desk.link_pool.sending
        desk.close()

        assert (first, second, received) == (b"1", b"2", b"3")
        assert (sending, still) == (True, False)

    under_some_schedules(program)


@clause("BUS-CHAN-8")
def test_a_peer_that_reads_is_served_while_another_link_stays_full() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        _full, other = desk.connected(2)
        for number in (1, 2):
            for frame in (b"1", b"2"):
                desk.link_pool.send(number, frame)
        first = other.receive(timeout=0)
        desk.link_pool.resume()
        pending = other.pending
        second = other.receive(timeout=0) if pending else None
        desk.close()

        assert (first, second) == (b"1", b"2")

    under_some_schedules(program)


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("capacity", [1, 2, 8])
def test_a_link_is_closed_after_all_frames_sent_on_it(capacity: int) -> None:
    def program(run: Run) -> None:
        desk = Desk(capacity=capacity)
        desk.open()
        [far] = desk.connected()
        reading = run.spawn(rest, far)
        for frame in (b"1", b"2", b"3"):
            desk.link_pool.send(1, frame)
        desk.link_pool.hang_up(1)
        desk.until(lambda: not desk.link_pool._closing)
        reading.join()
        desk.close()

        assert reading.result == [b"1", b"2", b"3"]
        assert not desk.link_pool._closing

    explore(program, bound=1, limit=300, random=100, seed=1)


@clause("BUS-CHAN-8")
def test_a_closing_link_is_dropped_if_the_peer_does_not_read() -> None:
    """After a timeout; until then it wakes no thread, and does not count as sending."""

    def program(run: Run) -> None:
        desk = Desk(capacity=1, timeout_s=2.0)
        desk.open()
        far, other = desk.connected(2)
        for frame in (b"1", b"2", b"3"):
            desk.link_pool.send(1, frame)
        before = desk.link_pool.sending
        desk.link_pool.hang_up(1)
        after = desk.link_pool.sending
        desk.link_pool.send(2, b"x")
        desk.link_pool.send(2, b"y")
        other_waits = desk.link_pool.sending
        assert other.receive() == b"x"
        desk.turn()
        assert other.receive() == b"y"
        began, desk.rounds = run.now, 0
        desk.until(lambda: not desk.link_pool._closing)
        took = run.now - began
        read = rest(far)
        desk.close()

        assert (before, after, other_waits) == (True, False, True)
        assert 1.9 < took < 2.1
        assert desk.rounds < 60
        assert read == [b"1"]
        assert (desk.came, desk.gave_up) == ([], [])

    explore(program, bound=0, limit=20, random=0, seed=1)


@clause("BUS-CHAN-8")
def test_a_peer_that_begins_to_read_is_served_soon_and_then_at_once() -> None:
    """The retries on a full link back off until the peer reads."""

    def program(run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        [far] = desk.connected()
        for frame in (b"1", b"2", b"3", b"4"):
            desk.link_pool.send(1, frame)
        began, desk.rounds = run.now, 0
        desk.until(lambda: run.now > began + 1)
        rounds = desk.rounds
        got, took = list[bytes](), list[float]()
        for _ in range(3):
            got.append(far.receive())
            began = run.now
            desk.until(lambda: far.pending)
            took.append(run.now - began)
        desk.close()

        assert rounds < 40
        assert got == [b"1", b"2", b"3"]
        assert took[0] < 0.051
        assert max(took[1:]) < 0.002

    explore(program, bound=0, limit=20, random=0, seed=1)


@pytest.mark.parametrize("capacity", [1, 8])
def test_frames_from_a_closed_link_are_not_reported(capacity: int) -> None:
    def program(run: Run) -> None:
        desk = Desk(capacity=capacity)
        desk.open()
        [far, other] = desk.connected(2)

        def speaks() -> None:
            try:
                far.send(b"x", timeout=0)
            except DisconnectedError:
                return
            far.disconnect()

        for _ in range(2):
            desk.link_pool.send(1, b"y")
        before = len(desk.came)
        desk.link_pool.hang_up(1)
        speaking = run.spawn(speaks)
        other.send(b"z")
        desk.until(lambda: desk.frames(2))
        speaking.join()
        desk.until(lambda: not desk.link_pool._closing)
        desk.turn()
        desk.close()

        assert before == 0
        assert desk.frames(1) == []
        assert not desk.link_pool._closing

    under_every_schedule(program, bound=1)


def test_the_loss_of_a_closed_link_is_not_reported() -> None:
    """Even while earlier frames still wait for room."""

    def program(_run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        [far] = desk.connected()
        for _ in range(3):
            desk.link_pool.send(1, b"x")
        desk.link_pool.hang_up(1)
        far.disconnect()
        desk.turn()
        sending = desk.link_pool.sending
        desk.close()
        assert desk.came == []
        assert not sending

    under_some_schedules(program)


@clause("BUS-CHAN-4")
def test_frames_sent_on_a_lost_link_are_discarded() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        [far] = desk.connected()
        far.disconnect()
        for _ in range(3):
            desk.link_pool.send(1, b"x")
        assert not desk.link_pool.sending
        desk.until(lambda: desk.came)
        desk.link_pool.send(1, b"x")
        desk.link_pool.hang_up(1)
        desk.close()
        assert desk.came == [(1, None)]

    under_some_schedules(program)


def test_frames_that_wait_for_room_are_discarded_with_their_link() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=1)
        desk.open()
        [far] = desk.connected()
        for _ in range(3):
            desk.link_pool.send(1, b"x")
        before = desk.link_pool.sending
        far.disconnect()
        desk.turn()
        after = desk.link_pool.sending
        desk.close()
        assert (before, after) == (True, False)

    under_some_schedules(program)


@clause("BUS-CHAN-8")
@pytest.mark.parametrize("frame", [b"x", bytes(400)], ids=["frames", "bytes"])
@pytest.mark.parametrize("waiting", [3, 4], ids=["fits", "too much"])
def test_too_much_that_waits_for_room_ends_the_link(frame: bytes, waiting: int) -> None:
    """As if it were lost; another link is not affected."""

    def program(_run: Run) -> None:
        desk = Desk(capacity=1, backlog=(3, 1_000_000 if len(frame) == 1 else 1200))
        desk.open()
        far, other = desk.connected(2)
        desk.link_pool.send(2, b"y")
        for _ in range(1 + waiting):
            desk.link_pool.send(1, frame)
        given_up = list(desk.gave_up)
        if given_up:
            desk.until(lambda: desk.came)
            desk.link_pool.send(1, frame)  # dropped
        else:
            assert far.receive() == frame
            desk.turn()
            desk.link_pool.send(1, frame)
            assert desk.gave_up == []
        sending, told = desk.link_pool.sending, list(desk.came)
        assert other.receive() == b"y"
        desk.close()
        assert given_up == ([1] if waiting > 3 else [])
        assert told == [(each, None) for each in given_up]
        assert sending == (not given_up)

    under_some_schedules(program)


@clause("BUS-CHAN-6")
@pytest.mark.parametrize("waits", [False, True])
def test_a_frame_that_a_link_never_takes_ends_that_link(*, waits: bool) -> None:
    """As if it were lost, even if it has waited for room; other links are served."""

    def program(_run: Run) -> None:
        desk = Desk(capacity=1, limit=FRAME_BYTES_MAX, backlog=(100, 2**22))
        desk.open()
        far, other = desk.connected(2)
        if waits:
            desk.link_pool.send(1, b"x")
            desk.link_pool.send(1, b"y")
        went = desk.link_pool.send(1, bytes(FRAME_BYTES_MAX + 1))
        if waits:
            assert far.receive() == b"x"
            desk.turn()
            assert far.receive() == b"y"
            desk.turn()
        desk.until(lambda: desk.came)
        desk.link_pool.send(2, b"z")
        sending = desk.link_pool.sending
        assert other.receive() == b"z"
        desk.close()

        assert not went
        assert desk.came == [(1, None)]
        assert desk.gave_up == [1]
        assert desk.words == [f"it cannot carry a frame of {FRAME_BYTES_MAX + 1} bytes"]
        assert not sending

    under_some_schedules(program)


@clause("BUS-CHAN-5")
def test_frames_sent_before_a_loss_are_reported_before_it() -> None:
    """BUS-CHAN-5: all frames, in order, and then the loss, once."""

    def program(run: Run) -> None:
        desk = Desk()
        desk.open()
        [far, other] = desk.connected(2)
        frames = [bytes([n]) for n in range(6)]

        def speaks() -> None:
            for frame in frames:
                far.send(frame)
            far.disconnect()

        run.spawn(speaks)
        desk.until(lambda: (1, None) in desk.came)
        other.disconnect()
        desk.until(lambda: (2, None) in desk.came)
        desk.close()
        assert desk.frames(1) == [*frames, None]
        assert desk.frames(2) == [None]

    under_every_schedule(program)


@clause("BUS-CHAN-5")
def test_a_link_known_as_lost_before_its_last_frame_is_examined_again() -> None:
    """No other event wakes the owner for that link."""
    poller, queue, numbers = Mock(), Mock(remote_disconnected=True), list[int]()
    queue.receive_many.side_effect = [ReceiveTimeoutError(0.0), [b"last"]]
    poller.take_ready.return_value = [1]

    def ask(request: Callable[[], object]) -> None:
        request()

    link_pool = LinkPool(
        Mock(),
        ask,
        capacity=1,
        timeout_s=1.0,
        poller=poller,
        refusal=lambda _: None,
        backlog=(1, 1),
        given_up=Mock(),
        turned_away=Mock(),
    )
    link_pool._hand_over(queue, numbers.append)

    for came in ([], [(1, b"last")]):
        poller.mark_ready.reset_mock()
        assert link_pool.take() == came
        poller.mark_ready.assert_called_once_with(1)


def test_many_frames_of_one_link_do_not_keep_others_waiting() -> None:
    def program(_run: Run) -> None:
        desk = Desk(capacity=1_000)
        desk.open()
        busy, other = desk.connected(2)
        for _ in range(600):
            busy.send(b"x")
        other.send(b"y")
        desk.turn()
        told = len(desk.frames(1)), len(desk.frames(2))
        desk.close()
        assert told == (256, 1)

    explore(program, bound=0, limit=1, random=0)


# Shutdown.


def test_close_accepts_no_peer_and_leaves_no_thread() -> None:
    """Even while links are being made; a peer accepted last sees its link closed."""

    def program(run: Run) -> None:
        desk = Desk()
        desk.open()
        outcomes: list[MessageQueue] = []

        def comes() -> None:
            with suppress(BrokerClosedError):
                queue = desk.there.connect("here", PORT)
                if queue is not None:
                    outcomes.append(queue)

        coming = run.spawn(comes)
        desk.link_pool.dial(["there"], desk.made.append)
        desk.link_pool.close()
        helpers = [each for each in desk.link_pool._helpers if each.is_alive()]
        desk.turn()
        coming.join()
        desk.there.close()

        assert helpers == []
        assert desk.made in ([], [None])  # if the dial failed just before the close
        for queue in outcomes:
            with queue:
                assert queue.remote_disconnected

    explore(program, bound=2, limit=1_500, random=200, seed=1)


def test_frames_that_are_on_the_way_when_all_is_closed_arrive() -> None:
    def program(_run: Run) -> None:
        desk = Desk()
        desk.open()
        far = desk.connected(2)
        for number in (1, 2):
            desk.link_pool.send(number, bytes([number]))
        desk.link_pool.close()
        assert [rest(each) for each in far] == [[b"\1"], [b"\2"]]
        desk.close()

    under_some_schedules(program)


def test_after_the_end_nothing_is_made() -> None:
    def program(run: Run) -> None:
        desk = Desk()
        desk.open()
        desk.close()
        late = QueueBroker("late", manager=desk.manager)
        desk.link_pool.accept_links(late, desk.made.append)
        desk.link_pool.dial(["there"], desk.made.append)
        run.settle()
        assert late.closed
        assert desk.made == []
        assert not any(each.is_alive() for each in desk.link_pool._helpers)

    under_some_schedules(program)
