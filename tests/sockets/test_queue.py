"""Ends over each medium: messages, good-byes, and waits."""

from __future__ import annotations

import itertools
import select
import selectors
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerManager,
    DisconnectedQueueError,
    MessageTooLargeError,
    ReceiveTimeoutError,
    SendTimeoutError,
    Status,
    receive_any,
)
from queuebroker._platform import SYSTEM
from queuebroker.observer import Operation
from queuebroker.sockets import (
    Driver,
    RemoteError,
    SocketMessageQueue,
    SocketOptions,
    SocketQueueBroker,
)
from specs.clauses import clause
from tests.sockets.certificates import identity
from tests.sockets.support import PORT, brokers, ends, meet
from tests.support import LIMIT_S, Running, Threads, until

if TYPE_CHECKING:
    from collections.abc import Iterator

Ends = tuple[SocketMessageQueue, SocketMessageQueue]

MEDIA: dict[str, dict[str, Any]] = {
    "unix": {},
    "tcp": {"listen": "tcp://127.0.0.1:0"},
    "tls": {"listen": "tls://localhost:0"},
}


def of_medium(name: str, **host: Any) -> dict[str, Any]:
    """Return the arguments of `ends` for a medium."""
    given = dict(MEDIA[name])
    guest = {}
    if name == "tls":
        host = {"tls": identity("host"), **host}
        guest = {"tls": identity("guest")}
    return {**given, "host": host, "guest": guest}


@pytest.fixture(params=MEDIA)
def pair(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """Yield the ends of a connection of capacity 8."""
    with ends(**of_medium(request.param, capacity=8)) as made:
        yield made


@pytest.mark.deep
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1 << 20, (8 << 20) + 1])
def test_a_message_of_any_length_arrives_whole(pair: Ends, size: int) -> None:
    """It is longer than every buffer on the way."""
    local, remote = pair
    message = bytes(itertools.islice(itertools.cycle(range(251)), size))

    local.send(message)
    local.send_many([message, b"", message[:9]])

    assert remote.receive(timeout=LIMIT_S) == message
    assert remote.receive() == message
    assert [remote.receive(), remote.receive()] == [b"", message[:9]]


@clause("QB-SOCK-3")
def test_exactly_the_capacity_fits(pair: Ends) -> None:
    """The peer does not receive; each receive makes room for one more."""
    local, remote = pair
    for _ in range(8):
        local.send_nowait(b"m")
    for _ in range(2):
        with pytest.raises(SendTimeoutError):
            local.send_nowait(b"m")

    remote.receive()
    assert remote.ping(LIMIT_S)

    local.send_nowait(b"m")
    with pytest.raises(SendTimeoutError):
        local.send_nowait(b"m")


def test_a_sender_that_waits_goes_on_when_there_is_room(pair: Ends) -> None:
    """One receive releases it."""
    local, remote = pair
    with Threads() as threads:
        sending = threads.start(local.send_many, [b"%d" % n for n in range(100)])
        assert [remote.receive() for _ in range(100)] == [b"%d" % n for n in range(100)]
        sending.result()


@clause("QB-SOCK-4")
@pytest.mark.parametrize("unread", [0, 3])
def test_a_receiver_drains_and_then_gets_the_disconnect_with_its_cause(
    pair: Ends, unread: int
) -> None:
    """The peer drains, then sees the disconnect with its cause."""
    local, remote = pair
    for _ in range(unread):
        local.send(b"m")

    local.disconnect(LookupError("enough"))
    until(lambda: remote.remote_disconnected, "the good-bye arrives")

    assert remote.status is (
        Status.HALF_DISCONNECTED if unread else Status.DISCONNECTED
    )
    for _ in range(unread):
        assert remote.receive() == b"m"
    with pytest.raises(DisconnectedQueueError, match="enough") as caught:
        remote.receive()
    cause = caught.value.__cause__
    assert isinstance(cause, RemoteError)
    assert (str(cause), cause.kind) == ("enough", "LookupError")
    assert caught.value.reason == "enough"
    assert caught.value.side == "remote"


@clause("QB-SOCK-4")
def test_a_disconnect_right_after_send_many_loses_no_message(pair: Ends) -> None:
    """The kernel takes less: the driver sends the rest after the caller has left."""
    local, remote = pair
    messages = [bytes([n]) * (1 << 20) for n in range(8)]

    local.send_many(messages)
    local.disconnect()

    assert [remote.receive() for _ in messages] == messages
    with pytest.raises(DisconnectedQueueError):
        remote.receive()


