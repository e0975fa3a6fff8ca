"""QB-BOOK-1: the counters balance."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedQueueError, Stats
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads
from tests.traffic import tried

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue
    from queuebroker.testing import Run


def balances(sender: Stats, receiver: Stats) -> bool:
    """Return whether the counters of one direction balance."""
    return sender.sent == receiver.received + sender.dropped + receiver.pending


def counters(
    sent: int = 0,
    received: int = 0,
    half: int = 0,
    discarded: int = 0,
    pending: int = 0,
) -> Stats:
    """Return the counters that an end must have."""
    return Stats(sent, received, half, discarded, 0, pending)


@clause("QB-BOOK-1")
def test_the_counters_record_every_message_once_by_its_outcome() -> None:
    """Each is sent, received, pending, dropped or discarded unread; or not counted."""
    with queue_pair(3) as (left, right):
        assert (left.stats(), right.stats()) == (counters(), counters())
        left.send_many([b"1", b"2", b"3"])
        right.send(b"4")
        with pytest.raises(TimeoutError):
            left.send(b"full", timeout=0)
        assert left.stats() == counters(sent=3, pending=1)
        assert right.stats() == counters(sent=1, pending=3)

        right.receive()
        assert right.stats() == counters(sent=1, received=1, pending=2)

        right.disconnect()
        left.send(b"into the void")
        left.send_many([b"and", b"again"])
        assert left.stats() == counters(sent=6, half=3, discarded=2, pending=1)
        assert right.stats() == counters(sent=1, received=1)

        left.receive()
        with pytest.raises(DisconnectedQueueError):
            left.send(b"refused")
        assert left.stats() == counters(sent=6, received=1, half=3, discarded=2)
        assert left.stats().dropped == 5
        assert balances(left.stats(), right.stats())
        assert balances(right.stats(), left.stats())


@clause("QB-BOOK-1")
def test_a_channel_counters_bytes() -> None:
    """The same, with bytes instead of messages."""
    with channel_pair(5) as (left, right):
        assert left.write(b"1234567") == 5
        right.write(b"ab")
        right.read_exactly(2)
        assert left.stats() == counters(sent=5, pending=2)
        assert right.stats() == counters(sent=2, received=2, pending=3)

        right.disconnect()
        assert left.write(b"void") == 4
        assert left.stats() == counters(sent=9, half=4, discarded=3, pending=2)
        left.disconnect()

        assert right.stats() == counters(sent=2, received=2, discarded=2)
        assert balances(left.stats(), right.stats())
        assert balances(right.stats(), left.stats())


@clause("QB-BOOK-1")
def test_no_count_is_lost_by_many_threads() -> None:
    """Per-thread counts add up, whichever end disconnects."""
    total = 3000
    with queue_pair(4) as (left, right), Threads() as threads:

        def send_all(end: MessageQueue) -> int:
            return sum(_returned(end.send, b"x") for _ in range(total))

        def receive_all(end: MessageQueue, most: int) -> int:
            return sum(1 for _ in itertools.islice(end, most))

        senders = [threads.start(send_all, left) for _ in range(3)]
        back = [threads.start(send_all, right) for _ in range(2)]
        receivers = [threads.start(receive_all, right, total) for _ in range(2)]
        readers = [threads.start(receive_all, left, total) for _ in range(2)]
        received = sum(each.result() for each in receivers)
        right.disconnect()
        sent = sum(each.result() for each in senders)
        sent_back = sum(each.result() for each in back)
        received_back = sum(each.result() for each in readers)

        mine, theirs = left.stats(), right.stats()
        assert (mine.sent, mine.received) == (sent, received_back)
        assert (theirs.sent, theirs.received) == (sent_back, received)
        assert received == 2 * total
        assert balances(mine, theirs)
        assert balances(theirs, mine)


def _returned(call: Callable[..., object], *args: object) -> bool:
    try:
        call(*args)
    except DisconnectedQueueError:
        return False
    return True


@clause("QB-BOOK-1")
@pytest.mark.parametrize("hangs_up", [0, 1])
def test_the_counters_are_right_in_every_schedule(hangs_up: int) -> None:
    """During calls they are within bounds, and exact once all is quiet."""

    def program(run: Run) -> None:
        with queue_pair(1) as ends:
            left, right = ends
            sent: list[bool] = []
            received: list[bool] = []

            def send() -> None:
                sent.append(_returned(left.send, b"x"))

            def receive() -> None:
                received.append(_returned(right.receive))

            def watch() -> None:
                before, there, after = left.stats(), right.stats(), left.stats()
                seen = there.received + there.pending
                assert before.sent <= seen + after.dropped
                assert seen + before.dropped <= after.sent

            for task in (send, send, receive, watch, ends[hangs_up].disconnect):
                run.spawn(task)
            run.join()
            mine, theirs = left.stats(), right.stats()
            assert mine.sent == sum(sent)
            assert theirs.received == sum(received)
            assert balances(mine, theirs)

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(300))


@clause("QB-BOOK-1")
def test_a_random_life_balances_at_every_step() -> None:
    """After each random operation on either end, both directions balance."""
    rng = random.Random(7)
    for _ in range(30):
        with queue_pair(2) as ends:
            for _ in range(25):
                end = ends[rng.randrange(2)]
                act = rng.choice(["send", "many", "receive", "receive", "go"])
                if act == "go" and rng.random() < 0.3:
                    end.disconnect()
                elif act == "send":
                    tried(end.send_nowait, b"x")
                elif act == "many":
                    tried(lambda end=end: end.send_many([b"x"] * 3, timeout=0))
                else:
                    tried(end.receive_nowait)
                assert balances(ends[0].stats(), ends[1].stats())
                assert balances(ends[1].stats(), ends[0].stats())
