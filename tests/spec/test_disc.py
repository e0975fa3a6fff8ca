"""QB-DISC: methods after a disconnect, freed memory, and concurrent disconnects."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedError, Status
from specs.clauses import clause
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue

ON_A_QUEUE: dict[str, Callable[[MessageQueue], object]] = {
    "send": lambda end: end.send(b"m"),
    "send nothing": lambda end: end.send(b""),
    "send_nowait": lambda end: end.send_nowait(b"m"),
    "send_many": lambda end: end.send_many([b"m"]),
    "receive": lambda end: end.receive(),
    "receive_nowait": lambda end: end.receive_nowait(),
    "receive_into": lambda end: end.receive_into(bytearray(9)),
    "receive_many": lambda end: end.receive_many(),
}
ON_A_CHANNEL: dict[str, Callable[[Channel], object]] = {
    "write": lambda end: end.write(b"m"),
    "write nothing": lambda end: end.write(b""),
    "write_all": lambda end: end.write_all(b"m"),
    "read": lambda end: end.read(bytearray(1)),
    "read nothing": lambda end: end.read(bytearray()),
    "read_exactly": lambda end: end.read_exactly(1),
}


@clause("QB-DISC-3")
@pytest.mark.parametrize("method", ON_A_QUEUE)
def test_after_disconnect_every_method_of_a_queue_raises(method: str) -> None:
    """Every send and receive raises, even with unread messages."""
    with queue_pair(2) as (left, right):
        right.send(b"unread")
        left.disconnect()

        for _ in range(2):
            with pytest.raises(DisconnectedError) as caught:
                ON_A_QUEUE[method](left)
            assert caught.value.side == "local"


@clause("QB-DISC-3")
@pytest.mark.parametrize("method", ON_A_CHANNEL)
def test_after_disconnect_every_method_of_a_channel_raises(method: str) -> None:
    """Every read and write raises, even with unread bytes."""
    with channel_pair(2) as (left, right):
        right.write(b"u")
        left.disconnect()

        for _ in range(2):
            with pytest.raises(DisconnectedError) as caught:
                ON_A_CHANNEL[method](left)
            assert caught.value.side == "local"


@clause("QB-DISC-3")
def test_after_disconnect_the_state_can_still_be_asked_for() -> None:
    """Only queries and a repeated disconnect still work."""
    with queue_pair(2) as (left, right):
        right.send(b"unread")
        left.disconnect()

        left.disconnect()
        left.close()
        assert left.disconnected()
        assert left.closed
        assert left.status is Status.DISCONNECTED
        assert not left.remote_disconnected
        assert left.pending == 0
        assert left.capacity == 2
        assert (left.local_name, left.remote_name, left.port) == ("a", "b", 7)
        assert left.stats().received == 0
        assert "disconnected" in repr(left)
        assert list(left) == []


@clause("QB-DISC-11")
def test_a_local_disconnect_frees_the_unread_messages() -> None:
    """Messages that the end has not received are discarded; their memory is freed."""
    messages = [b"unread %d" % number for number in range(3)]
    with queue_pair(3) as (left, right):
        before = [sys.getrefcount(message) for message in messages]
        left.send_many(messages)
        held = [sys.getrefcount(message) for message in messages]
        assert held == [count + 1 for count in before], "the buffer holds what was sent"

        right.disconnect()

        assert [sys.getrefcount(message) for message in messages] == before
        assert left.stats().discarded == 3


@clause("QB-DISC-13")
@pytest.mark.parametrize(
    ("unread", "left_closes", "right_closes"),
    [(u, a, b) for u in (0, 1) for a in (False, True) for b in (False, True)],
)
def test_the_peers_disconnect_shows_in_every_state(
    unread: int, left_closes: bool, right_closes: bool
) -> None:
    """`remote_disconnected` is true exactly when the peer has disconnected."""
    with queue_pair() as (left, right):
        right.send_many([b"u"] * unread)
        if right_closes:
            right.disconnect()
        if left_closes:
            left.disconnect()

        assert left.remote_disconnected == right_closes
        assert right.remote_disconnected == left_closes


@clause("QB-DISC-10")
def test_ten_threads_disconnect_one_end_and_the_first_reason_stays() -> None:
    """Repeated disconnects, from any number of threads, do nothing."""
    faults = [RuntimeError(f"fault {number}") for number in range(10)]
    with queue_pair() as (left, right), Threads() as threads:
        barrier = threading.Barrier(len(faults))

        def hang_up(fault: RuntimeError) -> BaseException | None:
            barrier.wait()
            left.disconnect(fault)
            return left._connection.cause(0)

        seen = {id(one.result()) for one in [threads.start(hang_up, f) for f in faults]}
        assert len(seen) == 1, "the reason changed after a disconnect had returned"
        with pytest.raises(DisconnectedError) as caught:
            right.receive()
        assert id(caught.value.__cause__) in seen


@pytest.mark.deep
@clause("QB-DISC-1")
@pytest.mark.usefixtures("eager_switching")
def test_a_watcher_never_sees_the_status_of_an_end_move_back() -> None:
    """Read without a lock while other threads use it, the status only moves forward."""
    order = list(Status)
    for number in range(60):
        with queue_pair(2) as (left, right), Threads() as threads:
            over = threading.Event()

            def watch(
                end: MessageQueue, over: threading.Event = over
            ) -> list[tuple[Status, bool]]:
                samples = []
                while not over.is_set():
                    samples.append((end.status, end.remote_disconnected))
                return samples

            def drain(end: MessageQueue) -> int:
                return sum(1 for _ in end)

            watchers = [threads.start(watch, end) for end in (left, right)]
            drains = [threads.start(drain, end) for end in (left, right)]
            try:
                for _ in range(number % 4):
                    left.send(b"m")
                    right.send(b"m")
                (left if number % 2 else right).disconnect()
                for one in drains:
                    one.join()
                until(lambda: left.closed and right.closed, "both are disconnected")
            finally:
                over.set()  # else they would keep sampling, and fill the memory

            for watcher in watchers:
                samples = watcher.result()
                states = [order.index(status) for status, _ in samples]
                assert states == sorted(states)
                flags = [flag for _, flag in samples]
                assert flags == sorted(flags)