def test_the_counters_balance_once_both_have_left(pair: Ends) -> None:
    """Sent messages are received, dropped or discarded, and the sender counts them."""
    local, remote = pair
    local.send_many([b"m"] * 8)
    assert [remote.receive() for _ in range(3)] == [b"m"] * 3
    remote.send(b"unread")
    assert remote.ping(LIMIT_S)

    local.disconnect()
    until(lambda: remote.remote_disconnected, "the good-bye arrives")
    remote.send(b"dropped")
    remote.receive()
    remote.disconnect()
    until(lambda: local.stats().discarded == 4, "the other good-bye arrives")

    assert (local.stats().sent, local.stats().dropped) == (8, 4)
    assert remote.stats().received == 4
    assert (remote.stats().sent, remote.stats().half_disconnected) == (2, 1)
    assert remote.stats().discarded == 1


@clause("QB-SOCK-6")
@pytest.mark.parametrize("medium", MEDIA)
def test_the_descriptor_is_readable_while_a_receive_would_succeed(medium: str) -> None:
    """After each step, over TLS too."""
    # Not the fixture: its value, and the descriptor, would outlive the leak check.
    with (
        ends(**of_medium(medium)) as (local, remote),
        selectors.DefaultSelector() as selector,
    ):
        selector.register(remote, selectors.EVENT_READ)

        def readable(limit_s: float = 0) -> bool:
            return bool(selector.select(limit_s))

        assert not readable()
        local.send(b"1")
        local.send_many([b"2", b"3"])
        for message in (b"1", b"2"):
            assert readable(LIMIT_S)
            assert remote.receive_nowait() == message
        assert local.ping(LIMIT_S)
        assert remote.receive_many(timeout=0) == [b"3"]
        assert not readable()
        with pytest.raises(ReceiveTimeoutError):
            remote.receive_nowait()
        local.disconnect()
        assert readable(LIMIT_S)
        with pytest.raises(DisconnectedQueueError):
            remote.receive_nowait()


@clause("QB-SOCK-8")
def test_a_send_that_times_out_leaves_no_partial_message(pair: Ends) -> None:
    """A frame once begun is completed: the message after it arrives whole."""
    local, remote = pair
    large = bytes(4 << 20)
    accepted = 0
    for _ in range(20):
        try:
            local.send(large, timeout=0.001)
            accepted += 1
        except SendTimeoutError:
            break
    assert accepted == 8

    received = [remote.receive() for _ in range(accepted)]

    assert received == [large] * accepted
    local.send(b"after")
    assert remote.receive() == b"after"


@pytest.mark.parametrize("act", ["send", "receive", "read"])
def test_a_local_disconnect_releases_waiting_senders_and_receivers(
    pair: Ends, act: str
) -> None:
    """This includes the reader that sleeps at the socket."""
    local, _ = pair
    with Threads() as threads:
        waiting: Running[Any]
        if act == "send":
            local.send_many([b"m"] * 8)
            waiting = threads.start(local.send, b"m")
        else:
            waiting = reading = threads.start(local.receive)
            if act == "receive":  # the second does not read: the first one does
                until(
                    lambda: local._socket_connection.link.read_owner.leased, "one reads"
                )
                waiting = threads.start(local.receive)
        waits = local._connection.flows[
            1 - local._side if act == "send" else local._side
        ]
        until(
            lambda: (
                len(waits.buffer.room) + len(waits.buffer.arrived) > (act == "receive")
            ),
            "it waits",
        )

        local.disconnect()

        assert isinstance(waiting.error(), DisconnectedQueueError)
        if act == "receive":
            assert isinstance(reading.error(), DisconnectedQueueError)


def test_the_limit_of_a_message_is_the_smallest() -> None:
    """Of the acceptor's setting, and the maximum that either side accepts."""
    options = SocketOptions(message_bytes_max=50)
    for host, guest, most in (
        ({"max_message_size": 100}, {}, 100),
        ({"max_message_size": 100}, {"options": options}, 50),
        ({"options": options}, {}, 50),
    ):
        with ends(host=host, guest=guest) as (local, remote):
            for one, other in ((local, remote), (remote, local)):
                one.send(bytes(most))
                assert other.receive() == bytes(most)
                with pytest.raises(MessageTooLargeError):
                    one.send(bytes(most + 1))


def test_the_first_of_several_may_be_far_away() -> None:
    """`receive_any` receives from it as from local ones."""
    with ends() as (local, remote), ends() as (other, another), Threads() as threads:
        waiting = threads.start(receive_any, [local, other])
        another.send(b"here")
        assert waiting.result() == (other, b"here")
        remote.send(b"there")
        assert receive_any([local, other]) == (local, b"there")


