"""Both ends of a channel, step by step against the model, with ``timeout=0``."""

from __future__ import annotations

import array
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
    Channel,
    DisconnectedChannelError,
    IncompleteReadError,
    ReceiveTimeoutError,
    SendTimeoutError,
)
from specs.clauses import clause
from specs.models.answers import Answer, Ending
from specs.models.channel import ChannelPair
from tests.pairs import channel_pair
from tests.queuebroker.statuses import STATUS_OF
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

ENDS = st.integers(0, 1)


class TwoEnds(RuleBasedStateMachine):
    """A `Channel` and its peer compared with a `ChannelPair`."""

    @initialize(capacity=st.integers(1, 5), strict=st.booleans())
    def connect(self, capacity: int, strict: bool) -> None:
        self.pair = channel_pair(capacity, strict=(strict, strict))
        self.ends = self.pair.__enter__()
        self.model = ChannelPair.open(capacity, strict_half=strict)

    def teardown(self) -> None:
        if hasattr(self, "pair"):
            self.pair.__exit__(None, None, None)

    @rule(end=ENDS, data=st.binary(max_size=7), offset=st.integers(0, 3))
    def write(self, end: int, data: bytes, offset: int) -> None:
        whole = b"-" * offset + data + b"--"
        expected = self.model.write(end, data)

        self._compare(
            expected,
            lambda: self.ends[end].write(whole, offset, len(data), timeout=0),
        )

    @rule(end=ENDS, size=st.integers(0, 7), offset=st.integers(0, 3))
    def read(self, end: int, size: int, offset: int) -> None:
        buffer = bytearray(b"\xee" * (offset + size + 2))

        def read() -> bytes:
            count = self.ends[end].read(buffer, offset, size, timeout=0)
            content = bytes(buffer[offset : offset + count])
            del buffer[offset : offset + count]
            return content

        self._compare(self.model.read(end, size), read)
        assert set(buffer) <= {0xEE}, "bytes outside the range were touched"

    @rule(end=ENDS)
    def disconnect(self, end: int) -> None:
        self.model.disconnect(end)

        self.ends[end].disconnect()

    def _compare(self, expected: Answer, operation: Callable[[], object]) -> None:
        try:
            seen = Answer(Ending.DONE, operation())
        except (SendTimeoutError, ReceiveTimeoutError):
            seen = Answer(Ending.WAITS)
        except DisconnectedChannelError:
            seen = Answer(Ending.DISCONNECTED)
        assert seen == expected

    @invariant()
    def both_ends_are_what_the_model_says(self) -> None:
        for number, end in enumerate(self.ends):
            assert end.status is STATUS_OF[self.model.status(number)]
            assert end.disconnected() == self.model.disconnected(number)
            assert end.remote_disconnected == self.model.remote_disconnected(number)
            assert end.pending == self.model.pending(number)

    @invariant()
    def the_counters_balance(self) -> None:
        counters = [end.stats() for end in self.ends]
        for number in (0, 1):
            mine, peers = counters[number], counters[1 - number]
            assert mine.sent == peers.received + mine.dropped + peers.pending


@pytest.mark.deep
@clause("QB-CHAN-1", "QB-CHAN-2", "QB-CHAN-4", "QB-CHAN-6")
def test_two_ends_of_a_channel_behave_like_the_model() -> None:
    """Each result and state is the model's; no byte outside a range changes."""
    run_state_machine_as_test(TwoEnds, settings=settings(stateful_step_count=30))


def test_ranges_count_bytes_whatever_the_item_size() -> None:
    numbers = array.array("I", [0x01020304, 0x05060708])
    target = array.array("H", [0, 0, 0])
    raw = numbers.tobytes()

    with channel_pair(8) as (left, right):
        assert left.write(numbers, 3, 4) == 4
        assert right.read(target, 1, 4) == 4

    assert target.tobytes() == b"\0" + raw[3:7] + b"\0"


def test_a_read_only_buffer_is_refused_before_anything_is_read() -> None:
    with channel_pair(4) as (left, right):
        left.write(b"abc")

        with pytest.raises(TypeError, match="read-only"):
            right.read(b"xyz")

        assert right.read_exactly(3) == b"abc"


@pytest.mark.parametrize("count", [-1, -100])
def test_a_negative_count_is_refused(count: int) -> None:
    with (
        channel_pair() as (_, right),
        pytest.raises(ValueError, match=f"count must be >= 0, got {count}"),
    ):
        right.read_exactly(count)


def test_a_read_of_no_bytes_returns_at_once() -> None:
    with channel_pair() as (_, right):
        assert right.read_exactly(0, timeout=0) == b""


def test_an_incomplete_read_hands_over_its_bytes_with_side_and_cause() -> None:
    fault = RuntimeError("disk full")
    with channel_pair(4) as (left, right):
        left.write_all(b"abc")
        left.disconnect(fault)

        with pytest.raises(IncompleteReadError) as caught:
            right.read_exactly(5)

    assert caught.value.partial == b"abc"
    assert caught.value.side == "remote"
    assert caught.value.__cause__ is fault
    assert caught.value.reason == "disk full"


def test_a_read_that_times_out_hands_over_its_partial_bytes() -> None:
    with channel_pair(4) as (left, right):
        left.write_all(b"abc")

        with pytest.raises(ReceiveTimeoutError) as caught:
            right.read_exactly(5, timeout=0)

    assert getattr(caught.value, "partial", None) == b"abc"


def test_a_local_disconnect_releases_both_loops() -> None:
    with channel_pair(2) as (left, _), Threads() as threads:
        writer = threads.start(left.write_all, b"much more than fits")
        reader = threads.start(left.read_exactly, 1)
        flows = left._connection.flows
        until(lambda: bool(flows[1].buffer.room), "the writer waits for room")
        until(lambda: bool(flows[0].buffer.arrived), "the reader waits for a byte")

        left.disconnect()

        for running in (writer, reader):
            error = running.error()
            assert isinstance(error, DisconnectedChannelError)
            assert error.side == "local"


def test_the_repr_of_a_channel_shows_its_names_status_and_counts() -> None:
    with channel_pair(4) as (left, right):
        left.write(b"abc")
        assert isinstance(left, Channel)
        assert repr(left) == "<Channel 'a' to 'b' port 7 connected, 0 in, 3 out>"

        left.disconnect()

        assert repr(right) == (
            "<Channel 'b' to 'a' port 7 half-disconnected, 3 in, 0 out>"
        )
