"""QB-PY: Python protocols of ends, brokers and managers."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    DisconnectedQueueError,
    QueueBroker,
    java,
)
from specs.clauses import clause
from tests.meetings import accepts_wait, channels, queues
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from queuebroker import MessageQueue


@clause("QB-PY-1")
@pytest.mark.parametrize("raises", [False, True])
def test_leaving_a_block_closes_and_swallows_nothing(raises: bool) -> None:
    """Tested for queue, channel, both brokers and manager, also on an exception."""
    manager = BrokerManager()
    with queue_pair() as (queue, _), channel_pair() as (channel, _):
        for resource in (
            queue,
            channel,
            Broker("b", manager=manager),
            QueueBroker("q", manager=manager),
            manager,
        ):
            with ExitStack() as expected:
                if raises:
                    expected.enter_context(pytest.raises(ZeroDivisionError))
                with resource as entered:
                    assert entered is resource
                    assert not resource.closed
                    if raises:
                        raise ZeroDivisionError
            assert resource.closed


@clause("QB-PY-2")
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_loop_over_an_end_gives_its_messages_and_stops(count: int) -> None:
    """It stops once either side has disconnected; empty messages are yielded too."""
    messages = [b"", b"1", b"22", b"", b"3"][:count]
    with queues() as (left, right):
        right.send_many(messages)
        right.disconnect()

        assert list(left) == messages
        assert list(left) == []
        assert list(right) == []


@clause("QB-PY-2")
def test_a_loop_that_waits_stops_when_its_own_end_is_disconnected() -> None:
    """Another thread disconnects the end in an orderly way."""
    with queues() as (left, right), Threads() as threads:
        loop = threads.start(list, left)
        right.send(b"x")
        until(lambda: left.stats().received == 1, "nothing is received")

        left.disconnect()

        assert loop.result() == [b"x"]


@clause("QB-PY-2")
@pytest.mark.parametrize("side", ["local", "remote"])
def test_an_abnormal_disconnect_is_raised_by_the_loop(side: str) -> None:
    """The messages before it are yielded first; the exception has its cause."""
    cause = OSError("disk full")
    received: list[bytes] = []
    with queues() as (left, right):
        if side == "remote":
            right.send(b"1")
            right.disconnect(error=cause)
        else:
            left.disconnect(error=cause)

        with pytest.raises(DisconnectedQueueError) as caught:
            _listen(left, received)

    assert received == [b"1"] * (side == "remote")
    assert caught.value.__cause__ is cause
    assert caught.value.side == side


def _listen(end: MessageQueue, received: list[bytes]) -> None:
    """Iterate over an end; keep its messages even if the loop raises."""
    for message in end:
        received += [message]


@clause("QB-PY-2")
def test_two_threads_that_loop_over_one_end_share_its_messages() -> None:
    """None is lost or repeated, and each thread gets its messages in order."""
    total = 2000
    with queues(capacity=8) as (left, right), Threads() as threads:
        loops = [threads.start(list, left) for _ in range(2)]
        for number in range(total):
            right.send(b"%05d" % number)
        right.disconnect()
        parts = [loop.result() for loop in loops]

    assert all(part == sorted(part) for part in parts)
    assert sorted(itertools.chain(*parts)) == [b"%05d" % n for n in range(total)]


@clause("QB-PY-5")
def test_the_two_ends_mirror_each_other() -> None:
    """Names are crossed, port and capacity equal; each end counts its own pending."""
    with queues(capacity=5) as (left, right), channels(capacity=7) as (near, far):
        ends: list[tuple[Any, Any, int]] = [(left, right, 5), (near, far, 7)]
        for one, other, capacity in ends:
            assert (one.local_name, one.remote_name) == ("server", "client")
            assert (other.local_name, other.remote_name) == ("client", "server")
            assert (one.port, other.port) == (1, 1)
            assert (one.capacity, other.capacity) == (capacity, capacity)
        left.send(b"abc")
        near.write(b"abc")

        assert [left.pending, right.pending] == [0, 1]
        assert [near.pending, far.pending] == [0, 3]
        right.receive()
        far.read_exactly(2)
        assert [right.pending, far.pending] == [0, 1]


@clause("QB-PY-5")
@pytest.mark.parametrize(
    "name",
    [
        "local_name",
        "remote_name",
        "port",
        "capacity",
        "pending",
        "closed",
        "status",
        "remote_disconnected",
    ],
)
def test_the_attributes_of_an_end_are_read_only(name: str) -> None:
    """Setting or deleting an attribute raises AttributeError; none can be added."""
    with queue_pair() as (queue, _), channel_pair() as (channel, _):
        for end in (queue, channel):
            with pytest.raises(AttributeError):
                setattr(end, name, 1)
            with pytest.raises(AttributeError):
                delattr(end, name)
            with pytest.raises(AttributeError):
                end.anything_else = 1  # type: ignore[union-attr]  # under test


@clause("QB-PY-9")
@pytest.mark.parametrize("face", [Broker, QueueBroker])
def test_accept_iter_gives_ends_until_the_broker_closes(
    face: type[Broker | QueueBroker],
) -> None:
    """The close ends the loop without an exception, even if it came earlier."""
    with BrokerManager() as manager, Threads() as threads:
        b, a = face("b", manager=manager), face("a", manager=manager)
        served: list[str] = []

        def serve() -> None:
            for end in b.accept_iter(3):
                served.append(end.remote_name)
                end.disconnect()

        server = threads.start(serve)
        for _ in range(3):
            a.connect("b", 3, required=True).disconnect()
        accepts_wait(b, {3: 1})

        b.close()

        server.result()
        assert served == ["a"] * 3
        assert list(b.accept_iter(3)) == []


@clause("QB-PY-9")
@pytest.mark.parametrize("face", [Broker, QueueBroker])
def test_accept_iter_hides_no_other_error(face: type[Broker | QueueBroker]) -> None:
    """A wrong port raises at the call, before any iteration."""
    with BrokerManager() as manager:
        b = face("b", manager=manager)

        with pytest.raises(ValueError, match=r"^port must be in 0\.\..*, got -1$"):
            b.accept_iter(-1)
        with pytest.raises(TypeError, match=r"^port must be an int, got str$"):
            b.accept_iter("80")  # type: ignore[arg-type]  # under test


JAVA = {
    "DisconnectedQueueException": queuebroker.DisconnectedQueueError,
    "DisconnectQueueException": queuebroker.DisconnectedQueueError,
    "DisconnectedChannelException": queuebroker.DisconnectedChannelError,
}


@clause("QB-PY-13")
def test_the_names_of_the_java_text_live_in_their_module() -> None:
    """Each is the class of our name; no other module has them."""
    assert {name: getattr(java, name) for name in java.__all__} == JAVA
    for name in JAVA:
        assert name not in queuebroker.__all__
        assert not hasattr(queuebroker, name)
    assert not any(name.endswith("Exception") for name in queuebroker.__all__)
    assert BrokerClosedError.__name__ in queuebroker.__all__