@clause("QB-SOCK-8")
@pytest.mark.skipif(SYSTEM == "windows", reason="no wait for so many sockets here")
def test_many_queues_have_one_thread() -> None:
    """One loop serves them all (QB-SOCK-6)."""
    count = 300
    before = threading.active_count()
    with brokers() as (host, guest), ExitStack() as stack:
        with Threads() as threads:
            accepting = threads.start(lambda: [host.accept(PORT) for _ in range(count)])
            assert host.address is not None
            connected = [
                guest.connect(host.address, PORT, required=True) for _ in range(count)
            ]
            accepted = accepting.result()
        for end in (*accepted, *connected):
            stack.enter_context(end)
        assert threading.active_count() == before + 1
        selector = stack.enter_context(selectors.DefaultSelector())
        for number, end in enumerate(accepted):
            selector.register(end, selectors.EVENT_READ, (number, end))
        for number, end in enumerate(connected):
            end.send_nowait(b"%d" % number)
        found: dict[int, bytes] = {}
        while len(found) < count:
            ready = selector.select(LIMIT_S)
            assert ready
            for key, _ in ready:
                number, end = key.data
                found[number] = end.receive_nowait()
        assert sorted(found.values()) == sorted(b"%d" % n for n in range(count))


@clause("QB-SOCK-8")
def test_a_given_driver_is_turned_by_its_owner() -> None:
    """No thread is started; with epoll its descriptor is readable if there is work."""
    driver = Driver()
    before = threading.active_count()
    with brokers(host={"driver": driver}, guest={"driver": driver}) as (host, guest):
        assert host.address is not None
        with Threads() as threads:
            accepting = threads.start(host.accept, PORT)
            connecting = threads.start(guest.connect, host.address, PORT, required=True)
            while not (accepting.done and connecting.done):
                driver.poll(0.01)
            local, remote = accepting.result(), connecting.result()
        assert threading.active_count() == before
        local.send(b"m")
        with pytest.raises(ReceiveTimeoutError):
            remote.receive_nowait()
        if hasattr(select, "epoll"):
            with selectors.DefaultSelector() as selector:
                selector.register(driver, selectors.EVENT_READ)
                assert selector.select(LIMIT_S)
        driver.poll(LIMIT_S)
        assert remote.receive_nowait() == b"m"
        local.disconnect()
        remote.disconnect()
    driver.poll(0)
    driver.close()


def test_a_closed_driver_is_a_lost_peer() -> None:
    """No thread would ever read the socket again."""
    driver = Driver()
    with brokers(guest={"driver": driver}) as (host, guest), Threads() as threads:
        assert host.address is not None
        accepting = threads.start(host.accept, PORT)
        connecting = threads.start(guest.connect, host.address, PORT, required=True)
        while not connecting.done:
            driver.poll(0.01)
        local, remote = accepting.result(), connecting.result()

        driver.close()

        with pytest.raises(DisconnectedQueueError, match="driver is closed"):
            remote.receive()
        with pytest.raises(DisconnectedQueueError, match="peer"):
            local.receive()
        local.disconnect()
        remote.disconnect()


def test_a_manager_may_close_its_queues() -> None:
    """This includes queues to other processes (QB-BOOK-3)."""
    with BrokerManager() as manager, brokers(guest={}) as (host, _):
        guest = SocketQueueBroker("other", manager=manager)
        local, remote = meet(host, guest)

        manager.close(disconnect=True)

        assert remote.closed
        with pytest.raises(DisconnectedQueueError):
            local.receive()
        local.disconnect()


@clause("QB-BOOK-4")
@pytest.mark.parametrize("capacity", [1, 8])
def test_an_observed_end_receives_both_arrived_and_later_messages(
    capacity: int,
) -> None:
    """The fast path, which no observer sees, must not wait for arrived messages."""
    seen: list[Operation] = []
    with brokers(
        host={"capacity": capacity}, observer=lambda what, *_: seen.append(what)
    ) as made:
        local, remote = meet(*made)
        with local, remote:
            with Threads() as threads:
                waiting = threads.start(remote.receive)
                local.send(b"waited for")
                assert waiting.result() == b"waited for"
            local.send(b"here")
            until(lambda: remote.pending == 1, "it is here")
            with Threads() as threads:
                assert threads.start(remote.receive).result() == b"here"
                local.send(b"the next")
                assert remote.receive_many(timeout=LIMIT_S) == [b"the next"]

    assert seen.count(Operation.RECEIVE) == 3
