"""QB-FIFO: order and loss among many real threads, verified by the counters."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker import DisconnectedQueueError, MessageQueue
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import among, schedules
from tests.pairs import queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from queuebroker.testing import Run

MESSAGES = 20_000
EACH = 1_500

pytestmark = pytest.mark.usefixtures("eager_switching")


@pytest.mark.deep
@clause("QB-FIFO-1")
@pytest.mark.parametrize("capacity", [1, 7, 1000])
def test_a_long_stream_arrives_in_its_order(capacity: int) -> None:
    """One sender, one receiver: every message arrives in the order sent."""
    with queue_pair(capacity) as (left, right), Threads() as threads:
        received = threads.start(list[bytes], right)
        for number in range(MESSAGES):
            left.send(number.to_bytes(4))
        left.disconnect()

        numbers = [int.from_bytes(message) for message in received.result()]
    assert numbers == list(range(MESSAGES))


@clause("QB-FIFO-1", "QB-FIFO-3", "QB-FIFO-4")
def test_crowds_on_both_ends_lose_nothing_and_keep_each_senders_order() -> None:
    """Three senders and receivers on each end: the same multiset, in each's order."""
    with queue_pair(3) as ends, Threads() as threads:
        start = threading.Barrier(12)

        def send(end: MessageQueue, sender: int) -> None:
            start.wait()
            for number in range(EACH):
                end.send(b"%d:%d" % (sender, number))

        def receive(end: MessageQueue) -> list[tuple[int, int]]:
            start.wait()
            got = []
            for message in end:
                sender, number = message.split(b":")
                got.append((int(sender), int(number)))
            return got

        receivers = [[threads.start(receive, end) for _ in range(3)] for end in ends]
        senders = [
            [threads.start(send, end, number) for number in range(3)] for end in ends
        ]
        for side, end in enumerate(ends):
            for sender in senders[side]:
                sender.result()
            peer = ends[1 - side]
            until(lambda peer=peer: not peer.pending, "all was received")  # type: ignore[misc] # a default binds a lambda to the loop's value
            assert end.stats().dropped == 0
        ends[0].disconnect()

        for side in (0, 1):
            taken = [one.result() for one in receivers[side]]
            everything = Counter(one for part in taken for one in part)
            assert everything == Counter(
                (name, number) for name in range(3) for number in range(EACH)
            )
            for part in taken:
                for name in range(3):
                    numbers = [number for who, number in part if who == name]
                    assert numbers == sorted(numbers)


@clause("QB-FIFO-5")
def test_two_connections_of_the_same_brokers_do_not_mix() -> None:
    """Interleaved traffic on two queues: each carries its own."""
    with queue_pair(2) as one, queue_pair(2) as other, Threads() as threads:
        for name, (left, right) in (("one", one), ("other", other)):

            def stream(
                left: MessageQueue = left, name: str = name, right: MessageQueue = right
            ) -> None:
                receiving = threads.start(list[bytes], right)
                for number in range(EACH):
                    left.send(f"{name} {number}".encode())
                left.disconnect()
                expected = [f"{name} {number}".encode() for number in range(EACH)]
                assert receiving.result() == expected

            threads.start(stream)


PARTS = st.lists(st.sampled_from(["send", "receive", "goodbye"]), max_size=4)


@clause("QB-FIFO-6")
@settings(max_examples=among(10, 40))
@given(left_does=PARTS, right_does=PARTS, seed=st.integers(0, 999))
def test_an_end_receives_a_prefix_wherever_either_side_disconnects(
    left_does: list[str], right_does: list[str], seed: int
) -> None:
    """Complete unless the receiver itself disconnects; for random programs."""

    def program(run: Run) -> None:
        with queue_pair(2) as ends:
            accepted: list[list[bytes]] = [[], []]
            received: list[list[bytes]] = [[], []]

            def perform(side: int, steps: list[str]) -> None:
                for number, step in enumerate(steps):
                    try:
                        _perform(
                            ends[side], step, number, received[side], accepted[side]
                        )
                    except DisconnectedQueueError:
                        return

            run.spawn(perform, 0, left_does)
            run.spawn(perform, 1, right_does)
            run.settle()
            listener = next(
                (side for side in (0, 1) if not ends[side]._connection.closed[side]),
                None,
            )
            if listener is not None:
                ends[1 - listener].disconnect()
                received[listener] += list(ends[listener])
                assert received[listener] == accepted[1 - listener], "incomplete"
            run.join()
            for side in (0, 1):
                sent, got = accepted[1 - side], received[side]
                assert got == sent[: len(got)]

    explore(program, bound=0, random=10, seed=seed, limit=schedules(100))


def _perform(
    end: MessageQueue,
    step: str,
    number: int,
    received: list[bytes],
    accepted: list[bytes],
) -> None:
    if step == "send":
        dropped = end.stats().half_disconnected
        end.send(b"%d" % number)
        if end.stats().half_disconnected == dropped:
            accepted.append(b"%d" % number)
    elif step == "receive":
        received.append(end.receive())
    else:
        end.disconnect()
