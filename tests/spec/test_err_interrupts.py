"""QB-ERR-9: a Ctrl-C propagates from every call and leaves every object usable.

Three methods: real signals in a separate process; an interrupt at every point at which
the interpreter can deliver one (`tests.strikes`); and the same while another thread
waits.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    DisconnectedError,
    QueueBrokerTimeoutError,
)
from queuebroker.testing import explore
from specs.clauses import clause
from tests.depth import schedules
from tests.pairs import channel_pair, queue_pair
from tests.strikes import Blow, everywhere
from tests.support import Threads, taken, until
from tests.traffic import fill, fits

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue
    from queuebroker.testing import Run, Spawned

    QueueCall = Callable[[MessageQueue, MessageQueue], object]
    ChannelCall = Callable[[Channel, Channel], object]

# Real signals: the main thread of a new process is interrupted a thousand times in each
# of the four calls while it blocks, and a thousand times in calls that return.
SIGNALS = """
import random, signal
from queuebroker import *

CAPACITY = 3
rng = random.Random(9)

armed = False

def strike(number, frame):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def struck(call):
    global armed
    for _ in range(1000):
        # It ticks on, since the interpreter may miss a signal that comes right before
        # a system call; only the first that it sees strikes: before the call, in it.
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 1e-4), 0.01)
            call()
            raise SystemExit("a call returned")
        except KeyboardInterrupt:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)

def fits(sender, receiver):
    while receiver.pending:
        receiver.receive()
    sent = 0
    try:
        while True:
            sender.send_nowait(b"x")
            sent += 1
    except SendTimeoutError:
        return sent

def both_ways():
    while True:
        try:
            left.send_nowait(b"x")
        except SendTimeoutError:
            right.receive_nowait()

signal.signal(signal.SIGALRM, strike)
manager = BrokerManager()
b = QueueBroker("b", manager=manager, capacity=CAPACITY)
a = QueueBroker("a", manager=manager)

struck(lambda: b.accept(1))
struck(lambda: a.connect("b", 1))
assert (b.waiting_accepts(), b.waiting_connects(), a.outgoing()) == ({}, {}, {})

task = Task(b, lambda: ends.append(b.accept(1)))
ends = []
task.start()
right = a.connect("b", 1)
task.join()
[left] = ends
struck(right.receive)
assert fits(left, right) == CAPACITY
struck(lambda: left.send(b"x"))
assert fits(left, right) == CAPACITY
struck(both_ways)
assert fits(left, right) == CAPACITY
assert [right.receive() for _ in range(CAPACITY)] == [b"x"] * CAPACITY
left.disconnect()
right.disconnect()
"""


@pytest.mark.deep
@clause("QB-ERR-9")
def test_a_thousand_signals_in_each_blocking_call_change_nothing() -> None:
    """Tested in accept, connect, receive and send; then exactly capacity sends fit."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SIGNALS],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


# Every point of every call. The buffer to the right holds two messages of three, the
# buffer to the left holds one.
QUEUE_CALLS: dict[str, QueueCall] = {
    "send": lambda left, right: left.send(b"x"),
    "send part": lambda left, right: left.send(bytearray(b"abc"), 1, 1),
    "send, full": lambda left, right: _expiring(lambda: fill(left, 0.0005)),
    "send_many": lambda left, right: left.send_many([b"x"] * 3, timeout=0.0005),
    "receive": lambda left, right: left.receive(),
    "receive, empty": lambda left, right: _expiring(lambda: _drain(left, 0.0005)),
    "receive_into": lambda left, right: left.receive_into(bytearray(3)),
    "receive_many": lambda left, right: right.receive_many(),
    "stats": lambda left, right: left.stats(),
}


@clause("QB-ERR-9")
@pytest.mark.parametrize("name", QUEUE_CALLS)
def test_an_interrupt_anywhere_in_a_call_costs_no_place(name: str) -> None:
    """At every point, the lock is free afterwards and exactly capacity sends fit."""

    def case(interrupted: Blow) -> None:
        with queue_pair(3) as (left, right):
            left.send_many([b"1", b"2"])
            right.send(b"3")

            interrupted(lambda: QUEUE_CALLS[name](left, right))

            assert not taken(left._connection.lock)
            for sender, receiver in ((left, right), (right, left)):
                room = 3 - receiver.pending
                assert fits(sender) == room
                assert len(receiver.receive_many()) == 3
                assert fits(sender) == 3

    everywhere(case)


CHANNEL_CALLS: dict[str, ChannelCall] = {
    "write": lambda left, right: left.write(b"abcdef"),
    "write_all": lambda left, right: left.write_all(b"ab"),
    "read": lambda left, right: left.read(bytearray(7)),
    "read_exactly": lambda left, right: left.read_exactly(2),
}


