"""QB-CONC-9: a collection in the middle of the library's critical sections.

A collection is forced in a method that runs under a connection's lock, on the thread
that holds it. It finds an end that is garbage in a cycle. Nothing may deadlock, and
each caller that waits for the collected end is released.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from queuebroker import (
    CircularBufferQueue,
    DisconnectedQueueError,
    Operation,
    QueueBrokerError,
    Reason,
    _sync,
)
from queuebroker.channel.connection import Connection
from queuebroker.channel.queue_connection import QueueConnection
from queuebroker.lockfree.sleepers import Sleepers
from queuebroker.meeting import meet
from queuebroker.testing import explore
from queuebroker.waiting.parking import WaitList
from specs.clauses import clause
from tests.depth import schedules
from tests.kit.collector import collecting
from tests.pairs import look_away, loose_queue_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import MessageQueue
    from queuebroker.testing import Run

# Nothing here takes long, so a thread that is not released fails soon.
LIMIT_S = 10.0


@attrs.frozen
class Strike:
    """The method in which a collection runs, and the call that reaches it.

    unread: number of messages that the acting end can receive before it acts.
    """

    owner: type[Any]
    method: str
    act: Callable[[MessageQueue], object]
    unread: int = 0


def _refused(end: MessageQueue) -> None:
    with pytest.raises(ValueError, match="buffer of 0"):
        end.receive_into(bytearray(), timeout=0)


STRIKES = {
    "a send looks": Strike(Connection, "send_verdict", lambda end: end.send(b"m")),
    "a send acts": Strike(QueueConnection, "send_locked", lambda end: end.send(b"m")),
    "a send stores": Strike(
        CircularBufferQueue, "push_locked", lambda end: end.send(b"m")
    ),
    "many are sent": Strike(
        QueueConnection,
        "send_locked",
        lambda end: end.send_many([b"m", b"n"], timeout=0),
    ),
    "a receive looks": Strike(
        Connection, "receive_verdict", lambda end: end.receive(timeout=0)
    ),
    "a receive takes": Strike(
        CircularBufferQueue,
        "pull_locked",
        lambda end: end.receive(timeout=0),
        unread=1,
    ),
    "many are received": Strike(
        QueueConnection,
        "take_locked",
        lambda end: end.receive_many(timeout=0),
        unread=2,
    ),
    "a receive refuses a small buffer": Strike(
        Connection, "recover_locked", _refused, unread=1
    ),
    "the books are read": Strike(
        CircularBufferQueue, "__len__", lambda end: end.stats()
    ),
    "a descriptor is made": Strike(
        Connection, "refresh_locked", lambda end: end.fileno()
    ),
    "a disconnect discards": Strike(
        CircularBufferQueue, "discard_locked", lambda end: end.disconnect()
    ),
    "a disconnect wakes": Strike(WaitList, "wake_all", lambda end: end.disconnect()),
    "a receive goes to sleep": Strike(
        WaitList, "enlist", lambda end: end.receive(timeout=0.01)
    ),
}


def _garbage(end: MessageQueue) -> list[object]:
    """Keep an end alive by a cycle only: garbage once this list is cleared."""
    cycle: list[object] = [end]
    cycle.append(cycle)
    return [cycle]


@contextmanager
def _collecting(owner: type[Any], method: str, victims: list[object]) -> Iterator[None]:
    """Collect ends at the first call of ``method``; they warn that they are open."""
    warns = pytest.warns(ResourceWarning, match="unclosed <MessageQueue")
    with collecting(owner, method, victims), warns:
        yield


def _act(strike: Strike, end: MessageQueue) -> None:
    with suppress(QueueBrokerError):
        strike.act(end)


@clause("QB-CONC-9")
@pytest.mark.parametrize("name", STRIKES)
def test_the_peer_is_collected_while_its_connection_is_locked(name: str) -> None:
    """The finalizer's close is deferred to the unlock; then the peer is released."""
    strike = STRIKES[name]
    left, right = loose_queue_pair(2, observer=look_away)
    left.send(b"unread by the peer")
    right.send_many([b"unread"] * strike.unread)
    victims = _garbage(right)
    del right

    with left, Threads(LIMIT_S) as threads:
        sleeper = None
        if not strike.unread:
            sleeper = threads.start(left.receive)
            arrived = left._connection.flows[0].buffer.arrived
            until(lambda: bool(arrived), "a receive sleeps")
        with _collecting(strike.owner, strike.method, victims):
            threads.start(_act, strike, left).result(LIMIT_S)

        if sleeper is not None:
            assert isinstance(sleeper.error(LIMIT_S), DisconnectedQueueError)
        if left.pending:
            left.receive_many(timeout=0)
        assert left.disconnected()
        assert left._connection.deferred == []


@clause("QB-CONC-9")
@pytest.mark.parametrize("name", STRIKES)
def test_an_end_of_another_connection_is_collected_meanwhile(name: str) -> None:
    """It is finalized inside the critical section of the first connection."""
    strike = STRIKES[name]
    survivor, lost = loose_queue_pair()
    victims = _garbage(lost)
    del lost

    pair = queue_pair(2, observer=look_away)
    with pair as (left, right), survivor, Threads(LIMIT_S) as threads:
        right.send_many([b"unread"] * strike.unread)
        sleeper = threads.start(survivor.receive)
        arrived = survivor._connection.flows[0].buffer.arrived
        until(lambda: bool(arrived), "a receive sleeps")
        with _collecting(strike.owner, strike.method, victims):
            threads.start(_act, strike, left).result(LIMIT_S)

        assert isinstance(sleeper.error(LIMIT_S), DisconnectedQueueError)


