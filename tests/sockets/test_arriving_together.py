"""Messages that arrived together: received without steps that none of them needs."""

from __future__ import annotations

import itertools
import selectors
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import DisconnectedQueueError, ReceiveTimeoutError
from queuebroker.sockets import SocketMessageQueue
from specs.clauses import clause
from tests.sockets.support import Exhausted, ends, numbered, take
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

Ends = tuple[SocketMessageQueue, SocketMessageQueue]


@pytest.fixture
def pair() -> Iterator[Ends]:
    with ends(host={"capacity": 64}) as made:
        yield made


def arrive(far: SocketMessageQueue, near: SocketMessageQueue, count: int) -> None:
    """Send messages; they have arrived, and the first was received."""
    near.send_many(numbered(count + 1))
    assert near.ping(LIMIT_S)
    assert far.receive(timeout=0) == b"0"


@clause("QB-BOOK-5")
def test_a_descriptor_made_between_two_messages_shows_the_last() -> None:
    with ends() as (far, near), selectors.DefaultSelector() as selector:
        arrive(far, near, 3)
        far.receive(timeout=0)
        selector.register(far, selectors.EVENT_READ)
        assert selector.select(0)
        take(far, 2)
        assert not selector.select(0)


@clause("QB-DISC-11", "QB-DISC-12")
def test_an_end_that_closes_between_two_messages_discards_the_others(
    pair: Ends,
) -> None:
    far, near = pair
    arrive(far, near, 5)
    far.receive(timeout=0)
    far.disconnect()
    with pytest.raises(DisconnectedQueueError):
        far.receive(timeout=0)
    assert far.stats().received == 2


@clause("QB-DISC-2")
def test_a_peer_that_closes_between_two_messages_is_noticed_after_the_last(
    pair: Ends,
) -> None:
    far, near = pair
    arrive(far, near, 5)
    far.receive(timeout=0)
    near.disconnect()
    assert take(far, 4) == numbered(4, 2)
    with pytest.raises(DisconnectedQueueError):
        far.receive(timeout=LIMIT_S)
    until(lambda: near._socket_connection.link.closed, "no good-bye came")


@clause("QB-SOCK-3")
@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 5, 8])
def test_credit_returns_while_messages_are_received(
    capacity: int,
) -> None:
    """The sender never waits for longer than its peer takes to receive."""
    with ends(host={"capacity": capacity}) as (far, near):
        for first in range(0, 5 * capacity, capacity):
            for message in numbered(capacity, first):
                near.send(message, timeout=LIMIT_S)
            assert near.ping(LIMIT_S)
            assert take(far, capacity) == numbered(capacity, first)
            assert far.ping(LIMIT_S)
        protocol = far._socket_connection.link.protocol
        assert protocol.owed == protocol.taken < max(1, capacity / 2)


@clause("QB-BULK-1")
def test_single_and_bulk_receives_take_turns(pair: Ends) -> None:
    far, near = pair
    arrive(far, near, 9)
    assert far.receive() == b"1"
    assert far.receive_many(2) == [b"2", b"3"]
    assert take(far, 2) == [b"4", b"5"]
    assert far.receive_many() == numbered(4, 6)
    with pytest.raises(ReceiveTimeoutError):
        far.receive(timeout=0)


@clause("QB-CONC-10")
def test_a_signal_handler_receives_nothing_twice(pair: Ends) -> None:
    """It is refused while its thread is within a receive."""
    far, near = pair
    arrive(far, near, 5)
    nested: list[object] = []

    class Handling(deque[Any]):
        def __iter__(self) -> Iterator[Any]:
            with pytest.raises(RuntimeError):
                nested.append(far.receive(timeout=0))
            return super().__iter__()

    inbox = far._socket_connection.inbox
    inbox._messages = Handling(inbox._messages)
    assert far.receive_many() == numbered(5, 1)
    assert not nested


@clause("QB-CONC-6")
def test_each_of_several_receivers_gets_its_message(pair: Ends) -> None:
    far, near = pair
    with Threads() as threads:
        waiting = [threads.start(take, far, 10) for _ in range(3)]
        for message in numbered(30):
            near.send(message)
        received = [each.result() for each in waiting]
    assert sorted(itertools.chain(*received), key=int) == numbered(30)


@clause("QB-CONC-10")
def test_a_receive_within_another_call_of_its_thread_is_refused(pair: Ends) -> None:
    far, near = pair
    arrive(far, near, 1)
    with far._connection.lock, pytest.raises(RuntimeError):
        far.receive()
    assert far.receive(timeout=LIMIT_S) == b"1"


@clause("QB-ERR-10")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("counter", ["taken", "_pulled"])
def test_a_receive_without_memory_takes_nothing(
    pair: Ends, first: bool, counter: str
) -> None:
    far, near = pair
    near.send_many(numbered(3))
    assert near.ping(LIMIT_S)
    taken = 0 if first else 1
    assert take(far, taken) == numbered(taken)
    connection = far._socket_connection
    protocol = connection.link.protocol
    counts = protocol if counter == "taken" else connection.inbox
    setattr(counts, counter, Exhausted(getattr(counts, counter)))
    with pytest.raises(MemoryError):
        far.receive(timeout=0)
    setattr(counts, counter, int(getattr(counts, counter)))
    assert take(far, 3 - taken) == numbered(3 - taken, taken)
    assert protocol.taken == far.stats().received == 3
