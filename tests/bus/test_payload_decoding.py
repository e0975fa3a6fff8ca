"""`bus.model.payload.decode`: valid and invalid payloads of a peer."""

from __future__ import annotations

import contextlib
import sys
from operator import is_
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.model.payload import DEPTH_MAX, Payload, check_depth, decode, encode, freeze
from specs.clauses import clause
from tests.bus.payloads import PAYLOADS, kinds, nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@clause("BUS-MSG-16")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x02",  # two payloads
        b"\x92\x01",  # one of two items
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xffabc",
        b"\x81\x01\x02",  # {1: 2}
        b"\x91\x81\xc4\x01k\x02",  # [{b"k": 2}]
        b"\x81\x90\x02",  # {(): 2}
        b"\x81\x81\xa1a\x01\x01",  # {{"a": 1}: 1}
        b"\xd4\x05a",  # an extension
        b"\x91\xd6\xff\x00\x00\x00\x01",  # a time
        b"\xc7\x0c\xff" + b"\xff" * 12,  # an invalid time
        b"\xa1\xff",
        b"\xa3\xed\xa0\x80",  # a lone surrogate
        b"\x81\xa3\xed\xa0\x80\x01",
        b"\x91" * 33 + b"\x01",
        b"\x91" * 100_000 + b"\x01",
        b"\x81\xa1a" * 100_000 + b"\x01",
        b"\x81" * 100_000,
    ],
    ids=lambda data: data[:12].hex(),
)
def test_bytes_that_no_correct_peer_sends_raise_one_kind_of_error(data: bytes) -> None:
    """Two payloads, unsupported types, invalid text, too much nesting."""
    with pytest.raises(WireError, match=r"^payload "):
        decode(data)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """Draw the encoding of a payload with one byte changed."""
    data = bytearray(encode(freeze(draw(PAYLOADS))))
    data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


@contextlib.contextmanager
def recursion_limit(limit: int) -> Iterator[None]:
    """Set the recursion limit, as a program may do for its own needs."""
    earlier = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(earlier)


def what_is_made_of(data: bytes) -> Payload | type[WireError]:
    try:
        return decode(data)
    except WireError:
        return WireError


# Types of MessagePack that payloads lack, along with some that they have.
ODD = st.lists(
    st.sampled_from([0x00, 0x61, 0x81, 0x82, 0x91, 0xA1, 0xC7, 0xD4, 0xD6, 0xFF])
)


@pytest.mark.deep
@clause("BUS-MSG-16")
@given(data=st.binary() | ODD.map(bytes) | spoilt())
def test_whatever_a_peer_says_is_a_payload_or_that_error(data: bytes) -> None:
    """A decoded payload is one that could have been sent."""
    made = what_is_made_of(data)
    if not isinstance(made, type):
        assert repr(freeze(made)) == repr(made)  # not ==: a NaN is equal to nothing
        assert kinds(freeze(made)) == kinds(made)


@clause("BUS-MSG-16", "BUS-SEC-8")
@pytest.mark.parametrize(
    "level",
    [
        b"\x91",
        b"\xdc\x00\x01",
        b"\xdd\x00\x00\x00\x01",
        b"\x81",
        b"\x81\xa1a",
        b"\xde\x00\x01\xa1a",
        b"\xdf\x00\x00\x00\x01\xa1a",
        # Next to each item whose length could be misjudged.
        *(
            b"\x92" + bytes([head]) + bytes(length)
            for head, length in [
                (0xC0, 0), (0xC2, 0), (0x7F, 0), (0xE0, 0), (0x90, 0), (0x80, 0),
                (0xCA, 4), (0xCB, 8), (0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8),
                (0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8), (0xA0, 0), (0xBF, 31),
            ]
        ),
        *(
            b"\x92" + bytes([head]) + (3).to_bytes(width, "big") + bytes(3)
            for head, width in [
                (0xC4, 1), (0xC5, 2), (0xC6, 4), (0xD9, 1), (0xDA, 2), (0xDB, 4),
            ]
        ),
    ],
    ids=bytes.hex,
)  # fmt: skip
def test_no_peer_exhausts_the_stack(level: bytes) -> None:
    """Even if the interpreter sets no limit to the decoder's recursion."""
    # First without the decoder, which would exhaust the stack in a faulty library.
    with pytest.raises(WireError, match="more than 32 deep"):
        check_depth(level * 200_000)
    with (
        recursion_limit(2**30),
        pytest.raises(WireError, match="more than 32 deep"),
    ):
        decode(level * 200_000)


@pytest.mark.deep
@given(data=spoilt() | ODD.map(bytes) | PAYLOADS.map(freeze).map(encode))
def test_a_high_recursion_limit_changes_nothing_else(data: bytes) -> None:
    expected = what_is_made_of(data)

    with recursion_limit(2**30):
        made = what_is_made_of(data)

    assert repr(made) == repr(expected)


@pytest.mark.deep
@pytest.mark.parametrize(
    "make",  # here and not above: that takes a second
    [
        lambda: nested(DEPTH_MAX - 2, ["x" * 256, b"x" * 65_536, [1] * 16]),
        lambda: nested(DEPTH_MAX - 2, ["é" * 65_536, {"k": 1.5}]),
        lambda: [[{str(key): [] for key in range(70_000)}] * 3, "last"],
    ],
    ids=["items", "text", "keys"],
)
def test_a_high_recursion_limit_changes_no_large_payload(
    make: Callable[[], object],
) -> None:
    data = encode(freeze(make()))
    expected = what_is_made_of(data)

    with recursion_limit(2**30):
        made = what_is_made_of(data)

    assert repr(made) == repr(expected)


def test_a_view_of_a_frame_is_decoded_as_bytes_are() -> None:
    frame = b"head" + encode(freeze([b"abc", "d"]))

    payload = decode(memoryview(frame)[4:])

    assert payload == (b"abc", "d")
    assert all(map(is_, map(type, payload), (bytes, str)))


@clause("BUS-MSG-16")
@pytest.mark.parametrize("count", [1, 15, 16])
def test_the_last_item_of_a_container_is_within_it(count: int) -> None:
    """The first byte of a container with up to 15 items holds their number."""
    items: list[object] = [*range(count - 1), nested(DEPTH_MAX)]

    for value in (items, dict(enumerate(items))):
        with pytest.raises(WireError, match="more than 32 deep"):
            check_depth(msgspec.msgpack.encode(value))


@pytest.mark.parametrize(("before", "after"), [(1, 1), (16, 0), (0, 16)])
def test_a_container_beside_another_is_no_level(before: int, after: int) -> None:
    value: object = 1
    for level in range(DEPTH_MAX):
        beside: list[object] = [[1], {"key": 1}] if level else []
        items = [*beside * before, value, *beside * after]
        value = items if level % 2 else dict(enumerate(items))

    check_depth(msgspec.msgpack.encode(value))

    with pytest.raises(WireError, match="more than 32 deep"):
        check_depth(msgspec.msgpack.encode([value]))