ASLEEP: dict[str, Callable[[MessageQueue], object]] = {
    "receive": lambda end: end.receive(),
    "receive with a timeout": lambda end: end.receive(timeout=3600),
    "receive_many": lambda end: end.receive_many(),
    "send": lambda end: end.send(b"no room"),
    "send_many": lambda end: end.send_many([b"no room"]),
}


@clause("QB-CONC-9")
@pytest.mark.parametrize("way", ASLEEP)
def test_the_peer_is_collected_by_the_very_thread_that_goes_to_sleep(way: str) -> None:
    """A caller about to wait for an end that is garbage does not wait."""
    left, right = loose_queue_pair(1, observer=look_away)
    left.send(b"full")
    victims = _garbage(right)
    del right

    with left, Threads(LIMIT_S) as threads:
        with _collecting(WaitList, "enlist", victims):
            waiting = threads.start(ASLEEP[way], left)

            assert isinstance(waiting.error(LIMIT_S), DisconnectedQueueError)
        assert left.disconnected()


@clause("QB-CONC-9")
@pytest.mark.parametrize("way", [way for way in ASLEEP if way.startswith("receive")])
def test_a_thread_that_goes_to_sleep_without_the_lock_collects_the_peer(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the fast kind, which takes no lock on the way to sleep."""
    monkeypatch.setattr(meet, "LOCKED", False)
    left, right = loose_queue_pair(1)
    victims = _garbage(right)
    del right

    with left, Threads(LIMIT_S) as threads:
        with _collecting(Sleepers, "ensure_locked", victims):
            waiting = threads.start(ASLEEP[way], left)

            assert isinstance(waiting.error(LIMIT_S), DisconnectedQueueError)
        assert left.disconnected()


@clause("QB-CONC-9")
def test_a_peer_collected_while_everybody_is_woken_releases_a_sender() -> None:
    """A call that fails also carries out the deferred close last."""
    left, right = loose_queue_pair(1)
    left.send(b"full")
    right.send(b"too long")
    victims = _garbage(right)
    del right

    with left, Threads(LIMIT_S) as threads:
        sender = threads.start(left.send, b"no room")
        room = left._connection.flows[1].buffer.room
        until(lambda: bool(room), "a send sleeps")
        with _collecting(Connection, "recover_locked", victims):
            _refused(left)

        assert isinstance(sender.error(LIMIT_S), DisconnectedQueueError)


class _Locking:
    """An observer that drops the last reference to an end under its own lock.

    It ignores the events that occur inside itself, so it does not wait for itself.
    """

    def __init__(self, channel: int, held: list[object]) -> None:
        self._lock = _sync.Lock()
        self._inside = _sync.Local()
        self._channel, self._held = channel, held

    def __call__(self, operation: Operation, channel: int, *_: object) -> None:
        if getattr(self._inside, "busy", False):
            return
        self._inside.busy = True
        try:
            with self._lock:
                if operation is Operation.SEND and channel == self._channel:
                    self._held.clear()
        finally:
            self._inside.busy = False


@clause("QB-CONC-9", "QB-CONC-8")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_finalizer_does_not_even_wait_for_another_thread() -> None:
    """That thread may wait, in the observer, for a lock that this thread holds."""

    def program(run: Run) -> None:
        reported: list[_Locking] = []

        def observer(operation: Operation, channel: int, *rest: object) -> None:
            reported[0](operation, channel, *rest)

        reported.append(_Locking(0, []))
        left, right = loose_queue_pair(2, observer=observer)
        other, forgotten = loose_queue_pair(2, observer=observer)
        reported[0] = _Locking(left._connection.number, [forgotten])
        del forgotten

        def write() -> None:
            with suppress(DisconnectedQueueError):
                other.send(b"m")

        with left, right, other:
            sends = [run.spawn(left.send, b"m"), run.spawn(write)]
            for send in sends:
                send.join()
            assert other.remote_disconnected

    explore(program, bound=2, random=schedules(100), seed=1, limit=schedules(3000))


class _Unlocking:
    """A lock that drops the last reference to an end just before its release."""

    def __init__(self, lock: Any, held: list[object]) -> None:
        self._lock, self._held = lock, held
        self.acquire, self.release = lock.acquire, lock.release
        self._is_owned = partial(_sync.owns, lock)

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._held.clear()
        self._lock.release()


@clause("QB-CONC-9")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_settle_also_closes_an_end_collected_just_before_its_unlock() -> None:
    """An end collected just before the unlock is closed too."""
    left, right = loose_queue_pair(2)
    left.send(b"keeps the peer half-disconnected")
    connection = left._connection
    with left:
        connection.deferred.append((0, None, Reason.COLLECTED))
        connection.lock = _Unlocking(connection.lock, [right])  # type: ignore[assignment]  # acts as a lock
        del right

        connection.settle()

        assert connection.closed == [True, True]
        assert not connection.deferred
