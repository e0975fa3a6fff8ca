"""The codec: golden bytes, round trips, and bytes that are not a frame."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker.sockets import frames
from queuebroker.sockets.errors import ProtocolError
from queuebroker.sockets.frames import (
    HEAD,
    VERSIONS,
    Credit,
    Frame,
    Goodbye,
    Hello,
    Messages,
    Ping,
    Pong,
    Refusal,
    Refused,
    Welcome,
)
from specs.clauses import clause

if TYPE_CHECKING:
    from queuebroker.sockets.frames import Value

# Frames as encoded on the wire. A change here is a new version of the protocol.
GOLDEN: tuple[tuple[Value, str], ...] = (
    (
        Hello("ann", 7, 1000),
        "01 00000019 515545554542524b 01 01 01 00 00000007 000003e8 0003 616e6e",
    ),
    (
        Welcome("bob", 64, 1000, 3),
        "02 00000017 01 03 00000040 000003e8 2000000000000000 0003 626f62",
    ),
    (Refused(Refusal.NOT_ADMITTED, "no"), "03 00000005 04 0002 6e6f"),
    (Messages(1, (b"hi",)), "04 0000000a 0000000000000001 6869"),
    (
        Messages(2, (b"a", b"", b"bc")),
        "05 0000001b 0000000000000002 00000003 00000001 00000000 00000002 61 6263",
    ),
    (Credit(5), "06 00000004 00000005"),
    (Goodbye(3), "07 0000000d 0000000000000003 00 0000 0000"),
    (
        Goodbye(3, abnormal=True, kind="E", text="x"),
        "07 0000000f 0000000000000003 01 0001 45 0001 78",
    ),
    (Ping(9), "08 00000008 0000000000000009"),
    (Pong(9), "09 00000008 0000000000000009"),
    (Messages(1, (b"hi",), 2), "0a 0000000b 0000000000000001 02 6869"),
)


def encoded(value: Value) -> bytes:
    """Return the frame of any value."""
    if not isinstance(value, Messages):
        return frames.encode(value)
    if len(value.messages) > 1:
        return frames.encode_run(value.first, value.messages)
    return frames.encode_message(value.first, value.messages[0], value.descriptors)


def decoded(frame: bytes) -> Value:
    """Return the value of one frame."""
    kind, length = HEAD.unpack_from(frame)
    assert length == len(frame) - HEAD.size
    return frames.decode(kind, frame[HEAD.size :])


def same(one: Value, other: Value) -> bool:
    """Return whether two values are equal, messages as list or tuple alike."""
    if isinstance(one, Messages) and isinstance(other, Messages):
        return (one.first, list(one.messages), one.descriptors) == (
            other.first,
            list(other.messages),
            other.descriptors,
        )
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(("value", "wire"), GOLDEN, ids=lambda one: str(one)[:20])
@clause("QB-SOCK-5")
def test_the_bytes_of_each_frame_are_these(value: Value, wire: str) -> None:
    """In network byte order on every machine."""
    assert encoded(value).hex() == wire.replace(" ", "")


@pytest.mark.parametrize(("value", "wire"), GOLDEN, ids=lambda one: str(one)[:20])
def test_each_frame_is_read_back(value: Value, wire: str) -> None:
    """Decoding returns the value that was encoded."""
    assert same(decoded(bytes.fromhex(wire.replace(" ", ""))), value)


names = st.text(min_size=1, max_size=40)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
values = st.one_of(
    st.builds(
        Hello,
        names,
        st.integers(0, 2**31 - 1),
        u32,
        waits=st.booleans(),
        descriptors=st.integers(0, 255),
        versions=st.just(VERSIONS),
    ),
    st.builds(
        Welcome,
        names,
        st.integers(1, 2**32 - 1),
        u32,
        st.integers(0, 255),
        st.just(VERSIONS[1]),
        st.integers(2**61, 2**62 - 1),
    ),
    st.builds(Refused, st.sampled_from(Refusal), st.text(max_size=40)),
    st.builds(
        Messages,
        u64,
        st.lists(st.binary(max_size=30), min_size=1, max_size=9),
        st.just(0),
    ),
    st.builds(Credit, u32),
    st.builds(Goodbye, u64, st.booleans(), st.text(max_size=20), st.text(max_size=20)),
    st.builds(Ping, u64),
    st.builds(Pong, u64),
)


@given(values)
def test_any_value_is_read_back(value: Value) -> None:
    """Names and numbers of every size that the frames have room for."""
    assert same(decoded(encoded(value)), value)


@given(st.text(min_size=1, alphabet=st.characters(categories=["Cs", "L"])))
def test_a_name_that_is_no_text_travels(name: str) -> None:
    """A broker's name may be any `str`, including lone surrogates."""
    assert decoded(frames.encode(Hello(name, 0, 0))) == Hello(name, 0, 0)


