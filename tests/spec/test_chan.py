"""QB-CHAN: streams in pieces of any size, and the deadline of the two loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queuebroker import (
    DisconnectedChannelError,
    IncompleteReadError,
    SendTimeoutError,
)
from specs.clauses import clause
from tests.depth import among
from tests.pairs import channel_pair
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queuebroker import Channel

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def _cut(total: int, sizes: Iterable[int]) -> Iterable[int]:
    """Yield the sizes repeatedly until their sum is ``total``."""
    while total:
        for size in sizes:
            part = min(size, total)
            if part:
                yield part
            total -= part


def _write(end: Channel, data: bytes, sizes: list[int]) -> None:
    start = 0
    for size in _cut(len(data), sizes):
        stop = start + size
        while start < stop:
            taken = end.write(data, start, stop - start)
            assert 1 <= taken <= stop - start
            start += taken
    end.disconnect()


def _read(end: Channel, sizes: list[int]) -> bytes:
    content = bytearray()
    for number in range(10_000):
        buffer = bytearray(b"<" + bytes(sizes[number % len(sizes)]) + b">")
        try:
            got = end.read(buffer, 1, len(buffer) - 2)
        except DisconnectedChannelError:
            return bytes(content)
        assert 1 <= got <= len(buffer) - 2
        assert bytes(buffer[:1] + buffer[-1:]) == b"<>", "outside of the range"
        assert not any(buffer[1 + got : -1]), "more was filled than was told"
        content += buffer[1 : 1 + got]
    raise AssertionError("the stream never ended")


@clause("QB-CHAN-3")
@settings(max_examples=among(10, 40))
@given(
    data=st.binary(max_size=60),
    capacity=st.integers(1, 11),
    written=SIZES,
    read=SIZES,
)
def test_reads_return_the_written_bytes_however_the_pieces_are_cut(
    data: bytes, capacity: int, written: list[int], read: list[int]
) -> None:
    """Concatenated reads equal concatenated writes, in both directions at once."""
    backwards = data[::-1]
    with channel_pair(capacity) as (left, right), Threads() as threads:
        writer = threads.start(_write, left, data, written)
        assert _read(right, read) == data
        writer.result()
    with channel_pair(capacity) as (left, right), Threads() as threads:
        writer = threads.start(_write, right, backwards, read)
        assert _read(left, written) == backwards
        writer.result()


@clause("QB-CHAN-7")
@pytest.mark.parametrize("capacity", [1, 2, 3, 7, 13, 97])
def test_the_loops_carry_everything_through_any_buffer(capacity: int) -> None:
    """`write_all` and `read_exactly` transfer everything, at any chunk size."""
    primes = (2, 3, 5, 7, 11, 13, 89, 97, 101)
    with channel_pair(capacity) as (left, right), Threads() as threads:
        data = (bytes(range(251)) * 2)[: sum(primes)]

        def write() -> None:
            start = 0
            for size in reversed(primes):
                left.write_all(memoryview(data)[start : start + size])
                start += size

        writer = threads.start(write)
        parts = [right.read_exactly(size) for size in primes]
        writer.result()

    assert [len(part) for part in parts] == list(primes)
    assert b"".join(parts) == data


@clause("QB-CHAN-7")
@pytest.mark.parametrize("capacity", [1, 3])
def test_an_end_of_the_stream_hands_over_every_byte_before_it(capacity: int) -> None:
    """When the stream ends early, `read_exactly` raises with the bytes it had."""
    for size in range(8):
        with channel_pair(capacity) as (left, right), Threads() as threads:
            data = bytes(range(size))
            writer = threads.start(_write, left, data, [2])

            with pytest.raises(IncompleteReadError) as caught:
                right.read_exactly(size + 1)

            writer.result()
            assert caught.value.partial == data


@clause("QB-CHAN-7", "QB-TIME-3")
def test_the_loops_have_one_deadline_for_all_their_pieces() -> None:
    """With a timeout of zero `write_all` writes what fits and raises."""
    with channel_pair(3) as (left, right):
        with pytest.raises(SendTimeoutError):
            left.write_all(b"abcde", timeout=0)

        assert right.read_exactly(3, timeout=0) == b"abc"


@clause("QB-CHAN-4")
def test_a_write_while_half_drops_its_bytes_and_returns_their_number() -> None:
    """All bytes of a write are dropped, even if there are more than fit the buffer."""
    with channel_pair(2) as (left, right):
        left.write(b"u")
        right.write(b"xy")
        left.disconnect()

        assert right.write(b"many more bytes") == 15
        right.write_all(b"and more")

        counters = right.stats()
        assert (counters.half_disconnected, counters.discarded) == (23, 2)
        assert counters.sent == counters.dropped == 25
        assert right.read_exactly(1) == b"u"
        with pytest.raises(DisconnectedChannelError):
            right.write(b"z")
