"""The three tables, row by row against the model, and methods of a connection.

The tables are the whole of the rules (the sequential model of the specification): these
tests find a missing, extra or wrong row before any other code runs.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

import pytest

from queuebroker import CircularBufferQueue, Operation, Reason, Status, _sync
from queuebroker.channel.flow import Flow
from queuebroker.channel.queue_connection import Message, QueueConnection
from queuebroker.channel.status import RECEIVE, SEND, STATUS, Verdict
from specs.clauses import clause
from specs.models import connection as oracle
from specs.models import queue as rules
from specs.models.answers import Ending
from tests.pairs import look_away, queue_pair
from tests.queuebroker.statuses import STATUS_OF
from tests.support import taken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queuebroker.channel.side import Side
    from queuebroker.observer import Watch
    from specs.models.answers import Answer
    from specs.models.queue import Messages

K = TypeVar("K")
V = TypeVar("V")

BOTH = (False, True)


def _states() -> Iterator[Messages]:
    """Return every state of the model at capacity 1, unreachable ones included."""
    for here, there, unread, outgoing in itertools.product(BOTH, repeat=4):
        inbound = (b"in",) * unread, (b"out",) * outgoing
        yield oracle.Connection(inbound, closed=(here, there), capacity=1)


def _verdict(before: Messages, end: tuple[Answer, Messages]) -> Verdict:
    answer, after = end
    if answer.kind is Ending.DONE:
        return Verdict.DROP if after == before else Verdict.DO
    return {Ending.WAITS: Verdict.WAIT, Ending.DISCONNECTED: Verdict.REFUSE}[
        answer.kind
    ]


def _table(rows: Iterable[tuple[K, V]]) -> dict[K, V]:
    """Collect rows; states of the model that share a row must agree about it."""
    table: dict[K, V] = {}
    for row, outcome in rows:
        assert table.setdefault(row, outcome) is outcome, row
    return table


@clause("QB-DISC-1")
def test_the_table_of_states_is_the_status_function() -> None:
    """For every state, each end's status is that of the status function."""
    rows = (
        ((*state.closed, bool(state.inbound[0])), STATUS_OF[oracle.status(state, 0)])
        for state in _states()
    )

    assert _table(rows) == STATUS


def test_the_table_of_sends_is_the_models() -> None:
    rows = (
        (
            (STATUS_OF[oracle.status(state, 0)], bool(state.free(1)), waited),
            _verdict(state, rules.send(state, 0, b"new", waited=waited)),
        )
        for state in _states()
        for waited in BOTH
    )

    assert _table(rows) == SEND


def test_the_table_of_receives_is_the_models() -> None:
    rows = (
        (
            (STATUS_OF[oracle.status(state, 0)], bool(state.inbound[0])),
            _verdict(state, rules.receive(state, 0)),
        )
        for state in _states()
    )

    # The model has no message in transit; a receive waits for such a message.
    on_its_way = {(Status.HALF_DISCONNECTED, False): Verdict.WAIT}
    assert _table(rows) | on_its_way == RECEIVE


@clause("QB-DISC-1")
def test_no_event_moves_a_state_back() -> None:
    """The status moves in one order only, may skip half, and never goes back."""
    order = list(Status)
    # Possible changes of (closed here, closed there, unread here): flags only rise; a
    # message arrives only while both are open; unread ones are removed at any time.
    for here, there, unread in STATUS:
        after = {(True, there, False), (here, True, unread), (here, there, False)}
        if not (here or there):
            after.add((here, there, True))
        for state in after:
            was, now = STATUS[here, there, unread], STATUS[state]
            assert order.index(was) <= order.index(now), (here, there, unread, state)


# Methods of a connection.


def _connection(
    *, capacity: int = 2, watch: Watch | None = None, strict: bool = False
) -> QueueConnection:
    lock = _sync.RLock()
    flows = (
        Flow(CircularBufferQueue[Message](capacity, lock=lock)),
        Flow(CircularBufferQueue[Message](capacity, lock=lock)),
    )
    names = ("a", "b")
    return QueueConnection(lock, flows, names, 7, strict=(strict, False), watch=watch)


