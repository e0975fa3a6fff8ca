"""Reports to an observer, and the removal of one that raises."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerManager, Operation, QueueBroker, Reason
from queuebroker.observer import Watch
from tests.meetings import channels, queues
from tests.records import Recorder
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue

O, R = Operation, Reason  # noqa: E741  # a column of a table


def observe_once(watch: Watch, port: int = 0) -> None:
    """Report one operation to a watch."""
    watch(O.SEND, 1, 0, 1, 5, 1, 0, "a", "b", port, R.NONE)


def test_a_watch_passes_every_argument_to_its_observer_unchanged() -> None:
    """Every argument in its place."""
    reported: list[tuple[object, ...]] = []

    def observer(*args: object) -> None:
        reported.append(args)

    observe_once(Watch(observer), port=7)

    assert reported == [(O.SEND, 1, 0, 1, 5, 1, 0, "a", "b", 7, R.NONE)]


def test_one_that_raises_is_switched_off_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The line names it and has the error; it is not called afterwards."""
    calls: list[int] = []

    def observer(*args: object) -> None:
        calls.append(1)
        raise LookupError("no more room")

    watch = Watch(observer)
    for _ in range(3):
        observe_once(watch)

    assert calls == [1]
    [line] = caplog.records
    assert (line.name, line.levelno) == ("queuebroker", logging.ERROR)
    assert line.message == f"observer raised and is switched off: {observer!r}"
    assert line.exc_info is not None
    assert isinstance(line.exc_info[1], LookupError)


def test_two_that_raise_at_once_make_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two connections have two locks, so an observer may run in two threads."""
    both = threading.Barrier(2)

    def observer(*args: object) -> None:
        both.wait(30)
        raise LookupError

    watch = Watch(observer)
    with Threads() as threads:
        for _ in range(2):
            threads.start(observe_once, watch)

    assert len(caplog.records) == 1


def test_an_interrupt_does_not_switch_an_observer_off() -> None:
    """An interrupt belongs to the caller; it switches nothing off."""
    calls: list[int] = []

    def observer(*args: object) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt

    watch = Watch(observer)
    with pytest.raises(KeyboardInterrupt):
        observe_once(watch)
    observe_once(watch)

    assert calls == [1, 1]


def test_a_queue_works_on_with_an_observer_that_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The observer raises at any operation."""
    for fatal in (O.BIND, O.ACCEPT_BEGIN, O.CONNECT_END, O.SEND, O.RECEIVE, O.DROP):
        caplog.clear()
        recorder = Recorder(fatal=fatal)
        with queues(observer=recorder) as (left, right):
            for end, peer in ((left, right), (right, left)):
                end.send(b"x")
                assert peer.receive() == b"x"
            right.send(b"unread")
            left.disconnect()
        assert [line.name for line in caplog.records] == ["queuebroker"]
        assert recorder.operations[-1] is fatal


# Reports of each operation: (operation, channel, direction, seq, size, depth, local,
# remote, port, reason), channels numbered from 1.


def test_a_rendezvous_tells_of_names_tickets_and_the_match() -> None:
    """The ticket joins the start of each call to its end."""
    recorder = Recorder()
    with queues(observer=recorder):
        pass

    reported = {row[0]: row[1:] for row in recorder.rows}
    for begin, end, side, names in (
        (O.ACCEPT_BEGIN, O.ACCEPT_END, 0, ("server", "", "server", "client")),
        (O.CONNECT_BEGIN, O.CONNECT_END, 1, ("client", "server", "client", "server")),
    ):
        ticket = reported[begin][2]
        assert ticket > 0
        assert reported[begin] == (0, side, ticket, 0, 0, *names[:2], 1, R.NONE)
        assert reported[end] == (1, side, ticket, 0, 0, *names[2:], 1, R.NONE)
    for operation in (O.BIND, O.UNBIND):
        locals_ = [row[6] for row in recorder.rows if row[0] is operation]
        assert locals_ == ["server", "client"]


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (
            lambda b: b.accept(1, timeout=0),
            [(O.ACCEPT_BEGIN, R.NONE), (O.REFUSE, R.TIMED_OUT)],
        ),
        (
            lambda b: b.connect("b", 1, timeout=0),
            [(O.CONNECT_BEGIN, R.NONE), (O.REFUSE, R.TIMED_OUT)],
        ),
        (lambda b: b.connect("nobody", 1), [(O.REFUSE, R.UNKNOWN_BROKER)]),
    ],
)
def test_an_observer_gets_the_reason_of_a_call_without_a_match(
    act: Callable[[QueueBroker], object], expected: list[tuple[Operation, Reason]]
) -> None:
    """The report has the side, the port and the ticket of its start."""
    recorder = Recorder()
    with BrokerManager(observer=recorder) as manager:
        broker = QueueBroker("b", manager=manager)
        with contextlib.suppress(TimeoutError):
            act(broker)
        rows = recorder.rows[1:]

    assert [(row[0], row[9]) for row in rows] == expected
    assert len({row[1:4] for row in rows}) == 1
    assert {row[8] for row in rows} == {1}


