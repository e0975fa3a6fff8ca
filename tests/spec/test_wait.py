"""QB-WAIT: `receive_any` takes one message from one queue, in fair turns."""

from __future__ import annotations

import gc
import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    DisconnectedQueueError,
    MessageQueue,
    Operation,
    ReceiveTimeoutError,
    _sync,
    aio,
    receive_any,
)
from specs.clauses import clause
from tests.pairs import look_away, loose_queue_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import Observer

# For several pairs: the sending ends and the receiving ends.
Pairs = tuple[list[MessageQueue], list[MessageQueue]]


@pytest.fixture(params=["fast", "locked", "mixed"])
def kinds(request: pytest.FixtureRequest) -> Iterator[Observer | None]:
    """Return the observers of three queues as an endless iterator."""
    watched: dict[str, list[Observer | None]] = {
        "fast": [None],
        "locked": [look_away],
        "mixed": [None, look_away],
    }
    return itertools.cycle(watched[request.param])


@pytest.fixture
def three(kinds: Iterator[Observer | None]) -> Iterator[Pairs]:
    """Yield the sending ends and the receiving ends of three connections."""
    with ExitStack() as stack:
        pairs = [
            stack.enter_context(queue_pair(9, observer=next(kinds))) for _ in range(3)
        ]
        yield [left for left, _ in pairs], [right for _, right in pairs]


def _sleepers(end: MessageQueue) -> int:
    """Return the number of receivers that wait at an end."""
    return len(end._connection.flows[end._side].buffer.arrived)


# One message, from one queue.


@clause("QB-WAIT-1")
def test_receive_any_returns_the_oldest_message_of_one_queue_and_that_queue(
    three: Pairs,
) -> None:
    """It returns the oldest message of a queue, and that queue; the rest stays."""
    senders, queues = three
    senders[1].send_many([b"1", b"2"])
    senders[2].send(b"3")

    queue, message = receive_any(queues)

    assert queue is queues[1]
    assert message == b"1"
    assert [each.pending for each in queues] == [0, 1, 1]
    assert [each.stats().received for each in queues] == [0, 1, 0]


@clause("QB-WAIT-1")
@pytest.mark.parametrize("which", range(3))
def test_any_of_the_queues_wakes_a_sleeping_receiver(three: Pairs, which: int) -> None:
    """A message on any queue is received, and no waiter stays listed."""
    senders, queues = three
    with Threads() as threads:
        waiter = threads.start(receive_any, queues)
        until(lambda: all(map(_sleepers, queues)), "it sleeps on all")

        senders[which].send(b"m")

    assert waiter.result() == (queues[which], b"m")
    assert list(map(_sleepers, queues)) == [0, 0, 0]


@clause("QB-WAIT-1")
def test_queues_may_come_from_anywhere_and_twice(three: Pairs) -> None:
    """Any iterable will do; repeats count once; both ends of a connection are two."""
    senders, queues = three
    senders[0].send(b"there")
    queues[0].send(b"back")
    both = (queues[0], queues[0], senders[0])

    assert receive_any(each for each in both) == (queues[0], b"there")
    assert receive_any(iter(both)) == (senders[0], b"back")
    with pytest.raises(ReceiveTimeoutError, match=r"any of 2 queues within 0 s$"):
        receive_any(dict.fromkeys(both), timeout=0)
    with Threads() as threads:
        waiter = threads.start(receive_any, both)
        until(lambda: all(map(_sleepers, both)), "it sleeps on both")
        assert list(map(_sleepers, both)) == [1, 1, 1]
        queues[0].send(b"again")
    assert waiter.result() == (senders[0], b"again")


# Turns.


@clause("QB-WAIT-1")
def test_queues_that_always_have_something_take_turns(three: Pairs) -> None:
    """Of n queues that are never empty, each is served once in any n calls."""
    senders, queues = three
    served = []
    for _ in range(12):
        for sender, queue in zip(senders, queues, strict=True):
            if queue.pending < 2:
                sender.send_many([b"m", b"m"])
        served.append(queues.index(receive_any(queues)[0]))

    assert served == [0, 1, 2] * 4


