"""QB-PY-3, 4, 8 and 10: properties that hold in every state of an end."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    Broker,
    BrokerManager,
    DisconnectedQueueError,
    QueueBroker,
    QueueBrokerError,
    SendTimeoutError,
    Status,
)
from specs.clauses import clause
from tests.meetings import channels, meet, queues
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import Channel, MessageQueue

    Pair = tuple[MessageQueue, MessageQueue]


def _hang_up(end: MessageQueue, error: BaseException | None = None) -> bool:
    end.disconnect(error)
    return True


# Histories of a pair, by the resulting state of its left end. Capacity 2.
STATES: dict[str, tuple[Callable[[MessageQueue, MessageQueue], object], Status]] = {
    "new": (lambda left, right: None, Status.CONNECTED),
    "unread": (lambda left, right: right.send_many([b"x"]), Status.CONNECTED),
    "full": (lambda left, right: left.send_many([b"x", b"y"]), Status.CONNECTED),
    "half": (
        lambda left, right: right.send_many([b"x"]) and _hang_up(right),
        Status.HALF_DISCONNECTED,
    ),
    "half, had been full": (
        lambda left, right: (
            left.send_many([b"x", b"y"]) and right.send_many([b"z"]) and _hang_up(right)
        ),
        Status.HALF_DISCONNECTED,
    ),
    "remote": (lambda left, right: _hang_up(right), Status.DISCONNECTED),
    "local": (lambda left, right: _hang_up(left), Status.DISCONNECTED),
    "local, unread": (
        lambda left, right: right.send_many([b"x"]) and _hang_up(left),
        Status.DISCONNECTED,
    ),
    "both": (
        lambda left, right: _hang_up(left) and _hang_up(right),
        Status.DISCONNECTED,
    ),
    "abnormal": (
        lambda left, right: _hang_up(right, OSError("gone")),
        Status.DISCONNECTED,
    ),
}
every_state = pytest.mark.parametrize("state", STATES)


@contextmanager
def pair_in(state: str) -> Iterator[Pair]:
    """Yield a pair that has the history of a state."""
    history, status = STATES[state]
    with queues(capacity=2) as (left, right):
        history(left, right)
        assert left.status is status
        yield left, right


@clause("QB-PY-3")
@every_state
def test_closed_equals_disconnected_in_every_state(state: str) -> None:
    """`closed` is a property, `disconnected` a method: equal at both ends."""
    with pair_in(state) as ends:
        for end in ends:
            assert end.closed is end.disconnected()
            assert end.closed is (end.status is Status.DISCONNECTED)


@clause("QB-PY-3")
@every_state
@pytest.mark.parametrize("kind", ["queue", "channel"])
def test_close_has_the_effect_of_disconnect_in_every_state(
    state: str, kind: str
) -> None:
    """In every state both leave the same state, counters and errors at both ends."""
    outcomes = []
    for name in ("close", "disconnect"):
        if kind == "queue":
            with pair_in(state) as ends:
                getattr(ends[0], name)()
                outcomes.append([_told(end) for end in ends])
        else:
            with channels(capacity=2) as pipes:
                pipes[1].write(b"x")
                getattr(pipes[0], name)()
                outcomes.append([_told(pipe) for pipe in pipes])

    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0][0] is Status.DISCONNECTED


def _told(end: MessageQueue | Channel) -> list[object]:
    return [end.status, end.stats(), end.remote_disconnected, repr(end)]


@clause("QB-PY-4")
@every_state
def test_repr_shows_names_port_status_and_counts(state: str) -> None:
    """Tested in every state, of both ends."""
    with pair_in(state) as ends:
        for end in ends:
            text = repr(end)
            inward = end.pending
            outward = len(end._connection.flows[1 - end._side].buffer)
            assert text == (
                f"<MessageQueue {end.local_name!r} to {end.remote_name!r} port 1"
                f" {end.status.value}, {inward} in, {outward} out>"
            )


@clause("QB-PY-4")
def test_repr_does_not_wait_for_a_lock() -> None:
    """Another thread holds the lock of each object that has one."""
    with queues() as (queue, _), channels() as (channel, _), BrokerManager() as manager:
        plain, face = Broker("b", manager=manager), QueueBroker("q", manager=manager)
        locks = [queue._connection.lock, channel._connection.lock, manager.lock]
        for lock in locks:
            lock.acquire()
        try:
            with Threads(limit_s=5) as threads:
                texts = [
                    threads.start(repr, each)
                    for each in (queue, channel, plain, face, manager)
                ]
        finally:
            for lock in locks:
                lock.release()

    assert [text.result() for text in texts] == [
        "<MessageQueue 'server' to 'client' port 1 connected, 0 in, 0 out>",
        "<Channel 'server' to 'client' port 1 connected, 0 in, 0 out>",
        "<Broker 'b' open>",
        "<QueueBroker 'q' open>",
        "<BrokerManager 2 brokers>",
    ]


@clause("QB-PY-4")
def test_repr_of_brokers_and_managers_shows_their_state() -> None:
    """The state is shown as open, then closed."""
    manager = BrokerManager()
    things = [manager, Broker("b", manager=manager), QueueBroker("q", manager=manager)]

    manager.close()

    assert [repr(each) for each in things] == [
        "<BrokerManager closed>",
        "<Broker 'b' closed>",
        "<QueueBroker 'q' closed>",
    ]


# strict, True if the peer disconnected, True if something is left to receive -> True if
# a send returns, False if it raises.
STRICT = [
    (False, False, False, True),
    (False, False, True, True),
    (False, True, True, True),
    (False, True, False, False),
    (True, False, False, True),
    (True, False, True, True),
    (True, True, True, False),
    (True, True, False, False),
]


@clause("QB-PY-8")
@pytest.mark.parametrize(("strict", "hung_up", "unread", "returns"), STRICT)
@pytest.mark.parametrize("full", [False, True])
def test_strict_half_raises_where_a_message_would_be_dropped(
    strict: bool, hung_up: bool, unread: bool, returns: bool, full: bool
) -> None:
    """It raises with a full buffer or not; in other states it has no effect."""
    with queues(capacity=1, strict_half=strict) as (left, right):
        if unread:
            right.send(b"unread")
        if full:
            left.send(b"first")
        if hung_up:
            right.disconnect()

        if full and not hung_up:
            with pytest.raises(SendTimeoutError):
                left.send(b"x", timeout=0)
        elif returns:
            left.send(b"x")
            assert left.send_many([b"y"], timeout=0) if hung_up else True
        else:
            with pytest.raises(DisconnectedQueueError) as caught:
                left.send(b"x")
            assert caught.value.side == "remote"
            with pytest.raises(DisconnectedQueueError):
                left.send_many([b"x"])
        assert left.stats().half_disconnected == 2 * (returns and hung_up)
        assert left.pending == unread


@clause("QB-PY-8")
def test_strict_half_is_each_brokers_own_and_off_by_default() -> None:
    """The connector's queues drop even if the acceptor's raise, and vice versa."""
    with BrokerManager() as manager:
        strict = QueueBroker("strict", manager=manager, strict_half=True)
        lax = QueueBroker("lax", manager=manager)
        for server, client in ((strict, lax), (lax, strict)):
            for hangs_up in (0, 1):
                ends = meet(server, client)
                gone, end = ends[hangs_up], ends[1 - hangs_up]
                gone.send(b"unread")
                gone.disconnect()

                if end.local_name == "strict":
                    with pytest.raises(DisconnectedQueueError):
                        end.send(b"x")
                else:
                    end.send(b"x")
                end.disconnect()


@clause("QB-PY-8")
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("broker", [False, True])
@pytest.mark.parametrize("own", [None, False, True])
def test_one_queue_may_differ_from_its_broker(
    side: int, broker: bool, own: bool | None
) -> None:
    """An argument of accept or connect overrides it, for that end only."""
    with BrokerManager() as manager:
        b, a = (QueueBroker(name, manager=manager, strict_half=broker) for name in "ba")

        def pair() -> tuple[MessageQueue, MessageQueue]:
            said = [own if number == side else None for number in (0, 1)]
            with Threads() as threads:
                accept = threads.start(lambda: b.accept(1, strict_half=said[0]))
                end = a.connect("b", 1, required=True, strict_half=said[1])
            return accept.result(), end

        mine, others, later = pair(), pair(), meet(b, a)

        assert _drops(mine, side) is not (broker if own is None else own)
        assert _drops(others, 1 - side) is not broker
        assert _drops(later, side) is not broker


def _drops(ends: tuple[MessageQueue, MessageQueue], side: int) -> bool:
    """Return whether a send of that side is dropped while it is half-disconnected."""
    with ends[side] as end, ends[1 - side] as peer:
        peer.send(b"unread")
        peer.disconnect()
        try:
            end.send(b"x")
        except DisconnectedQueueError:
            return False
        return True


@clause("QB-PY-10")
@every_state
@pytest.mark.parametrize(
    "args",
    [(b"abc",), (b"abc", 1), (b"abc", 1, 1), (b"abc", 4), ("text",), (b"abc", True)],
)
def test_send_nowait_is_send_with_timeout_0(state: str, args: tuple[Any, ...]) -> None:
    """In every state, for right and wrong arguments: same outcome, same effect."""
    outcomes = []
    for call in (
        lambda end: end.send_nowait(*args),
        lambda end: end.send(*args, timeout=0),
    ):
        with pair_in(state) as (left, right):
            outcomes.append([_came_to(call, left), left.stats(), right.stats()])

    assert outcomes[0] == outcomes[1]


@clause("QB-PY-10")
@every_state
def test_receive_nowait_is_receive_with_timeout_0(state: str) -> None:
    """In every state: same outcome, same effect."""
    outcomes = []
    for call in (
        lambda end: end.receive_nowait(),
        lambda end: end.receive(timeout=0),
    ):
        with pair_in(state) as (left, right):
            outcomes.append([_came_to(call, left), left.stats(), right.stats()])

    assert outcomes[0] == outcomes[1]


def _came_to(call: Callable[[MessageQueue], object], end: MessageQueue) -> object:
    try:
        return call(end)
    except (QueueBrokerError, TypeError, ValueError) as error:
        return type(error), str(error)
