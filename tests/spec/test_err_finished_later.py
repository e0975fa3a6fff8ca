"""QB-ERR-9: the next caller completes what an interrupted call left half done.

The interrupt comes at every point at which the interpreter can deliver one. Then the
same or another call runs, and no report, wake-up or count is missing.
"""

from __future__ import annotations

import selectors
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    CircularBufferQueue,
    DisconnectedQueueError,
    Operation,
    QueueBroker,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.pairs import loose_queue_pair, queue_pair
from tests.strikes import Blow, everywhere
from tests.support import Threads, until

if TYPE_CHECKING:
    from queuebroker import MessageQueue
    from queuebroker.lockfree.sleepers import Sleepers
    from tests.support import Running

BRIEF_S = 0.01


class Forgetful:
    """An observer that drops the last reference to an end at the first send."""

    def __init__(self) -> None:
        self.held: list[MessageQueue] = []

    def __call__(self, operation: Operation, *_: object) -> None:
        if operation is Operation.SEND:
            self.held.clear()


@clause("QB-PY-7", "QB-CONC-9", "QB-ERR-9")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_forgotten_end_is_closed_though_an_interrupt_strikes_that() -> None:
    """This call or the next one informs its peer."""

    def case(interrupted: Blow) -> None:
        forgetful = Forgetful()
        left, right = loose_queue_pair(2, observer=forgetful)
        forgetful.held.append(right)
        del right
        with left:
            interrupted(lambda: left.send(b"m"))

            forgetful.held.clear()
            with pytest.raises(DisconnectedQueueError):
                left.receive(timeout=BRIEF_S)

    everywhere(case)


