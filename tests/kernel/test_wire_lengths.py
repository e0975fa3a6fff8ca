"""`Lengths`: behaves like a list of numbers, whether they are equal or not."""

from __future__ import annotations

import struct

from hypothesis import example, given
from hypothesis import strategies as st

from bus.kernel.wire import RAW, Batch, Bodies, Lengths, Run, decode, encode
from bus.model.message import Kind
from specs.clauses import clause

_SIZES = st.one_of(
    st.lists(st.integers(0, 2**32 - 1), max_size=9),
    st.builds(
        lambda each, count: [each] * count, st.integers(0, 2**20), st.integers(0, 9)
    ),
)


@given(each=_SIZES)
def test_lengths_return_their_count_total_and_longest(each: list[int]) -> None:
    lengths = Lengths.of(each)
    assert list(lengths) == each
    assert len(lengths) == lengths.count == len(each)
    assert (lengths.total, lengths.longest) == (sum(each), max(each, default=0))


@clause("BUS-WIRE-1")
@given(each=_SIZES)
def test_they_travel_in_network_order(each: list[int]) -> None:
    packed = struct.pack(f"!{len(each)}I", *each)
    assert Lengths.of(each).pack() == packed
    assert Lengths.unpack(packed) == Lengths.of(each)


@given(each=_SIZES, start=st.integers(0, 9), stop=st.integers(-3, 9))
def test_a_part_is_as_if_it_had_been_all(
    each: list[int], start: int, stop: int
) -> None:
    start, stop = min(start, len(each)), min(stop, len(each))
    expected = each[start : max(start, stop)]
    part = Lengths.of(each).part(start, stop)
    assert (list(part), part.total) == (expected, sum(expected))


@clause("BUS-FLOW-1")
@given(each=_SIZES, room=st.integers(-(2**20), 2**34))
@example(each=[0, 0], room=-1)
@example(each=[4, 4, 4], room=11)
@example(each=[4, 4, 4], room=12)
def test_so_many_of_the_first_fit(each: list[int], room: int) -> None:
    count = Lengths.of(each).fitting(room)
    assert not count or sum(each[:count]) <= room
    assert count == len(each) or sum(each[: count + 1]) > room


@clause("BUS-WIRE-1")
@given(sizes=st.lists(st.integers(0, 70), min_size=2, max_size=80))
@example(sizes=[8] * 70)
@example(sizes=[8] * 69 + [9])
@example(sizes=[0] * 40)
def test_bodies_of_known_lengths_make_the_same_frame(sizes: list[int]) -> None:
    bodies = [bytes([at]) * size for at, size in enumerate(sizes)]
    plain = Batch(1, 2, 3, 4, [Run(1, 2, Kind.COMMAND, RAW, 0, 5, 0, bodies)])
    known = Batch(1, 2, 3, 4, [Run(1, 2, Kind.COMMAND, RAW, 0, 5, 0, Bodies(bodies))])
    assert encode(known) == encode(plain)
    received = decode(encode(known))
    assert received == plain
    assert isinstance(received, Batch)
    [run] = received.runs
    assert isinstance(run.bodies, Bodies)
    assert run.bodies.lengths == Lengths.of(sizes)
