"""The native frames: golden bytes, round trips, and frames that are refused."""

from __future__ import annotations

import struct

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.pattern import native
from bus.pattern.message_run import MessageRun
from bus.pattern.native import Hello, ReceiverAccount, SenderAccount
from specs.clauses import clause

NUMBERS = st.integers(0, 2**64 - 1)
FROM_1 = st.integers(1, 2**64 - 1)
BODIES = st.lists(st.binary(max_size=10), min_size=1, max_size=6)
COUNT_MAX = 1 << 16

GOLDEN: list[tuple[native.Control, str]] = [
    (Hello(0x0102030405060708), "02 01 02 03 04 05 06 07 08"),
    (SenderAccount(3, 1), "03 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 01"),
    (
        ReceiverAccount(9, 8, 1, 0xFFFF),
        "04 00 00 00 00 00 00 00 09 00 00 00 00 00 00 00 08"
        "00 00 00 00 00 00 00 01 00 00 00 00 00 00 FF FF",
    ),
]


def frame_of(run: MessageRun) -> bytes:
    return native.head(run) + b"".join(run.bodies)


def stated(
    origin: int, first: int, lengths: list[int], rest: bytes, count: int | None = None
) -> bytes:
    """Return a frame that states these fields, whether they fit or not."""
    count = len(lengths) if count is None else count
    head = struct.pack(">BQQI", 1, origin, first, count)
    return head + struct.pack(f">{len(lengths)}I", *lengths) + rest


@clause("BP-16")
@pytest.mark.parametrize(("control", "golden"), GOLDEN)
def test_hellos_and_accounts_have_the_golden_bytes(
    control: native.Control, golden: str
) -> None:
    assert native.encode(control) == bytes.fromhex(golden)
    assert native.decode(bytes.fromhex(golden)) == control


@clause("BP-16")
@pytest.mark.parametrize(
    ("bodies", "golden"),
    [
        ([b"body"], "00 00 00 01  00 00 00 04  62 6F 64 79"),
        ([b""], "00 00 00 01  00 00 00 00"),
        (
            [b"AB", b"", b"C"],
            "00 00 00 03  00 00 00 02 00 00 00 00 00 00 00 01 41 42 43",
        ),
    ],
)
def test_messages_have_the_golden_bytes(bodies: list[bytes], golden: str) -> None:
    head = "01 00 00 00 00 00 00 0A BC 00 00 00 00 00 00 00 07"
    frame = bytes.fromhex(head + golden)
    run = MessageRun(0xABC, 7, bodies)

    assert frame_of(run) == frame
    assert native.decode(frame) == run


@clause("BP-16")
def test_the_head_of_a_lone_message_has_a_fixed_length() -> None:
    assert native.HEAD_BYTES == len(native.head(MessageRun(1, 1, [b"body"]))) == 25


@given(origin=FROM_1, first=st.integers(1, 2**64 - 6), bodies=BODIES)
@clause("BP-16", "BP-19", "BP-20")
def test_messages_are_read_as_they_were_sent(
    origin: int, first: int, bodies: list[bytes]
) -> None:
    run = MessageRun(origin, first, bodies)

    assert native.decode(frame_of(run)) == run


@given(
    st.one_of(
        st.builds(Hello, FROM_1),
        st.builds(SenderAccount, NUMBERS, NUMBERS),
        st.builds(ReceiverAccount, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    )
)
@clause("BP-16")
def test_accounts_are_read_as_they_were_sent(control: native.Control) -> None:
    assert native.decode(native.encode(control)) == control


@clause("BP-4", "BP-16")
@pytest.mark.parametrize("control", [control for control, _ in GOLDEN])
def test_a_hello_or_an_account_of_another_length_is_refused(
    control: native.Control,
) -> None:
    frame = native.encode(control)

    for wrong in (*(frame[:stop] for stop in range(1, len(frame))), frame + b"x"):
        with pytest.raises(WireError, match=f"has {len(wrong)} bytes"):
            native.decode(wrong)


@clause("BP-4", "BP-16")
@pytest.mark.parametrize("bodies", [[b"body"], [b""], [b"AB", b"", b"C"]])
def test_messages_that_are_truncated_or_followed_by_bytes_are_refused(
    bodies: list[bytes],
) -> None:
    frame = frame_of(MessageRun(1, 1, bodies))

    for wrong in (*(frame[:stop] for stop in range(len(frame))), frame + b"x"):
        with pytest.raises(WireError, match="native frame"):
            native.decode(wrong)


@clause("BP-4", "BP-16")
@pytest.mark.parametrize(
    "frame",
    [
        b"\0",
        b"\0" + bytes(32),
        b"\5" + bytes(16),
        b"\xff" + bytes(16),
        stated(1, 0, [1], b"x"),
        stated(0, 1, [1], b"x"),
        stated(1, 1, [], b"", count=0),
        stated(1, 1, [0], b"", count=0),
        stated(1, 1, [1], b"x", count=2),
        stated(1, 1, [1], b"x", count=(1 << 32) - 1),
        stated(1, 1, [2, 1], b"xy"),
        stated(1, 1, [(1 << 32) - 1, 2], b"xy"),
        stated(1, (1 << 64) - 1, [0, 0], b""),
        stated(1, 1, [0] * (COUNT_MAX + 1), b""),
        native.encode(Hello(0)),
    ],
)
def test_other_frames_are_refused(frame: bytes) -> None:
    """Also number 0 and node id 0, with which nodes mark a message as new."""
    with pytest.raises(WireError, match="native"):
        native.decode(frame)


@clause("BP-16")
def test_the_greatest_numbers_are_read() -> None:
    greatest = (1 << 64) - 1

    assert native.decode(stated(greatest, greatest, [1], b"x")) == MessageRun(
        greatest, greatest, [b"x"]
    )
    many = native.decode(stated(1, 1, [0] * COUNT_MAX, b""))
    assert many == MessageRun(1, 1, [b""] * COUNT_MAX)


@given(
    st.one_of(
        st.binary(max_size=40),
        st.builds(
            stated,
            st.integers(0, 1),
            st.integers(0, 1),
            st.lists(st.integers(0, 3), max_size=3),
            st.binary(max_size=6),
            st.none() | st.integers(0, 4),
        ),
    )
)
@clause("BP-4", "BP-16")
def test_any_frame_is_read_or_refused(frame: bytes) -> None:
    try:
        found = native.decode(frame)
    except WireError:
        return
    if isinstance(found, MessageRun):
        assert frame_of(found) == frame
    else:
        assert native.encode(found) == frame
        assert all(0 <= each < 2**64 for each in attrs.astuple(found))