@clause("QB-CONC-4", "QB-ERR-9")
def test_a_wake_up_that_found_a_buffer_shut_is_handed_on_if_an_interrupt_strikes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of two sleepers wakes, finds the buffer closed, and is interrupted."""
    monkeypatch.setattr("queuebroker.meeting.meet.LOCKED", False)

    def case(interrupted: Blow) -> None:
        left, right = loose_queue_pair(4)
        sleepers = cast("Sleepers", right._connection.flows[1].buffer.arrived)
        over = threading.Event()
        with left, right, Threads() as threads:

            def prompt() -> Running[bytes] | None:
                until(lambda: len(sleepers) == 1 or over.is_set(), "the first sleeps")
                second = None
                if not over.is_set():
                    second = threads.start(right.receive)
                    until(
                        lambda: len(sleepers) == 2 or over.is_set(),
                        "the second sleeps",
                    )
                right.fileno()  # closes the lock-free buffers
                left.send(b"m")
                return second

            prompter = threads.start(prompt)
            interrupted(right.receive)
            over.set()
            second = prompter.result()
            if second is None:
                return
            # The interrupted call may be the one that has taken the message.
            until(lambda: right.stats().received == 1, "somebody takes it")
            left.send(b"n")
            assert second.result() in {b"m", b"n"}

    everywhere(case)


@pytest.mark.deep
@clause("QB-RDV-11", "QB-TIME-4", "QB-NAME-6")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("role", ["accept", "connect"])
@pytest.mark.parametrize("leaves", ["its broker closes", "its time runs out"])
def test_a_match_that_was_interrupted_leaves_nothing_with_the_other(
    role: str, leaves: str
) -> None:
    """A caller that still waits then fails like any caller that is never matched."""
    late = leaves == "its time runs out"

    def case(interrupted: Blow) -> None:
        manager = BrokerManager()
        b, a = (QueueBroker(name, manager=manager) for name in "ba")

        def meet(side: str, timeout: float | None = None) -> MessageQueue:
            if side == "accept":
                return b.accept(1, timeout=timeout)
            return a.connect("b", 1, timeout=timeout, required=True)

        with Threads() as threads:
            other = "connect" if role == "accept" else "accept"
            opposite = threads.start(meet, other, 0.2 if late else None)
            until(lambda: len(b._broker.waiting) == 1, "the opposite does not wait")
            interrupted(lambda: meet(role).disconnect())
            waits = len(b._broker.waiting) == 1
            if not late:
                b.close()
            error = opposite.error()
            if waits:
                wanted = RendezvousTimeoutError if late else BrokerClosedError
                assert isinstance(error, wanted), error
            elif error is None:
                opposite.result().disconnect()
        manager.close()

    if not late:
        everywhere(case)
    else:
        # Only the points where ends are handed out: each one costs the whole timeout.
        everywhere(case, points=range(40, 70))


# Without eventfds there are sockets, which warn if only their collection closes them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@clause("QB-BOOK-5", "QB-ERR-9")
def test_a_descriptor_is_readable_after_an_interrupt_of_its_creation() -> None:
    """A message that has arrived makes it readable."""

    def case(interrupted: Blow) -> None:
        with queue_pair(3) as (left, right):
            right.send(b"1")
            interrupted(left.fileno)

            with selectors.DefaultSelector() as selector:
                selector.register(left, selectors.EVENT_READ)
                assert selector.select(0)

    everywhere(case)


@clause("QB-BUF-4", "QB-ERR-9")
def test_a_pull_that_was_interrupted_makes_room_all_the_same() -> None:
    """A waiting push continues, and the capacity is unchanged."""

    def case(interrupted: Blow) -> None:
        buffer: CircularBufferQueue[bytes] = CircularBufferQueue(2)
        buffer.push(b"1")
        buffer.push(b"2")
        with Threads() as threads:
            push = threads.start(buffer.push, b"3")
            until(lambda: bool(buffer.room), "the push does not wait")
            interrupted(buffer.pull)
            if push.done or len(buffer) < 2:
                push.result()
            while buffer.pull() is not None:
                pass
            push.result()
        while buffer.pull() is not None:
            pass
        buffer.push(b"4", timeout=0)
        buffer.push(b"5", timeout=0)
        with pytest.raises(SendTimeoutError):
            buffer.push(b"6", timeout=0)

    everywhere(case)


@clause("QB-BOOK-1", "QB-BOOK-3", "QB-ERR-9")
def test_a_close_of_everything_that_was_interrupted_can_be_repeated() -> None:
    """After the repeat every end is disconnected, and the counters balance."""

    def case(interrupted: Blow) -> None:
        manager = BrokerManager()
        b, a = (QueueBroker(name, manager=manager, capacity=3) for name in "ba")
        with Threads() as threads:
            accept = threads.start(b.accept, 1)
            right = a.connect("b", 1, required=True)
            left = accept.result()
        left.send(b"1")
        right.send(b"2")

        interrupted(lambda: manager.close(disconnect=True))
        manager.close(disconnect=True)

        assert left.closed
        assert right.closed
        for sender, receiver in ((left, right), (right, left)):
            sent, got = sender.stats(), receiver.stats()
            assert sent.sent == got.received + sent.dropped + got.pending

    everywhere(case)


@clause("QB-BOOK-4", "QB-ERR-9")
def test_an_observer_sees_an_interrupted_send_before_its_receive() -> None:
    """An observer never sees a message received before it has seen it sent."""

    def case(interrupted: Blow) -> None:
        reported: list[tuple[Operation, int]] = []
        with queue_pair(3, observer=Noting(reported)) as (left, right):
            interrupted(lambda: left.send(b"x"))
            with suppress(ReceiveTimeoutError):
                right.receive(timeout=0)
        if (Operation.RECEIVE, 1) in reported:
            assert reported.index((Operation.SEND, 1)) < reported.index(
                (Operation.RECEIVE, 1)
            )

    everywhere(case)


@clause("QB-BOOK-4", "QB-ERR-9")
def test_an_observer_sees_every_message_that_an_interrupted_receive_removed() -> None:
    """A message it removed is reported as received, or as dropped."""

    def case(interrupted: Blow) -> None:
        reported: list[tuple[Operation, int]] = []
        with queue_pair(3, observer=Noting(reported)) as (left, right):
            left.send_many([b"1", b"2"])
            interrupted(right.receive)
            gone = 2 - right.pending
            for seq in range(1, gone + 1):
                assert {(Operation.RECEIVE, seq), (Operation.DROP, seq)} & set(reported)

    everywhere(case)


@clause("QB-BOOK-4", "QB-DISC-11", "QB-ERR-9")
def test_an_observer_sees_all_of_a_disconnect_interrupted_and_repeated() -> None:
    """Both the discarded messages and the close are reported."""

    def case(interrupted: Blow) -> None:
        reported: list[tuple[Operation, int]] = []
        with queue_pair(3, observer=Noting(reported)) as (left, right):
            left.send(b"x")
            interrupted(right.disconnect)
            right.disconnect()

            assert (Operation.DROP, 1) in reported
            assert (Operation.CLOSE_LOCAL, 0) in reported

    everywhere(case)


class Noting:
    """An observer that records each operation and its message number."""

    def __init__(self, reported: list[tuple[Operation, int]]) -> None:
        self._told = reported

    def __call__(
        self, operation: Operation, channel: int, direction: int, seq: int, *_: object
    ) -> None:
        self._told.append((operation, seq))
