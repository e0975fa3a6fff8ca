"""QB-BOOK-4: an observer gets true reports in their true order."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    Operation,
    QueueBroker,
    Reason,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.meetings import channels, meet, queues
from tests.pairs import queue_pair
from tests.records import Recorder
from tests.support import Threads, taken
from tests.traffic import tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queuebroker import MessageQueue
    from queuebroker.testing import Run
    from tests.records import Row

SEND, RECEIVE, DROP = Operation.SEND, Operation.RECEIVE, Operation.DROP


def check_flow(rows: Iterable[Row], direction: int) -> tuple[int, int, int]:
    """Replay the rows of one direction on a plain list: each must fit its contents.

    Returns the numbers of messages sent, received and discarded.
    """
    waiting: deque[tuple[int, int]] = deque()
    counts = {SEND: 0, RECEIVE: 0, DROP: 0}
    for operation, _, where, seq, size, depth, *_, reason in rows:
        if where != direction or operation not in counts:
            continue
        if reason is Reason.HALF_DISCONNECTED:
            assert seq == 0
            continue
        counts[operation] += 1
        if operation is SEND:
            assert seq == counts[SEND]
            waiting.append((seq, size))
        else:
            assert (seq, size) == waiting.popleft()
        if operation is not DROP:
            assert depth == len(waiting)
    return counts[SEND], counts[RECEIVE], counts[DROP]


@clause("QB-BOOK-4")
def test_the_records_of_racing_threads_are_one_true_order() -> None:
    """Each record fits the contents of a plain list after the records before it."""
    recorder = Recorder()
    total = 300
    with queues(capacity=3, observer=recorder) as (left, right), Threads() as threads:

        def send(end: MessageQueue) -> None:
            for number in range(total):
                end.send(bytes(number % 7))

        def receive(end: MessageQueue) -> None:
            for _ in range(total):
                end.receive()

        for end in (left, right):
            for _ in range(2):
                threads.start(send, end)
                threads.start(receive, end)
        threads.join()
        rows = list(recorder.rows)

    for direction in (0, 1):
        assert check_flow(rows, direction) == (2 * total, 2 * total, 0)


@clause("QB-BOOK-4")
@pytest.mark.parametrize("hangs_up", [0, 1])
def test_the_records_are_true_in_every_schedule(hangs_up: int) -> None:
    """With senders, receivers and a disconnect; the counters match the records."""

    def program(run: Run) -> None:
        recorder = Recorder()
        with queue_pair(1, observer=recorder) as ends:
            left, right = ends
            for task in (
                lambda: tried(left.send, b"1"),
                lambda: tried(left.send, b"22"),
                lambda: tried(right.receive),
                ends[hangs_up].disconnect,
            ):
                run.spawn(task)
            run.join()
            left.disconnect()
            right.disconnect()
            mine, theirs = left.stats(), right.stats()
        sent, received, discarded = check_flow(recorder.rows, 1)
        assert sent == mine.sent - mine.half_disconnected
        assert (received, discarded) == (theirs.received, mine.discarded)

    explore(program, bound=1, random=schedules(100), seed=1, limit=schedules(1500))


@clause("QB-BOOK-4")
def test_an_observer_is_called_inside_the_critical_section() -> None:
    """The lock of the reported object is held: the channel's or the manager's."""
    held: set[tuple[Operation, bool]] = set()
    locks: list[Any] = []

    def observer(operation: Operation, channel: int, *_: object) -> None:
        lock = locks[1] if channel and len(locks) > 1 else locks[0] if locks else None
        if operation in (Operation.ACCEPT_END, Operation.CONNECT_END):
            lock = locks[0]
        held.add((operation, lock is not None and taken(lock)))

    with BrokerManager(observer=observer) as manager:
        locks.append(manager.lock)
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        left, right = meet(b, a)
        locks.append(left._connection.lock)
        with Threads() as threads:
            waiter = threads.start(right.receive)
            left.send(b"x")
            waiter.result()
        left.send(b"unread")
        with pytest.raises(TimeoutError):
            b.accept(2, timeout=0)
        right.send(b"x")
        right.disconnect()
        left.send(b"dropped")
        left.receive()
        with pytest.raises(ConnectionError):
            left.receive()

    reported = {operation for operation, _ in held}
    assert all(was_held for _, was_held in held)
    wanted = set(Operation) - {Operation.WRITE, Operation.READ, Operation.RECV_END}
    assert wanted - {Operation.RECV_BEGIN} <= reported


# A fault in the real buffer: it reorders, repeats or drops a message.


def _newest_first(buffer: Any, pull: Callable[[], Any]) -> Any:
    buffer._messages.reverse()
    try:
        return pull()
    finally:
        buffer._messages.reverse()


def _twice(buffer: Any, pull: Callable[[], Any]) -> Any:
    item = buffer.peek_locked()
    pull()
    buffer._messages.appendleft(item)
    return item


def _second(buffer: Any, pull: Callable[[], Any]) -> Any:
    pull()
    return pull()


FAULTS: dict[str, tuple[Callable[[Any, Callable[[], Any]], Any], list[int]]] = {
    "none": (lambda _, pull: pull(), [1, 2, 3]),
    "reorder": (_newest_first, [4, 1, 2]),
    "duplicate": (_twice, [1, 1, 2]),
    "lost": (_second, [2, 3, 4]),
}


@clause("QB-BOOK-4")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_planted_in_the_real_buffer_shows_in_the_records(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message carries the sender's number, so the receiver's record exposes it."""
    distort, expected = FAULTS[fault]
    recorder = Recorder()
    with queues(observer=recorder) as (left, right):
        right.send_many([b"1", b"22", b"333", b"4444"])
        buffer: Any = left._connection.flows[0].buffer
        once = [distort]

        class Faulty(type(buffer)):  # type: ignore[misc]  # any class
            __slots__ = ()

            def pull_locked(self) -> Any:
                pull = super().pull_locked
                return once.pop()(self, pull) if once else pull()

        monkeypatch.setattr(buffer, "__class__", Faulty)
        received = [left.receive() for _ in range(3)]
        monkeypatch.undo()

    rows = recorder.rows
    assert [row.seq for row in rows if row.operation is SEND] == [1, 2, 3, 4]
    assert [row.seq for row in rows if row.operation is RECEIVE] == expected
    assert [len(message) for message in received] == expected
    if fault != "none":
        with pytest.raises(AssertionError):
            check_flow(rows, 0)


