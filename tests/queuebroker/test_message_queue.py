"""Both ends of a queue, step by step against the model, with ``timeout=0`` everywhere.

One thread makes every result determined: where the model waits, the call times out.
After each step the test compares all observable state, and checks the invariants that
the library states about its own internals.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from queuebroker import (
    DisconnectedQueueError,
    MessageTooLargeError,
    ReceiveTimeoutError,
    SendTimeoutError,
    Status,
)
from specs.clauses import clause
from specs.models.answers import Answer, Ending
from specs.models.queue import QueuePair
from tests.pairs import queue_pair
from tests.queuebroker.statuses import STATUS_OF
from tests.support import taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue
    from queuebroker.observer import Operation

ENDS = st.integers(0, 1)
MESSAGES = st.binary(max_size=3)


def _ignore(_operation: Operation, *_rest: object) -> None:
    """Observe, so that the numbers travel with the messages, and record nothing."""


class TwoEnds(RuleBasedStateMachine):
    """A `MessageQueue` and its peer compared with a `QueuePair`."""

    @initialize(
        capacity=st.integers(1, 3),
        strict=st.booleans(),
        observed=st.booleans(),
    )
    def connect(self, capacity: int, strict: bool, observed: bool) -> None:
        self.pair = queue_pair(
            capacity,
            strict=(strict, strict),
            observer=_ignore if observed else None,
        )
        self.ends = self.pair.__enter__()
        self.model = QueuePair.open(capacity, strict_half=strict)
        self.faults: list[BaseException | None] = [None, None]
        self.past = [Status.CONNECTED, Status.CONNECTED]

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.pair.__exit__(None, None, None)

    # Sending.

    @rule(end=ENDS, message=MESSAGES)
    def send(self, end: int, message: bytes) -> None:
        expected = self.model.send(end, message)
        self._compare(end, expected, lambda: self.ends[end].send(message, timeout=0))

    @rule(end=ENDS, message=MESSAGES, before=MESSAGES, after=MESSAGES)
    def send_a_range(
        self, end: int, message: bytes, before: bytes, after: bytes
    ) -> None:
        whole = bytearray(before + message + after)
        expected = self.model.send(end, message)
        self._compare(
            end,
            expected,
            lambda: self.ends[end].send_nowait(whole, len(before), len(message)),
        )
        whole.clear()  # QB-SEND-7: nothing holds it, and the message is a copy

    @rule(end=ENDS, messages=st.lists(MESSAGES, max_size=5))
    def send_many(self, end: int, messages: list[bytes]) -> None:
        expected = self.model.send_many(end, messages)
        self._compare(
            end, expected, lambda: self.ends[end].send_many(messages, timeout=0)
        )

    # Receiving.

    @rule(end=ENDS)
    def receive(self, end: int) -> None:
        expected = self.model.receive(end)
        self._compare(end, expected, lambda: self.ends[end].receive(timeout=0))

    @rule(end=ENDS)
    def receive_nowait(self, end: int) -> None:
        expected = self.model.receive(end)
        self._compare(end, expected, self.ends[end].receive_nowait)

    @rule(end=ENDS, size=st.integers(0, 3))
    def receive_into(self, end: int, size: int) -> None:
        buffer = bytearray(b"\xee" * size)
        unread = self.model.state.inbound[end]
        if unread and size < len(unread[0]):
            with pytest.raises(ValueError, match=f"buffer of {size}"):
                self.ends[end].receive_into(buffer, timeout=0)
            assert buffer == b"\xee" * size
            return

        def received() -> bytes:
            count = self.ends[end].receive_into(buffer, timeout=0)
            assert buffer[count:] == b"\xee" * (size - count)
            return bytes(buffer[:count])

        self._compare(end, self.model.receive(end), received)

    @rule(end=ENDS, limit=st.none() | st.integers(1, 4))
    def receive_many(self, end: int, limit: int | None) -> None:
        expected = self.model.receive_many(end, limit)
        self._compare(
            end, expected, lambda: self.ends[end].receive_many(limit, timeout=0)
        )

    # Disconnecting.

    @rule(end=ENDS, faulty=st.booleans())
    def disconnect(self, end: int, faulty: bool) -> None:
        fault = RuntimeError(f"fault of {end}") if faulty else None
        if not self.model.state.closed[end]:
            self.faults[end] = fault
        self.model.disconnect(end)

        self.ends[end].disconnect(fault)

    def _compare(
        self, end: int, expected: Answer, operation: Callable[[], object]
    ) -> None:
        refused: DisconnectedQueueError | None = None
        try:
            seen = Answer(Ending.DONE, operation())
        except (SendTimeoutError, ReceiveTimeoutError):
            seen = Answer(Ending.WAITS)
        except DisconnectedQueueError as error:
            seen = Answer(Ending.DISCONNECTED)
            refused = error
        assert seen == expected
        if refused is not None:
            local = self.model.state.closed[end]
            fault = self.faults[end if local else 1 - end]
            assert refused.side == ("local" if local else "remote")
            assert refused.__cause__ is fault
            assert refused.reason == (str(fault) if fault else None)

    # Invariants after every step.

    @invariant()
    def both_ends_are_what_the_model_says(self) -> None:
        for number, end in enumerate(self.ends):
            assert end.status is STATUS_OF[self.model.status(number)]
            assert end.disconnected() == self.model.disconnected(number)
            assert end.closed == end.disconnected()
            assert end.remote_disconnected == self.model.remote_disconnected(number)
            assert end.pending == self.model.pending(number)

    @invariant()
    def the_counters_balance(self) -> None:
        for number, end in enumerate(self.ends):
            counters = end.stats()
            peers = self.ends[1 - number].stats()
            assert counters.sent == self.model.sent[number]
            assert counters.received == self.model.received[1 - number]
            assert counters.half_disconnected == self.model.half_disconnected[number]
            assert counters.discarded == self.model.discarded[number]
            assert counters.sent == peers.received + counters.dropped + peers.pending

    @invariant()
    def no_status_moves_back(self) -> None:
        order = list(Status)
        for number, end in enumerate(self.ends):
            assert order.index(self.past[number]) <= order.index(end.status)
            self.past[number] = end.status

    @invariant()
    def the_connection_keeps_its_invariants(self) -> None:
        connection = self.ends[0]._connection
        for side, flow in enumerate(connection.flows):
            if connection.closed[side]:
                assert flow.buffer.empty()
            assert flow.accepted == flow.received + flow.discarded + len(flow.buffer)
            assert not flow.buffer.room, "somebody waits who never waits"
            assert not flow.buffer.arrived, "somebody waits who never waits"
            buffer = flow.buffer
            assert len(buffer) + buffer.free_slots() == buffer.capacity
        assert not taken(connection.lock)
        assert connection.deferred == []


@pytest.mark.deep
@clause("QB-DISC-1", "QB-DISC-2", "QB-DISC-13", "QB-TIME-8")
def test_two_ends_behave_like_the_model() -> None:
    """After any sequence of operations, each result and state is the model's."""
    run_state_machine_as_test(TwoEnds, settings=settings(stateful_step_count=30))


