"""`FairQueue`: the order of each peer, a bound for each, and all peers in turn."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.pattern.fair_queue import FairQueue
from bus.pattern.message_run import MessageRun
from specs.clauses import clause

ORIGIN = 7


def run_of(first: int, *sizes: int) -> MessageRun:
    """Return messages of so many bytes; each byte is the number of its message."""
    bodies = [bytes([first + at]) * size for at, size in enumerate(sizes)]
    return MessageRun(ORIGIN, first, bodies)


def filled(queue: FairQueue[str], **messages: int) -> FairQueue[str]:
    """Offer each peer so many messages of 1 byte, one by one; return the queue."""
    for peer, count in messages.items():
        for number in range(count):
            queue.offer(peer, run_of(number, 1))
    return queue


def emptied(queue: FairQueue[str], most: int = 1) -> list[tuple[str, int]]:
    """Take all messages; return the peer and the number of each."""
    taken = []
    while queue:
        peer, run = queue.take(most)
        taken += [(peer, run.first + at) for at in range(len(run.bodies))]
    return taken


@clause("BP-18")
def test_peers_are_served_in_turn() -> None:
    queue = filled(FairQueue[str](9, 99), a=3, b=1, c=2)
    assert queue.peers == 3

    assert emptied(queue) == [
        ("a", 0),
        ("b", 0),
        ("c", 0),
        ("a", 1),
        ("c", 1),
        ("a", 2),
    ]
    assert queue.peers == 0


@clause("BP-6", "BP-18")
def test_a_peer_that_floods_costs_another_one_no_message() -> None:
    queue = FairQueue[str](4, 99)
    assert [queue.offer("flood", run_of(at, 1)) for at in range(10)] == [1] * 4 + [
        0
    ] * 6

    assert queue.offer("other", run_of(0, 1)) == 1
    assert [queue.take()[0], queue.take()[0]] == ["flood", "other"]


@clause("BP-6")
@pytest.mark.parametrize("together", [True, False])
def test_a_full_queue_keeps_the_oldest_messages(*, together: bool) -> None:
    queue = FairQueue[str](16, 999)

    if together:
        assert queue.offer("a", run_of(0, *[1] * 100)) == 16
    else:
        filled(queue, a=100)

    assert len(queue) == 16
    assert emptied(queue) == [("a", number) for number in range(16)]


@clause("BP-6", "BP-18")
def test_the_bytes_of_a_peer_are_bounded() -> None:
    queue = FairQueue[str](99, 10)

    assert queue.offer("a", run_of(0, 4, 4, 4)) == 2
    assert queue.offer("a", run_of(3, 2)) == 1  # exactly full
    assert queue.offer("a", run_of(4, 1)) == 0
    assert queue.offer("b", run_of(0, 10)) == 1

    queue.take()
    assert queue.offer("a", run_of(5, 4)) == 1
    assert queue.offer("a", run_of(6, 1)) == 0


@clause("BP-6")
def test_one_message_always_fits() -> None:
    queue = FairQueue[str](1, 10)

    assert queue.offer("a", run_of(0, 1_000, 0)) == 1
    assert queue.offer("a", run_of(1, 0)) == 0
    assert queue.take()[1] == run_of(0, 1_000)
    assert queue.offer("a", run_of(2, 1_000)) == 1


@clause("BP-6")
def test_messages_that_are_forced_need_no_room() -> None:
    """A socket that blocks has read them already."""
    queue = filled(FairQueue[str](2, 10), a=2)
    assert queue.offer("a", run_of(2, 1)) == 0

    assert queue.offer("a", run_of(3, 50, 1), forced=True) == 2

    assert emptied(queue) == [("a", 0), ("a", 1), ("a", 3), ("a", 4)]
    assert len(filled(queue, a=3)) == 2  # the bytes from before do not count any more


@clause("BP-6")
def test_a_peer_has_room_until_its_messages_or_its_bytes_are_at_their_bound() -> None:
    queue = FairQueue[str](3, 10)
    assert not queue.is_full("a")

    queue.offer("a", run_of(0, 9))
    assert not queue.is_full("a")
    queue.offer("a", run_of(1, 1))
    assert queue.is_full("a")
    assert not queue.is_full("b")
    queue.take()
    assert not queue.is_full("a")

    filled(queue, b=3)
    assert queue.is_full("b")


@clause("BP-20")
def test_messages_without_bytes_are_counted() -> None:
    queue = FairQueue[str](2, 10)

    assert [queue.offer("a", run_of(at, 0)) for at in range(3)] == [1, 1, 0]


@clause("BP-19")
def test_consecutive_messages_are_taken_together() -> None:
    queue = FairQueue[str](9, 99)
    queue.offer("a", run_of(0, 1, 2, 0, 3))
    queue.offer("b", run_of(5, 1))

    assert queue.take(3) == ("a", run_of(0, 1, 2, 0))
    assert len(queue) == 2
    assert queue.take(3) == ("b", run_of(5, 1))
    queue.offer("a", run_of(4, 1))
    assert queue.take(3) == ("a", run_of(3, 3))  # of one run only
    assert queue.take_bodies(3) == ("a", [bytes([4])])


@clause("BP-18", "BP-19")
def test_the_bodies_of_several_runs_are_taken_together() -> None:
    queue = FairQueue[str](9, 99)
    queue.offer("a", run_of(0, 1, 1))
    queue.offer("b", run_of(9, 1))
    queue.offer("a", run_of(2, 1, 1))

    assert queue.take_bodies(3) == ("a", [b"\0", b"\1", b"\2"])
    assert queue.take_bodies(3) == ("b", [b"\x09"])
    assert queue.take_bodies(3) == ("a", [b"\3"])
    assert not queue


def test_nothing_is_taken_from_an_empty_queue() -> None:
    queue = FairQueue[str](1, 10)

    assert not queue
    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.take()
    with pytest.raises(IndexError):
        queue.take_bodies(1)


@clause("BP-4")
def test_the_messages_that_are_cleared_are_counted_by_peer() -> None:
    queue = filled(FairQueue[str](9, 99), a=3, b=1)
    queue.take()

    assert queue.clear() == {"a": 2, "b": 1}
    assert not queue
    assert len(queue) == 0
    assert queue.clear() == {}
    assert emptied(filled(queue, b=1, a=1)) == [("b", 0), ("a", 0)]


STEPS = st.one_of(
    st.integers(1, 4),
    st.tuples(
        st.sampled_from("abc"), st.lists(st.integers(0, 6), min_size=1, max_size=4)
    ),
)


@given(steps=st.lists(STEPS, max_size=60), forced=st.booleans())
@clause("BP-6", "BP-18", "BP-19")
def test_the_queue_behaves_as_its_model(
    steps: list[int | tuple[str, list[int]]], *, forced: bool
) -> None:
    """A number takes so many bodies; a pair offers messages of so many bytes each.

    Of messages that are offered together, those from the first without room on are
    refused.
    """
    queue = FairQueue[str](3, 10)
    waiting: dict[str, deque[bytes]] = {each: deque() for each in "abc"}
    turns: list[str] = []
    first = 0
    for step in steps:
        if isinstance(step, int):
            if not turns:
                assert not queue
                continue
            peer = turns.pop(0)
            own = waiting[peer]
            expected = [own.popleft() for _ in range(min(step, len(own)))]
            assert queue.take_bodies(step) == (peer, expected)
            if own:
                turns.append(peer)
        else:
            peer, sizes = step
            own = waiting[peer]
            run = run_of(first % 200, *sizes)
            first += len(sizes)
            fitting = 0
            for body in run.bodies:
                total = len(body) + sum(map(len, own))
                if not forced and own and (len(own) >= 3 or total > 10):
                    break
                own.append(body)
                fitting += 1
            assert queue.offer(peer, run, forced=forced) == fitting
            if own and peer not in turns:
                turns.append(peer)
        assert len(queue) == sum(map(len, waiting.values()))
        assert queue.peers == len(turns)
        for each, own in waiting.items():
            full = len(own) >= 3 or sum(map(len, own)) >= 10
            assert queue.is_full(each) is full


def test_a_queue_counts_its_messages_again_after_an_exception() -> None:
    queue: FairQueue[str] = FairQueue(9, 99)
    queue.offer("a", MessageRun(1, 1, [b"1"]))
    queue._shares["a"].count = 5  # as an interrupt within a call leaves it
    queue.repair()
    assert queue.take() == ("a", MessageRun(1, 1, [b"1"]))
    assert not queue