@clause("QB-WAIT-1")
def test_a_busy_queue_does_not_keep_a_quiet_one_waiting(three: Pairs) -> None:
    """A message on a long-empty queue is received at the next call."""
    senders, queues = three
    senders[0].send_many([b"busy"] * 9)
    receive_any([queues[2], queues[0]])
    for turn in range(3):
        senders[0].send(b"busy")
        senders[2].send(b"quiet %d" % turn)

        assert receive_any(queues) == (queues[2], b"quiet %d" % turn)
        assert receive_any(queues) == (queues[0], b"busy")


@clause("QB-WAIT-1")
def test_the_turn_belongs_to_the_queue_not_to_the_call(three: Pairs) -> None:
    """A call with other queues, in another order, continues after the last turn."""
    senders, (a, b, c) = three
    for sender in senders:
        sender.send_many([b"m"] * 5)

    assert receive_any([b, a])[0] is b
    assert receive_any([b, a])[0] is a
    assert receive_any([a, b, c])[0] is c  # never served
    assert receive_any([c, a, b])[0] is b
    assert receive_any([c, b, a])[0] is a
    a.receive()  # not a turn of receive_any
    assert receive_any([a, c])[0] is c
    assert receive_any([c, a, b])[0] is b


# Disconnected queues.


@clause("QB-WAIT-1")
def test_disconnected_queues_are_passed_over(three: Pairs) -> None:
    """Either side disconnects; messages sent before are received."""
    senders, queues = three
    queues[0].disconnect()
    senders[1].send(b"last")
    senders[1].disconnect(RuntimeError("disk full"))

    assert receive_any(queues) == (queues[1], b"last")
    with Threads() as threads:
        waiter = threads.start(receive_any, queues)
        until(lambda: waiter.done or _sleepers(queues[2]) == 1, "it sleeps on the last")
        senders[2].send(b"m")
    assert waiter.result() == (queues[2], b"m")


@clause("QB-WAIT-1")
@pytest.mark.parametrize("hang_up", ["local", "remote"])
def test_only_the_last_disconnect_ends_the_wait_of_a_sleeping_receiver(
    three: Pairs, hang_up: str
) -> None:
    """Ends disconnect one by one; only the last one ends the wait."""
    senders, queues = three
    with Threads() as threads:
        waiter = threads.start(receive_any, queues)
        for position, end in enumerate(queues if hang_up == "local" else senders):
            until(lambda at=position: all(map(_sleepers, queues[at:])), "it sleeps")  # type: ignore[misc]  # default binds
            assert not waiter.done

            end.disconnect()

        error = waiter.error()
    assert isinstance(error, DisconnectedQueueError)
    assert (error.side, error.reason, error.__cause__) == (hang_up, None, None)


@clause("QB-WAIT-1", "QB-PY-7")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("observer", [None, look_away], ids=["fast", "locked"])
def test_a_peer_that_is_forgotten_counts_as_disconnected(
    observer: Observer | None,
) -> None:
    """The waiter is woken when the last peer is collected."""
    left, right = loose_queue_pair(observer=observer)
    with queue_pair() as (sender, gone), Threads() as threads:
        waiter = threads.start(receive_any, [right, gone])
        until(lambda: bool(_sleepers(right) and _sleepers(gone)), "it sleeps on both")
        sender.disconnect()

        del left
        gc.collect()

        assert isinstance(waiter.error(), DisconnectedQueueError)


@clause("QB-WAIT-1", "QB-ERR-6", "QB-ERR-8")
def test_the_error_gives_the_number_of_queues_and_names_one_disconnect(
    three: Pairs,
) -> None:
    """If all are disconnected, each call raises; the text names one of them."""
    senders, queues = three
    senders[0].disconnect()
    for queue in queues[1:]:
        queue.disconnect()

    for _ in range(2):
        with pytest.raises(DisconnectedQueueError) as caught:
            receive_any(queues)
        assert str(caught.value) == (
            "cannot receive from any of 3 queues: 'b' port 7 was disconnected by 'a'"
        )
        assert (caught.value.side, caught.value.reason) == ("remote", None)
        assert caught.value.__cause__ is None


