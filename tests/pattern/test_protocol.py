"""`Protocol` and the bytes of the wire: golden bytes, pieces, and broken rules."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.pattern.framing import Pair1Framing, PlainFraming
from bus.pattern.message_run import MessageRun
from bus.pattern.protocol import Protocol, ProtocolState
from bus.pattern.wire import MAGIC, EndpointType, frame_head
from specs.clauses import clause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.pattern.framing import Framing

BUS, PAIR0, PAIR1 = EndpointType.BUS, EndpointType.PAIR0, EndpointType.PAIR1
NATIVE = EndpointType.NATIVE_BUS
BUS_HANDSHAKE = bytes.fromhex("00 53 50 00 00 70 00 00")
LIMIT = 100


def plain(
    endpoint: EndpointType = BUS, *, is_ipc: bool = False, bytes_max: int = LIMIT
) -> Protocol:
    """Return a new end of a connection without native peers."""
    return Protocol(endpoint, dials=False, is_ipc=is_ipc, bytes_max=bytes_max)


def opened(*, is_ipc: bool = False, bytes_max: int = LIMIT) -> Protocol:
    """Return an end whose handshake is complete."""
    protocol = plain(is_ipc=is_ipc, bytes_max=bytes_max)
    assert protocol.receive_data(BUS_HANDSHAKE) == []
    return protocol


def frames(messages: Iterable[bytes], *, is_ipc: bool = False) -> bytes:
    """Return the bytes of plain messages."""
    return b"".join(frame_head(len(each), is_ipc=is_ipc) + each for each in messages)


def in_pieces(protocol: Protocol, pieces: Iterable[bytes]) -> list[bytes]:
    """Pass pieces to an end, one at a time; return all messages."""
    return [each for piece in pieces for each in protocol.receive_data(piece)]


# The golden bytes of specs/bus-pattern.md.


@clause("BP-9")
@pytest.mark.parametrize("dials", [True, False])
@pytest.mark.parametrize("is_ipc", [True, False])
@pytest.mark.parametrize(
    ("endpoint", "golden"),
    [
        (BUS, "00 53 50 00 00 70 00 00"),
        (PAIR0, "00 53 50 00 00 10 00 00"),
        (PAIR1, "00 53 50 00 00 11 00 00"),
    ],
)
def test_each_end_sends_the_golden_handshake(
    endpoint: EndpointType, golden: str, *, is_ipc: bool, dials: bool
) -> None:
    protocol = Protocol(endpoint, dials=dials, is_ipc=is_ipc, bytes_max=0)

    assert protocol.data_to_send() == bytes.fromhex(golden)
    assert protocol.data_to_send() == b""


GOLDEN: list[tuple[Callable[[], Framing], bytes, bool, str]] = [
    (PlainFraming, b"ABC", False, "00 00 00 00 00 00 00 03 41 42 43"),
    (PlainFraming, b"ABC", True, "01 00 00 00 00 00 00 00 03 41 42 43"),
    (PlainFraming, b"", False, "00 00 00 00 00 00 00 00"),
    (PlainFraming, b"", True, "01 00 00 00 00 00 00 00 00"),
    (
        lambda: Pair1Framing(8),
        b"ABC",
        False,
        "00 00 00 00 00 00 00 07 00 00 00 01 41 42 43",
    ),
    (
        lambda: Pair1Framing(8),
        b"ABC",
        True,
        "01 00 00 00 00 00 00 00 07 00 00 00 01 41 42 43",
    ),
    (lambda: Pair1Framing(8), b"", False, "00 00 00 00 00 00 00 04 00 00 00 01"),
    (lambda: Pair1Framing(8), b"", True, "01 00 00 00 00 00 00 00 04 00 00 00 01"),
]


@clause("BP-9", "BP-20")
@pytest.mark.parametrize(("make", "body", "is_ipc", "golden"), GOLDEN)
def test_a_new_or_forwarded_message_has_the_golden_bytes(
    make: Callable[[], Framing], body: bytes, is_ipc: bool, golden: str
) -> None:
    framing = make()
    for origin, number in ((1, 1), (0xABCD, 77)):  # a new one, a forwarded one
        sent = framing.encode(MessageRun(origin, number, [body]), is_ipc=is_ipc)
        assert sent == bytes.fromhex(golden)


@clause("BP-9", "BP-19")
@pytest.mark.parametrize(("make", "body", "is_ipc", "golden"), GOLDEN)
def test_each_message_of_several_has_a_frame_of_its_own(
    make: Callable[[], Framing], body: bytes, is_ipc: bool, golden: str
) -> None:
    several = make().encode(MessageRun(1, 1, [body] * 3), is_ipc=is_ipc)

    assert several == bytes.fromhex(golden) * 3


@clause("BP-9", "BP-20")
@pytest.mark.parametrize(("make", "body", "is_ipc", "golden"), GOLDEN)
def test_golden_bytes_are_read(
    make: Callable[[], Framing], body: bytes, is_ipc: bool, golden: str
) -> None:
    runs, controls = make().read(
        opened(is_ipc=is_ipc).receive_data(bytes.fromhex(golden) * 2), 5
    )

    assert runs == [MessageRun(5, 1, [body, body])]
    assert not controls


# Pieces.

MESSAGES = [b"ABC", b"", b"", b"0123456789", b"\0SP\0"]


@clause("BP-9", "BP-20")
@pytest.mark.parametrize("is_ipc", [True, False])
def test_bytes_one_at_a_time_are_read(*, is_ipc: bool) -> None:
    data = BUS_HANDSHAKE + frames(MESSAGES, is_ipc=is_ipc)
    protocol = plain(is_ipc=is_ipc)

    assert in_pieces(protocol, (bytes([each]) for each in data)) == MESSAGES
    assert protocol.state is ProtocolState.OPEN


@clause("BP-9", "BP-20")
@pytest.mark.parametrize("is_ipc", [True, False])
def test_bytes_in_any_three_pieces_are_read(*, is_ipc: bool) -> None:
    data = BUS_HANDSHAKE + frames(MESSAGES, is_ipc=is_ipc)

    for first, second in itertools.combinations_with_replacement(range(len(data)), 2):
        pieces = (data[:first], data[first:second], data[second:])
        assert in_pieces(plain(is_ipc=is_ipc), pieces) == MESSAGES, (first, second)


@clause("BP-9")
@pytest.mark.parametrize("is_ipc", [True, False])
def test_of_truncated_bytes_the_complete_messages_are_read(*, is_ipc: bool) -> None:
    data = BUS_HANDSHAKE + frames(MESSAGES, is_ipc=is_ipc)
    ends = [
        len(BUS_HANDSHAKE + frames(MESSAGES[:count], is_ipc=is_ipc))
        for count in range(1, len(MESSAGES) + 1)
    ]

    for stop in range(len(data)):
        protocol = plain(is_ipc=is_ipc)
        complete = sum(end <= stop for end in ends)
        assert protocol.receive_data(data[:stop]) == MESSAGES[:complete], stop
        shaking = stop < len(BUS_HANDSHAKE)
        expected = ProtocolState.HANDSHAKE if shaking else ProtocolState.OPEN
        assert protocol.state is expected


@given(
    messages=st.lists(st.binary(max_size=LIMIT), max_size=8),
    sizes=st.lists(st.integers(0, 40)),
    is_ipc=st.booleans(),
)
@clause("BP-9", "BP-19", "BP-20")
def test_messages_are_read_as_they_were_sent(
    messages: list[bytes], sizes: list[int], *, is_ipc: bool
) -> None:
    data = BUS_HANDSHAKE + frames(messages, is_ipc=is_ipc)
    ends = [0, *itertools.accumulate(sizes), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(ends[:-1])]
    pieces.append(data[ends[-2] :])

    assert in_pieces(plain(is_ipc=is_ipc), pieces) == messages


# Handshakes that break the rules.


@clause("BP-4")
@pytest.mark.parametrize("changed", range(8))
@pytest.mark.parametrize("in_one", [True, False])
def test_a_handshake_with_any_wrong_byte_is_refused(
    changed: int, *, in_one: bool
) -> None:
    """Also the version, which is the last byte of the magic number, and the role."""
    data = bytearray(BUS_HANDSHAKE)
    data[changed] ^= 1
    protocol = plain()

    with pytest.raises(WireError, match="SP handshake has"):
        in_pieces(protocol, [bytes(data)] if in_one else (bytes([b]) for b in data))

    assert protocol.state is ProtocolState.FAILED
    assert protocol.agreed is None


@clause("BP-4")
@pytest.mark.parametrize("length", range(1, 5))
def test_a_wrong_magic_number_is_refused_at_its_first_wrong_byte(length: int) -> None:
    data = MAGIC[: length - 1] + b"\xff"
    protocol = plain()
    assert protocol.receive_data(data[:-1]) == []

    with pytest.raises(WireError, match=f"a wrong magic number: {data.hex()}"):
        protocol.receive_data(data[-1:])


@clause("BP-4")
@pytest.mark.parametrize("own", [BUS, PAIR0, PAIR1])
@pytest.mark.parametrize("other", [0, 0x20, 0x71, *EndpointType])
def test_only_the_own_endpoint_type_is_accepted(own: EndpointType, other: int) -> None:
    protocol = plain(own)
    stated = MAGIC + other.to_bytes(2) + bytes(2)

    if own == other:
        assert protocol.receive_data(stated) == []
        assert protocol.agreed is own
    else:
        with pytest.raises(WireError, match=rf"type {other:#x}\b.*, not {own:#x} "):
            protocol.receive_data(stated)


@clause("BP-4")
@pytest.mark.parametrize("reserved", [b"\0\1", b"\1\0", b"\xff\xff"])
def test_reserved_bytes_other_than_0_are_refused(reserved: bytes) -> None:
    with pytest.raises(WireError, match="reserved bytes other than 0"):
        plain().receive_data(BUS_HANDSHAKE[:6] + reserved)


@clause("BP-4")
def test_a_failed_connection_accepts_no_bytes() -> None:
    protocol = plain()
    with pytest.raises(WireError):
        protocol.receive_data(b"GET / HTTP/1.1\r\n")

    assert protocol.receive_data(BUS_HANDSHAKE + frames([b"x"])) == []
    assert protocol.state is ProtocolState.FAILED


@pytest.mark.parametrize(("stated", "name"), [(0x70, r"0x70 \(BUS\)"), (0x20, "0x20")])
def test_the_error_of_another_protocol_names_both(stated: int, name: str) -> None:
    text = f"endpoint type {name}, not 0x11 \\(PAIR1\\); use sockets of one protocol"
    with pytest.raises(WireError, match=text):
        plain(PAIR1).receive_data(MAGIC + stated.to_bytes(2) + bytes(2))


# Frames that break the rules.


@clause("BP-4")
@pytest.mark.parametrize("is_ipc", [True, False])
def test_a_length_above_the_limit_is_refused_once_it_is_read(*, is_ipc: bool) -> None:
    longest = bytes(LIMIT)
    protocol = opened(is_ipc=is_ipc)
    assert protocol.receive_data(frames([longest], is_ipc=is_ipc)) == [longest]

    text = "SP frame has 101 bytes, allowed: 100; SocketConfig.message_bytes of the"
    with pytest.raises(WireError, match=text):
        protocol.receive_data(frame_head(LIMIT + 1, is_ipc=is_ipc))

    assert protocol.state is ProtocolState.FAILED


@clause("BP-4")
@pytest.mark.parametrize("is_ipc", [True, False])
def test_without_a_limit_a_length_of_63_bits_is_allowed(*, is_ipc: bool) -> None:
    """It takes no memory before the data arrive."""
    protocol = opened(is_ipc=is_ipc, bytes_max=0)
    assert protocol.receive_data(frame_head((1 << 63) - 1, is_ipc=is_ipc)) == []
    assert protocol.receive_data(b"some of it") == []

    for length in (1 << 63, (1 << 64) - 1):
        with pytest.raises(WireError, match=f"SP frame has {length} bytes"):
            opened(is_ipc=is_ipc, bytes_max=0).receive_data(
                frame_head(length, is_ipc=is_ipc)
            )


@clause("BP-4")
@pytest.mark.parametrize("kind", [0, 2, 255])
def test_a_frame_on_a_unix_socket_begins_with_its_type(kind: int) -> None:
    head = bytes([kind]) + (3).to_bytes(8)

    with pytest.raises(WireError, match=f"SP frame has type {kind}, not 1"):
        opened(is_ipc=True).receive_data(frames([b"x"], is_ipc=True) + head)


@clause("BP-4")
def test_messages_before_a_fault_are_returned() -> None:
    protocol = opened()

    assert protocol.receive_data(frames([b"good"])) == [b"good"]
    with pytest.raises(WireError):
        protocol.receive_data(frame_head(1 << 40, is_ipc=False))


@pytest.mark.deep
@clause("BP-4")
def test_a_message_in_small_pieces_takes_little_more_memory_than_its_length() -> None:
    """A hostile peer chooses the pieces; as objects they would take 30 times that."""
    length = 100_000
    protocol = opened(bytes_max=0)
    protocol.receive_data(frame_head(length, is_ipc=False))

    tracemalloc.start()
    try:
        for _ in range(length // 2 - 1):
            assert protocol.receive_data(bytes(2)) == []
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 2 * length
    assert protocol.receive_data(b"\0\1" + frames([b"next"])) == [
        bytes(length - 1) + b"\1",
        b"next",
    ]


@clause("BP-9")
def test_long_and_short_pieces_of_a_message_keep_their_order() -> None:
    sizes = (3, 5_000, 1, 1, 70_000, 2, 9_000, 1)
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    head = frame_head(sum(sizes), is_ipc=False)

    [message] = in_pieces(opened(bytes_max=0), [head, *pieces])

    assert type(message) is bytes
    assert message == b"".join(pieces)
