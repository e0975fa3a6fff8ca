"""QB-ERR-5: a failed call leaves no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from queuebroker import (
    Broker,
    BrokerManager,
    PortInUseError,
    QueueBroker,
    QueueBrokerError,
)
from specs.clauses import clause
from tests.depth import among
from tests.meetings import accepts_wait, meet, meet_bytes
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Channel, MessageQueue

SIDES = st.integers(0, 1)

MESSAGES = st.binary(max_size=5)  # the limit is 4


class Failing(RuleBasedStateMachine):
    """Calls of every kind with timeout 0; a call that raises must change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BrokerManager()
        b, a = self.brokers = [
            QueueBroker(name, manager=self.manager, capacity=2, max_message_size=4)
            for name in "ba"
        ]
        d, c = self.pipes = [
            Broker(name, manager=self.manager, capacity=3) for name in "dc"
        ]
        self.queues = meet(b, a)
        self.channels = meet_bytes(d, c)

    def teardown(self) -> None:
        """Leave no end to be collected while connected."""
        self.manager.close(disconnect=True)

    @rule(side=SIDES, data=MESSAGES, offset=st.integers(-1, 6))
    def send(self, side: int, data: bytes, offset: int) -> None:
        """Send; the range, the length, a full buffer or a lost peer may be an error."""
        self._try(lambda: self.queues[side].send_nowait(data, offset))

    @rule(side=SIDES, messages=st.lists(MESSAGES, max_size=3))
    def send_many(self, side: int, messages: list[bytes]) -> None:
        """Send several messages; it raises only if the first send would."""
        self._try(lambda: self.queues[side].send_many(messages, timeout=0))

    @rule(side=SIDES)
    def receive(self, side: int) -> None:
        """Receive; the buffer may be empty."""
        self._try(self.queues[side].receive_nowait)

    @rule(side=SIDES, size=st.integers(0, 4))
    def receive_into(self, side: int, size: int) -> None:
        """Receive into a buffer that may be too small, or read-only."""
        self._try(lambda: self.queues[side].receive_into(bytearray(size), timeout=0))
        self._try(lambda: self.queues[side].receive_into(bytes(4), timeout=0))

    @rule(side=SIDES, limit=st.none() | st.integers(0, 2))
    def receive_many(self, side: int, limit: int | None) -> None:
        """Receive all messages that have arrived."""
        self._try(lambda: self.queues[side].receive_many(limit, timeout=0))

    @rule(side=SIDES, data=MESSAGES)
    def write(self, side: int, data: bytes) -> None:
        """Write bytes, or text, which is an error."""
        self._try(lambda: self.channels[side].write(data, timeout=0))
        self._try(lambda: self.channels[side].write("text", timeout=0))  # type: ignore[arg-type]  # must fail

    @rule(side=SIDES, size=st.integers(0, 4), offset=st.integers(-1, 5))
    def read(self, side: int, size: int, offset: int) -> None:
        """Read bytes, possibly into a range without room."""
        self._try(lambda: self.channels[side].read(bytearray(size), offset, timeout=0))

    @rule(side=SIDES, port=st.integers(-1, 1), capacity=st.none() | st.integers(0, 1))
    def accept(self, side: int, port: int, capacity: int | None) -> None:
        """Accept where no caller connects."""
        broker = self.brokers[side]
        self._try(lambda: broker.accept(port, timeout=0, capacity=capacity))
        self._try(lambda: self.pipes[side].accept(port, timeout=0, exclusive=True))

    @rule(side=SIDES, name=st.sampled_from(["a", "b", "c", "nobody", ""]))
    def connect(self, side: int, name: str) -> None:
        """Connect where no caller accepts."""
        broker = self.brokers[side]
        self._try(lambda: broker.connect(name, 1, timeout=0, required=True))
        self._try(lambda: self.pipes[side].connect(name, 1, timeout=0, required=True))

    @rule(name=st.sampled_from(["a", "b", "c", "d", ""]))
    def create(self, name: str) -> None:
        """Register a name that is in use, or the empty name."""
        if not self.manager.get(name):
            return
        self._try(lambda: QueueBroker(name, manager=self.manager), fails=True)
        self._try(lambda: Broker(name, manager=self.manager, capacity=0), fails=True)

    @rule(side=SIDES, what=st.integers(0, 5))
    def hang_up(self, side: int, what: int) -> None:
        """Disconnect an end now and then."""
        goes = (self.queues[side], self.channels[side], self.pipes[side])
        if what < 3:
            goes[what].close()

    def _try(self, call: Callable[[], object], *, fails: bool = False) -> None:
        before = self._look()
        try:
            call()
        except (QueueBrokerError, TypeError, ValueError):
            assert self._look() == before
        else:
            assert not fails

    def _look(self) -> list[object]:
        """Return all observable state, including the contents of buffers."""
        ends: list[MessageQueue | Channel] = [*self.queues, *self.channels]
        brokers: list[QueueBroker | Broker] = [*self.brokers, *self.pipes]
        return [
            self.manager.names(),
            [
                (each.closed, each.waiting_accepts(), each.waiting_connects())
                for each in brokers
            ],
            [each.outgoing() for each in brokers],
            [(each.status, each.stats(), each.remote_disconnected) for each in ends],
            [_messages(each) for each in self.queues],
            [_content(each) for each in self.channels],
        ]


def _messages(queue: MessageQueue) -> list[object]:
    return list(queue._connection.flows[queue._side].buffer._messages)


def _content(channel: Channel) -> bytes:
    """Return the contents of a ring, in order, without removing them."""
    ring = channel._connection.flows[channel._side].buffer
    twice = bytes(ring._ring) * 2
    return twice[ring._start : ring._start + len(ring)]


@clause("QB-ERR-5")
def test_a_failed_call_changes_nothing() -> None:
    """After any call that raised, all observable state is unchanged."""
    run_state_machine_as_test(
        Failing, settings=settings(max_examples=among(12, 50), stateful_step_count=30)
    )


@clause("QB-ERR-5")
def test_an_exclusive_accept_that_is_refused_changes_nothing() -> None:
    """The waiting accept stays the only one, and is matched."""
    with BrokerManager() as manager, Threads() as threads:
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        first = threads.start(b.accept, 1)
        accepts_wait(b, {1: 1})

        with pytest.raises(PortInUseError):
            b.accept(1, exclusive=True)

        assert b.waiting_accepts() == {1: 1}
        with a.connect("b", 1, required=True) as right, first.result() as left:
            right.send(b"x")
            assert left.receive() == b"x"