def test_a_read_only_buffer_is_refused_in_every_state() -> None:
    with queue_pair() as (left, right):
        right.send(b"four")
        steps = (lambda: None, right.disconnect, left.receive, left.disconnect)
        seen = []
        for step in steps:
            step()
            seen.append(left.status)
            with pytest.raises(TypeError, match="read-only"):
                left.receive_into(b"four")

    assert seen == [
        Status.CONNECTED,
        Status.HALF_DISCONNECTED,
        Status.DISCONNECTED,
        Status.DISCONNECTED,
    ]


def test_an_empty_message_is_received_into_an_empty_buffer() -> None:
    with queue_pair(2) as (left, right):
        right.send(b"")
        right.send(b"next")

        assert left.receive_into(bytearray()) == 0
        assert left.receive() == b"next"


def test_a_message_too_large_for_the_buffer_can_be_received_later() -> None:
    with queue_pair() as (left, right):
        right.send(b"four")
        with pytest.raises(ValueError, match="message of 4 bytes, buffer of 3"):
            left.receive_into(bytearray(3))

        buffer = bytearray(b"------")
        assert left.receive_into(buffer) == 4
        assert buffer == b"four--"


def test_a_message_is_received_into_a_buffer_of_any_item_size() -> None:
    with queue_pair() as (left, right):
        right.send(b"\x01\x00\x00\x00\x02")
        numbers = memoryview(bytearray(8)).cast("I")

        assert left.receive_into(numbers) == 5

        assert bytes(numbers)[:5] == b"\x01\x00\x00\x00\x02"


def test_the_error_for_a_range_outside_gives_the_passed_numbers() -> None:
    with queue_pair() as (left, _):
        with pytest.raises(ValueError, match=r": offset 5, size 3$"):
            left.send(b"abc", 5)
        with pytest.raises(ValueError, match=r": offset 1, length 3, size 3$"):
            left.send(b"abc", 1, 3)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(ValueError("boom"), ": boom"), (KeyError(), ": KeyError"), (None, "")],
)
def test_the_text_says_why_somebody_hung_up(
    fault: BaseException | None, reason: str
) -> None:
    """At both ends; without an error there is no reason text."""
    with queue_pair() as (left, right):
        right.disconnect(fault)

        with pytest.raises(DisconnectedQueueError) as abroad:
            left.receive()
        with pytest.raises(DisconnectedQueueError) as at_home:
            right.send(b"x")

    place = "port 7 was disconnected by"
    assert str(abroad.value) == f"cannot receive: 'a' {place} 'b'{reason}"
    assert str(at_home.value) == f"cannot send: 'b' {place} this end{reason}"


def _sees(queue: MessageQueue) -> tuple[Status, int]:
    return queue.status, queue.pending


def test_the_limit_of_the_acceptor_holds_for_both_ends_and_the_bulk_form() -> None:
    with queue_pair(4, limit=3) as (left, right):
        for end, peer in ((left, right), (right, left)):
            with pytest.raises(MessageTooLargeError):
                end.send(b"four")
            with pytest.raises(MessageTooLargeError):
                end.send_many([b"four", b"two"])
            assert _sees(peer) == (Status.CONNECTED, 0)

            assert end.send_many([b"one", b"four", b"two"]) == 1
            assert peer.receive_many() == [b"one"]


def test_a_typed_queue_without_msgspec_names_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "msgspec", None)

    with (
        queue_pair() as (near, _),
        pytest.raises(ImportError, match="msgspec is not installed"),
    ):
        near.of(int)