@clause("QB-SOCK-5")
@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("character", "aé€𝄞")
def test_a_long_reason_is_cut_at_a_character(character: str, before: int) -> None:
    """The text of an error may have any length; its encoding has a limit.

    Half a character would make the good-bye a violation.
    """
    text = "a" * before + character * 5000
    read = decoded(frames.encode(Goodbye(0, abnormal=True, text=text)))

    assert isinstance(read, Goodbye)
    size = len(character.encode())
    assert read.text == text[: before + (frames.TEXT_BYTES_MAX - before) // size]


@pytest.mark.parametrize(("value", "wire"), GOLDEN, ids=lambda one: str(one)[:20])
@clause("QB-SOCK-5")
def test_a_body_that_is_cut_is_refused_or_shorter(value: Value, wire: str) -> None:
    """Only a lone message may have any length; other values need a whole body."""
    body = bytes.fromhex(wire.replace(" ", ""))[HEAD.size :]
    kind = bytes.fromhex(wire[:2])[0]
    for length in range(len(body)):
        try:
            read = frames.decode(kind, body[:length])
        except ProtocolError:
            continue
        assert kind in (Frame.MESSAGE, Frame.MESSAGE_WITH_FDS)
        assert isinstance(read, Messages)
        assert read.messages[0] == b"hi"[: len(read.messages[0])]


@pytest.mark.parametrize(("value", "wire"), GOLDEN, ids=lambda one: str(one)[:20])
@clause("QB-SOCK-5")
def test_a_flipped_bit_is_another_value_or_an_error(value: Value, wire: str) -> None:
    """Only `ProtocolError` is raised, and no frame decodes to its original value."""
    frame = bytes.fromhex(wire.replace(" ", ""))
    kind, body = frame[0], frame[HEAD.size :]
    for bit in range(8 * len(body)):
        flipped = bytearray(body)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            read = frames.decode(kind, bytes(flipped))
        except ProtocolError:
            continue
        assert not same(read, value)
    for bit in range(8):
        try:
            read = frames.decode(kind ^ 1 << bit, body)
        except ProtocolError:
            continue
        assert not same(read, value)


@given(st.integers(0, 255), st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(kind: int, body: bytes) -> None:
    """Only `ProtocolError` is raised."""
    try:
        value = frames.decode(kind, body)
    except ProtocolError:
        return
    if not isinstance(value, Messages):
        assert same(decoded(frames.encode(value)), value)


@pytest.mark.parametrize("count", [0, 1, 2, 2**31, 2**32 - 1])
def test_a_run_that_promises_more_than_it_holds_is_refused(count: int) -> None:
    """The count is checked against the length before anything is allocated."""
    body = struct.pack(">QI", 1, count)

    with pytest.raises(ProtocolError):
        frames.decode(Frame.RUN, body)
    with pytest.raises(ProtocolError):
        frames.decode(Frame.RUN, body + struct.pack(">I", 2**32 - 1) + b"x")