def test_an_observer_gets_the_number_size_and_depth_of_each_message() -> None:
    """The number is the sender's, from 1 in each direction."""
    recorder = Recorder()
    with queues(observer=recorder) as (left, right):
        recorder.forget()
        right.send(b"abc")
        right.send_many([b"", b"12345"])
        left.send(b"x")
        left.receive()
        left.receive_many()
        rows = list(recorder.rows)

    to_left, to_right = ("client", "server", 1), ("server", "client", 1)
    back = ("server", "client", 1)
    assert rows == [
        (O.SEND, 1, 0, 1, 3, 1, *to_left, R.NONE),
        (O.SEND, 1, 0, 2, 0, 2, *to_left, R.NONE),
        (O.SEND, 1, 0, 3, 5, 3, *to_left, R.NONE),
        (O.SEND, 1, 1, 1, 1, 1, *to_right, R.NONE),
        (O.RECEIVE, 1, 0, 1, 3, 2, *back, R.NONE),
        (O.RECEIVE, 1, 0, 2, 0, 1, *back, R.NONE),
        (O.RECEIVE, 1, 0, 3, 5, 0, *back, R.NONE),
    ]


def test_an_observer_gets_the_drops_and_both_closes_of_a_disconnect() -> None:
    """Unread messages one by one, then the close; the peer's drops and first look."""
    recorder = Recorder()
    with queues(observer=recorder) as (left, right):
        left.send(b"for right")
        right.send(b"1")
        right.send(b"22")
        recorder.forget()
        left.disconnect()
        left.disconnect()
        right.send(b"333")
        right.receive()
        for _ in range(2):
            with pytest.raises(ConnectionError):
                right.receive()
        rows = list(recorder.rows)

    left_side, right_side = ("server", "client", 1), ("client", "server", 1)
    assert rows == [
        (O.DROP, 1, 0, 1, 1, 0, *left_side, R.DISCARDED),
        (O.DROP, 1, 0, 2, 2, 0, *left_side, R.DISCARDED),
        (O.CLOSE_LOCAL, 1, 0, 0, 0, 0, *left_side, R.NONE),
        (O.DROP, 1, 0, 0, 3, 0, *right_side, R.HALF_DISCONNECTED),
        (O.RECEIVE, 1, 1, 1, 9, 0, *right_side, R.NONE),
        (O.CLOSE_SEEN, 1, 1, 0, 0, 0, *right_side, R.DISCONNECTED),
    ]


@pytest.mark.parametrize(
    ("end_it", "reason"),
    [
        (lambda right: right.send(b"x"), R.NONE),
        (lambda right: right.disconnect(), R.DISCONNECTED),
        (None, R.TIMED_OUT),
    ],
)
def test_a_receive_that_waits_tells_when_it_began_and_how_it_ended(
    end_it: Callable[[MessageQueue], None] | None, reason: Reason
) -> None:
    """A receive that does not wait reports neither."""
    recorder = Recorder()
    with queues(observer=recorder) as (left, right), Threads() as threads:
        recorder.forget()
        if end_it is None:
            with pytest.raises(TimeoutError):
                left.receive(timeout=0.001)
        else:
            waiter = threads.start(left.receive)
            recorder.wait_for(O.RECV_BEGIN)
            end_it(right)
            waiter.error()
        rows = [row for row in recorder.rows if row[0] in (O.RECV_BEGIN, O.RECV_END)]

    ids = ("server", "client", 1)
    assert rows == [
        (O.RECV_BEGIN, 1, 0, 0, 0, 0, *ids, R.NONE),
        (O.RECV_END, 1, 0, 0, 0, 0, *ids, reason),
    ]


def test_bytes_are_counted_from_the_beginning_of_their_flow() -> None:
    """A write and a read report the number of earlier bytes."""
    recorder = Recorder()
    with channels(observer=recorder) as (left, right):
        recorder.forget()
        left.write_all(b"abc")
        left.write_all(b"de")
        right.read_exactly(4)
        right.read_exactly(1)
        rows = [(row[0], row[3], row[4], row[5]) for row in recorder.rows]

    assert rows == [
        (O.WRITE, 0, 3, 3),
        (O.WRITE, 3, 2, 5),
        (O.READ, 0, 4, 1),
        (O.READ, 4, 1, 0),
    ]