@clause("QB-WAIT-1", "QB-RECV-9")
def test_the_first_abnormal_disconnect_is_the_cause(three: Pairs) -> None:
    """The first in the order given, once the messages before it are received."""
    senders, queues = three
    faults = [RuntimeError("disk full"), RuntimeError("disk on fire")]
    queues[0].disconnect()
    senders[1].send(b"left over")
    senders[2].disconnect(faults[1])
    senders[1].disconnect(faults[0])

    assert receive_any(queues) == (queues[1], b"left over")
    for order, fault in ((queues, faults[0]), (queues[::-1], faults[1])):
        with pytest.raises(DisconnectedQueueError) as caught:
            receive_any(order)
        assert (caught.value.side, caught.value.reason) == ("remote", str(fault))
        assert caught.value.__cause__ is fault


@clause("QB-WAIT-1", "QB-TIME-8")
def test_a_receive_waits_for_messages_under_way_from_a_disconnected_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message whose send is under way is waited for, at timeout 0 as well."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", False)
    with (
        queue_pair() as (_, quiet),
        queue_pair() as (left, right),
        Threads() as threads,
    ):
        connection: Any = left._connection
        lock_free_buffer = connection.buffers[right._side]
        for _ in lock_free_buffer.free:
            break  # its send has reserved a place, and has not stored the message
        left.disconnect()
        waiter = threads.start(receive_any, [quiet, right], timeout=0)
        until(
            lambda: waiter.done or bool(lock_free_buffer.settlers),
            "it waits for the send",
        )
        lock_free_buffer.messages.append(b"late")
        connection.wake_receiver(lock_free_buffer)

        assert waiter.result() == (right, b"late")