def _balanced(connection: QueueConnection) -> bool:
    return all(
        flow.accepted == flow.received + flow.discarded + len(flow.buffer)
        for flow in connection.flows
    )


@clause("QB-DISC-1")
def test_a_status_is_read_in_the_order_that_never_takes_it_back() -> None:
    """A message and a disconnect between two reads never undo a seen disconnect."""
    with queue_pair(3, observer=look_away) as (left, right):

        class Late(CircularBufferQueue[Message]):
            """A buffer that gets a message and a disconnect once found empty."""

            __slots__ = ()

            def drained(self) -> bool:
                answer = super().drained()
                if answer and not right.closed:
                    right.send(b"m")
                    right.disconnect()
                return answer

        left._connection.flows[0].buffer.__class__ = Late

        seen = [left.status, left.status]

        assert seen == [Status.CONNECTED, Status.HALF_DISCONNECTED]


def test_a_verdict_reads_buffers_and_flags() -> None:
    connection = _connection(capacity=1)
    assert connection.send_verdict(0, waited=False) is Verdict.DO
    assert connection.receive_verdict(0) is Verdict.WAIT

    connection.send_locked(0, b"m")
    connection.send_locked(1, b"n")
    assert connection.send_verdict(0, waited=False) is Verdict.WAIT
    assert connection.receive_verdict(0) is Verdict.DO

    connection.close_locked(1, None, Reason.NONE)
    assert connection.status(0) is Status.HALF_DISCONNECTED
    assert connection.send_verdict(0, waited=False) is Verdict.DROP
    assert connection.send_verdict(0, waited=True) is Verdict.REFUSE
    assert connection.receive_verdict(1) is Verdict.REFUSE


def test_a_receive_does_not_wait_after_a_disconnect_between_its_two_reads() -> None:
    connection = _connection()
    connection.send_locked(1, b"unread")

    class Interrupted(CircularBufferQueue[Message]):
        """A buffer whose side a signal handler disconnects after the first read."""

        __slots__ = ()

        def drained(self) -> bool:
            answer = super().drained()
            connection.close_locked(0, None, Reason.NONE)
            return answer

    connection.flows[0].buffer.__class__ = Interrupted

    assert connection.receive_verdict(0) is Verdict.REFUSE


def test_a_strict_side_refuses_where_another_drops() -> None:
    connection = _connection(strict=True)
    for side in (0, 1):
        connection.send_locked(side, b"unread")
    connection.closed[1] = True

    assert connection.send_verdict(0, waited=False) is Verdict.REFUSE
    connection.closed = [True, False]
    assert connection.send_verdict(1, waited=False) is Verdict.DROP


def test_closing_discards_the_unread_messages_and_keeps_the_counters() -> None:
    connection = _connection()
    connection.send_locked(1, b"one")
    connection.send_locked(1, b"two")
    connection.take_locked(0, 0)

    connection.close_locked(0, None, Reason.NONE)

    assert connection.flows[0].buffer.empty()
    assert connection.flows[0].discarded == 1
    assert _balanced(connection)


def test_closing_again_changes_nothing() -> None:
    connection = _connection()
    first, second = RuntimeError("first"), RuntimeError("second")
    connection.close_locked(0, first, Reason.ABNORMAL)

    connection.close_locked(0, second, Reason.ABNORMAL)

    assert connection.cause(0) is first


def test_a_close_that_was_interrupted_in_the_middle_goes_on_when_repeated() -> None:
    connection = _connection()
    connection.send_locked(1, b"unread")
    connection.closed[0] = True  # as far as the interrupted one had come

    connection.close_locked(0, None, Reason.NONE)

    assert connection.flows[0].buffer.empty()
    assert _balanced(connection)