@clause("QB-ERR-9")
@pytest.mark.parametrize("name", CHANNEL_CALLS)
def test_an_interrupt_anywhere_in_a_channel_costs_no_byte_of_room(name: str) -> None:
    """At every point, the lock is free afterwards and exactly capacity bytes fit."""

    def case(interrupted: Blow) -> None:
        with channel_pair(5) as (left, right):
            left.write(b"12")
            right.write(b"345")

            interrupted(lambda: CHANNEL_CALLS[name](left, right))

            assert not taken(left._connection.lock)
            for writer, reader in ((left, right), (right, left)):
                room = 5 - reader.pending
                assert not room or writer.write(bytes(9)) == room
                assert reader.read(bytearray(9)) == 5
                assert writer.write(bytes(9)) == 5

    everywhere(case)


@clause("QB-ERR-9")
def test_an_interrupted_disconnect_can_be_repeated() -> None:
    """The end is connected or not; the repeated call disconnects it."""

    def case(interrupted: Blow) -> None:
        with queue_pair(3) as (left, right):
            right.send(b"unread")

            interrupted(left.disconnect)
            left.disconnect()

            assert not taken(left._connection.lock)
            assert (left.closed, right.closed, left.pending) == (True, True, 0)
            with pytest.raises(DisconnectedError):
                right.receive()

    everywhere(case)


# With a waiting thread: it sees the effect of the interrupted call, if there is any.
WOKEN: dict[str, tuple[QueueCall, QueueCall]] = {
    "send": (lambda left, right: left.send(b"x"), lambda left, right: right.receive()),
    "send_many": (
        lambda left, right: left.send_many([b"x", b"y"]),
        lambda left, right: right.receive(),
    ),
    "disconnect": (
        lambda left, right: left.disconnect(),
        lambda left, right: right.receive(),
    ),
    "own disconnect": (
        lambda left, right: right.disconnect(),
        lambda left, right: right.receive(),
    ),
    "receive": (
        lambda left, right: left.receive(),
        lambda left, right: fill(right, None),
    ),
    "receive_many": (
        lambda left, right: left.receive_many(),
        lambda left, right: fill(right, None),
    ),
    "receive_into": (
        lambda left, right: left.receive_into(bytearray(9)),
        lambda left, right: fill(right, None),
    ),
}


@pytest.mark.deep
@clause("QB-ERR-9")
@pytest.mark.parametrize("name", WOKEN)
def test_an_interrupted_call_leaves_no_waiter_asleep(name: str) -> None:
    """At every point, a thread that the call's effect enables continues."""
    call, wait = WOKEN[name]

    def case(interrupted: Blow) -> None:
        with queue_pair(2) as (left, right), Threads() as threads:
            waiter = threads.start(wait, left, right)
            flows = left._connection.flows
            until(
                lambda: any(flow.buffer.room or flow.buffer.arrived for flow in flows),
                "nobody waits",
            )

            interrupted(lambda: call(left, right))

            until(lambda: waiter.done or not _could_go_on(right), "somebody sleeps on")
            left.disconnect()
            waiter.error()

    everywhere(case)


def _could_go_on(end: MessageQueue) -> bool:
    """Return whether a thread is listed at an end although it could continue."""
    connection, side = end._connection, end._side
    inward, outward = connection.flows[side].buffer, connection.flows[1 - side].buffer
    if end.closed and (inward.arrived or outward.room):
        return True
    received = bool(inward.arrived) and not inward.empty()
    return received or (bool(outward.room) and not outward.full())


# Every wait point, under the explorer, while other tasks run.


@clause("QB-ERR-9")
@pytest.mark.parametrize("victim", ["send", "receive"])
def test_an_interrupt_at_any_wait_point_costs_no_place(victim: str) -> None:
    """In every schedule no task sleeps on, capacity sends fit, no message repeats."""

    def program(run: Run) -> None:
        with queue_pair(1) as (left, right):
            tokens = [b"1", b"2", b"3"]
            sends = [run.spawn(left.send, token) for token in tokens]
            receives = [run.spawn(right.receive) for _ in range(2)]
            interrupted = sends[0] if victim == "send" else receives[0]
            run.interrupt(interrupted, KeyboardInterrupt)
            run.settle()

            received = [each.result for each in receives if _came_through(each)]
            received += [right.receive() for _ in range(right.pending)]
            run.settle()
            received += [right.receive() for _ in range(right.pending)]
            run.join()
            done = [
                token
                for token, send in zip(tokens, sends, strict=True)
                if _came_through(send)
            ]
            # A message whose send was interrupted may be stored or not; a message that
            # an interrupted receive took is lost with it. No other message is missing
            # or extra.
            assert len(set(received)) == len(received)
            assert set(received) <= set(tokens)
            assert len(set(done) - set(received)) <= (victim == "receive")
            assert fits(left) == 1
            assert fits(right) == 1

    explore(program, bound=1, random=schedules(60), seed=1, limit=schedules(400))


def _came_through(spawned: Spawned[Any]) -> bool:
    """Return whether a task has ended without an interrupt."""
    return spawned.done and not isinstance(spawned.error, KeyboardInterrupt)


def _expiring(call: Callable[[], object]) -> None:
    with suppress(QueueBrokerTimeoutError):
        call()


def _drain(end: MessageQueue, timeout: float) -> None:
    while True:
        end.receive(timeout=timeout)