@clause("QB-WAIT-1", "QB-TIME-5")
def test_a_message_or_disconnect_at_the_deadline_beats_the_timeout(
    three: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the deadline, before any wake-up, the outcomes have an order of priority.

    First a message, then that all queues are disconnected, and only then the timeout.
    """
    senders, queues = three

    def disconnect_all() -> None:
        for queue in queues:
            queue.disconnect()

    meanwhile: list[Callable[[], object]] = [
        lambda: None,
        lambda: senders[1].send(b"m"),
        disconnect_all,
    ]

    def expire(*_: object) -> bool:
        meanwhile.pop(0)()
        return False

    monkeypatch.setattr(_sync, "park", expire)

    with pytest.raises(ReceiveTimeoutError):
        receive_any(queues, timeout=1)
    assert receive_any(queues, timeout=1) == (queues[1], b"m")
    with pytest.raises(DisconnectedQueueError):
        receive_any(queues, timeout=1)
    assert list(map(_sleepers, queues)) == [0, 0, 0]


# The other queues are unchanged.


@clause("QB-WAIT-1")
def test_an_observer_sees_the_one_message_and_nothing_else() -> None:
    """Even if the call slept, the other queues report no receive."""
    seen: list[list[Operation]] = [[], []]

    def note(where: int) -> Observer:
        return lambda operation, *_: seen[where].append(operation)

    with (
        queue_pair(observer=note(0)) as (_, quiet),
        queue_pair(observer=note(1)) as (sender, queue),
        Threads() as threads,
    ):
        for each in seen:
            each.clear()  # of the brokers
        waiter = threads.start(receive_any, [quiet, queue])
        until(lambda: bool(_sleepers(quiet) and _sleepers(queue)), "it sleeps on both")
        sender.send(b"m")
        waiter.result()
        with pytest.raises(ReceiveTimeoutError):
            receive_any([quiet, queue], timeout=0)

        assert seen == [[], [Operation.SEND, Operation.RECEIVE]]


@clause("QB-WAIT-1", "QB-BOOK-4")
def test_each_observer_gets_one_report_when_all_queues_are_disconnected() -> None:
    """Each queue's observer gets one report that its end saw the peer's disconnect."""
    seen: list[Operation] = []

    def note(operation: Operation, *_: object) -> None:
        seen.append(operation)

    with (
        queue_pair(observer=note) as (one, first),
        queue_pair(observer=note) as (other, second),
    ):
        one.disconnect()
        with pytest.raises(ReceiveTimeoutError):
            receive_any([first, second], timeout=0)
        assert Operation.CLOSE_SEEN not in seen
        other.disconnect()

        for _ in range(2):
            with pytest.raises(DisconnectedQueueError):
                receive_any([first, second])

        assert seen.count(Operation.CLOSE_SEEN) == 2


@clause("QB-WAIT-1")
def test_a_lock_free_buffer_goes_on_without_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wait for several queues keeps the lock-free buffers open."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", False)
    with queue_pair() as (_, quiet), queue_pair() as (sender, queue):
        with Threads() as threads:
            waiter = threads.start(receive_any, [quiet, queue])
            until(lambda: bool(_sleepers(quiet) and _sleepers(queue)), "it sleeps")
            sender.send(b"m")
            waiter.result()

        for end in (quiet, queue):
            lock_free_buffer: Any = end._connection.flows[end._side].buffer
            assert (lock_free_buffer.open, lock_free_buffer.shut) == (True, False)
            assert not lock_free_buffer.room.asleep
            assert not lock_free_buffer.sleepers.present
            assert end._connection.readiness == [None, None]


# Wrong arguments.


@clause("QB-WAIT-1", "QB-SEND-8")
def test_receive_any_rejects_wrong_arguments_before_anything_else(three: Pairs) -> None:
    """None, a non-iterable, no queues or a bad timeout: nothing is taken."""
    senders, queues = three
    senders[0].send(b"m")
    wrong: list[tuple[Any, type[Exception], str]] = [
        ([], ValueError, r"^queues must not be empty$"),
        (iter(()), ValueError, r"^queues must not be empty$"),
        (None, TypeError, r"^queues must be an iterable of MessageQueues, got NoneT"),
        (7, TypeError, r"^queues must be an iterable of MessageQueues, got int$"),
        (
            queues[0],
            TypeError,
            r"^queues must be .* of MessageQueues, got MessageQueue$",
        ),
        (queues[0].of(int), TypeError, r"^queues must be .*, got TypedQueue$"),
        (aio.wrap(queues[0]), TypeError, r"^queues must be .*, got aio.MessageQueue$"),
        ([queues[0], "q"], TypeError, r"^queues\[1\] must be a MessageQueue, got str$"),
        ([queues[0].of(int)], TypeError, r", got TypedQueue: give its \.queue$"),
        (
            [aio.wrap(queues[0])],
            TypeError,
            r"^queues\[0\] must be a MessageQueue, got aio\.MessageQueue:"
            r" give its \.queue$",
        ),
    ]
    for _ in range(2):
        for given, error, text in wrong:
            with pytest.raises(error, match=text):
                receive_any(given)
        with pytest.raises(ValueError, match=r"^timeout must be >= 0, got -1$"):
            receive_any(queues, timeout=-1)
        assert queues[0].pending == (not queues[0].closed)
        queues[0].disconnect()


@clause("QB-WAIT-1", "QB-TIME-1")
def test_at_zero_it_looks_at_each_once(
    three: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message anywhere is received; if there is none, it raises without sleeping."""
    senders, queues = three
    monkeypatch.setattr("queuebroker._sync.park", None)
    senders[2].send(b"m")

    assert receive_any(queues, timeout=0) == (queues[2], b"m")
    with pytest.raises(ReceiveTimeoutError, match=r"any of 3 queues within 0\.0 s$"):
        receive_any(queues, timeout=0.0)