@pytest.mark.parametrize("side", [0, 1])
def test_no_buffer_stores_a_message_after_a_close_of_either_side(side: Side) -> None:
    connection = _connection()

    connection.close_locked(side, None, Reason.NONE)

    for flow in connection.flows:
        assert not flow.buffer.push_locked(b"late")
        assert flow.buffer.empty()


def test_a_read_within_a_disconnect_of_its_own_thread_sees_its_end() -> None:
    connection = _connection()
    connection.send_locked(1, b"unread")

    with connection.lock:
        connection.closed[0] = True  # as far as the interrupted disconnect had come
        unread = connection.read(lambda: len(connection.flows[0].buffer))

    assert unread == 0
    assert _balanced(connection)


def test_the_cause_is_that_of_the_side_that_closed() -> None:
    connection = _connection()
    fault = RuntimeError("fault")

    connection.close_locked(1, fault, Reason.ABNORMAL)
    assert connection.cause(0) is connection.cause(1) is fault

    connection.close_locked(0, None, Reason.NONE)
    assert connection.cause(0) is None, "its own disconnect was orderly"
    assert connection.cause(1) is fault


def test_everybody_listed_is_woken_by_a_close_of_either_side() -> None:
    for side in (0, 1):
        connection = _connection()
        parkers = []
        for flow in connection.flows:
            for waiters in (flow.buffer.room, flow.buffer.arrived):
                parker = _sync.Lock()
                parker.acquire()
                waiters.enlist(parker)
                parkers.append(parker)

        connection.close_locked(side, None, Reason.NONE)

        assert not any(parker.locked() for parker in parkers)


def test_a_finalizer_closes_at_once_if_the_lock_is_free() -> None:
    connection = _connection()

    connection.finalize(1)

    assert connection.status(0) is Status.DISCONNECTED
    assert connection.deferred == []
    assert not taken(connection.lock)


def test_a_finalizer_leaves_a_note_if_the_lock_is_taken() -> None:
    connection = _connection()

    with connection.lock:
        connection.finalize(1)
        connection.finalize(0)
        assert connection.closed == [False, False]
    connection.settle()

    assert connection.closed == [True, True]
    assert connection.deferred == []


def test_an_observer_gets_the_senders_number_and_the_receiving_side() -> None:
    reported: list[tuple[Operation, int, int, int, Reason]] = []

    def watch(
        operation: Operation, channel: int, direction: int, seq: int, *rest: object
    ) -> None:
        size, _depth, _waited_ns, _local, _remote, _port, reason = rest
        assert channel == connection.number
        assert isinstance(size, int)
        assert isinstance(reason, Reason)
        reported.append((operation, direction, seq, size, reason))

    connection = _connection(watch=watch)  # type: ignore[arg-type] # a Watch is a callable
    connection.send_locked(0, b"one")
    connection.send_locked(0, b"three")
    connection.take_locked(1, 0)
    connection.close_locked(1, None, Reason.NONE)
    connection.note_close_seen_locked(0)
    connection.note_close_seen_locked(0)

    assert reported == [
        (Operation.SEND, 1, 1, 3, Reason.NONE),
        (Operation.SEND, 1, 2, 5, Reason.NONE),
        (Operation.RECEIVE, 1, 1, 3, Reason.NONE),
        (Operation.DROP, 1, 2, 5, Reason.DISCARDED),
        (Operation.CLOSE_LOCAL, 1, 0, 0, Reason.NONE),
        (Operation.CLOSE_SEEN, 0, 0, 0, Reason.DISCONNECTED),
    ]


@pytest.mark.parametrize("observed", [False, True])
def test_the_next_message_is_known_before_it_is_taken(
    observed: bool,
) -> None:
    watch = (lambda *_: None) if observed else None
    connection = _connection(watch=watch)  # type: ignore[arg-type] # a Watch is a callable
    connection.send_locked(0, b"four")

    assert connection.head_locked(1) == ((1, b"four") if observed else b"four")
    assert connection.take_locked(1, 0) == b"four"
