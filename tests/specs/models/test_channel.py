"""The channel's model moves bytes as a `bytearray`, and disconnects as a queue."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from specs.models.answers import Answer, Ending
from specs.models.channel import ChannelPair, read, write
from specs.models.connection import Status

ENDS = st.sampled_from([0, 1])
LENGTHS = st.integers(0, 5)

DISCONNECTED = Answer(Ending.DISCONNECTED)
WAITS = Answer(Ending.WAITS)


class AgainstBytearrays(RuleBasedStateMachine):
    """Writes and reads of any length, compared with two byte arrays."""

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity: int) -> None:
        self.pair = ChannelPair.open(capacity)
        self.unread = [bytearray(), bytearray()]
        self.closed = [False, False]
        self.count = 0

    @rule(end=ENDS, length=LENGTHS, waited=st.booleans())
    def write(self, end: int, length: int, waited: bool) -> None:
        data = bytes((self.count + each) % 256 for each in range(length))
        room = self.pair.state.capacity - len(self.unread[1 - end])
        ready = self.pair.can_write(end, length, waited=waited)

        answer = self.pair.write(end, data, waited=waited)

        if self.closed[end] or (self.closed[1 - end] and not self.unread[end]):
            assert answer == DISCONNECTED
        elif self.closed[1 - end]:
            assert answer == (DISCONNECTED if waited else Answer(Ending.DONE, length))
        elif length and not room:
            assert answer == WAITS
        else:
            assert answer == Answer(Ending.DONE, min(room, length))
            self.unread[1 - end] += data[:room]
            self.count += min(room, length)
        assert ready == (answer != WAITS)

    @rule(end=ENDS, length=LENGTHS)
    def read(self, end: int, length: int) -> None:
        ready = self.pair.can_read(end, length)

        answer = self.pair.read(end, length)

        if self.closed[end] or (self.closed[1 - end] and not self.unread[end]):
            assert answer == DISCONNECTED
        elif length and not self.unread[end]:
            assert answer == WAITS
        else:
            assert answer == Answer(Ending.DONE, bytes(self.unread[end][:length]))
            del self.unread[end][:length]
        assert ready == (answer != WAITS)

    @rule(end=ENDS)
    def disconnect(self, end: int) -> None:
        self.pair.disconnect(end)
        self.closed[end] = True
        self.unread[end].clear()

    @invariant()
    def both_store_the_same(self) -> None:
        for end in (0, 1):
            assert self.pair.state.inbound[end] == self.unread[end]
            assert self.pair.pending(end) <= self.pair.state.capacity
            assert self.pair.remote_disconnected(end) == self.closed[1 - end]


TestAgainstBytearrays = AgainstBytearrays.TestCase


def test_a_call_may_move_fewer_bytes_than_it_could() -> None:
    pair = ChannelPair.open(4)

    answer, written = write(pair.state, 0, b"abcd", most=3)
    assert answer == Answer(Ending.DONE, 3)

    answer, rest = read(written, 1, 4, most=2)
    assert answer == Answer(Ending.DONE, b"ab")
    assert rest.inbound[1] == b"c"


def test_nothing_can_be_moved_at_once_on_a_connected_end() -> None:
    pair = ChannelPair.open(1)
    pair.write(0, b"x")

    assert pair.write(0, b"") == Answer(Ending.DONE, 0)
    assert pair.read(0, 0) == Answer(Ending.DONE, b"")


@pytest.mark.parametrize("strict", [False, True])
def test_a_write_in_half_is_dropped_whole_unless_strict(strict: bool) -> None:
    pair = ChannelPair.open(1, strict_half=strict)
    pair.write(1, b"x")
    pair.disconnect(1)

    answer = pair.write(0, b"dropped")

    assert answer == (DISCONNECTED if strict else Answer(Ending.DONE, 7))
    assert pair.status(0) is Status.HALF


def test_an_end_is_disconnected_with_its_last_byte() -> None:
    pair = ChannelPair.open(2)
    pair.write(1, b"xy")
    pair.disconnect(1)

    pair.read(0, 1)
    assert not pair.disconnected(0)
    pair.read(0, 1)
    assert pair.disconnected(0)