@clause("QB-BOOK-4")
@pytest.mark.parametrize(
    "fatal", [Operation.ACCEPT_END, SEND, RECEIVE, DROP, Operation.CLOSE_LOCAL]
)
def test_an_observer_that_raises_is_switched_off_once_with_a_log_line(
    fatal: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    """The queues of its manager keep working, and none of them calls it again."""
    recorder = Recorder(fatal=fatal)
    with queues(observer=recorder) as (left, right):
        for _ in range(3):
            left.send(b"x")
            assert right.receive() == b"x"
        left.send(b"unread")
        right.disconnect()
        assert left.stats().discarded == 1

    assert recorder.operations.count(fatal) == 1
    assert recorder.operations[-1] is fatal
    [line] = caplog.records
    assert (line.name, line.levelno) == ("queuebroker", logging.ERROR)
    assert "switched off" in line.message
    assert repr(recorder) in line.message


@clause("QB-BOOK-4")
def test_an_observer_is_given_once_and_belongs_to_one_manager() -> None:
    """It is a keyword argument of the manager, and gets only its events."""
    parameter = inspect.signature(BrokerManager).parameters["observer"]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    mine, other = Recorder(), Recorder()

    with queues(observer=mine) as (left, right), queues(observer=other):
        other.forget()
        mine.forget()
        left.send(b"x")
        right.receive()
        assert other.rows == []

    assert mine.operations[:2] == [SEND, RECEIVE]


@clause("QB-BOOK-4")
def test_without_an_observer_nothing_is_kept_for_one() -> None:
    """No numbers travel with the messages, and no guard or clock is used."""
    with queues() as (left, right), channels() as (near, _):
        left.send(b"x")
        connection = left._connection

        assert connection.watch is None
        assert near._connection.watch is None
        assert connection.now_ns() == 0
        assert connection.flows[1].buffer.peek_locked() == b"x"
        assert right.receive() == b"x"


@clause("QB-BOOK-4")
@pytest.mark.parametrize("act", ["accept", "connect"])
def test_an_observer_gets_no_report_of_a_call_on_a_closed_broker(act: str) -> None:
    """A call on a closed broker is the caller's error, not a rendezvous."""
    reported: list[object] = []
    with BrokerManager(observer=lambda *event: reported.append(event)) as manager:
        broker = QueueBroker("b", manager=manager)
        broker.close()
        reported.clear()

        with pytest.raises(BrokerClosedError):
            broker.accept(1) if act == "accept" else broker.connect("b", 1)

        assert reported == []
