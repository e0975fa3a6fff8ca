"""The wire: its bytes are those that were written down, type by type."""

from __future__ import annotations

import pytest

from bus.core.wire import FrameType, decode, encode
from specs.clauses import clause
from tests.core.golden import FRAMES, VECTORS, name_of


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_the_bytes_that_were_written_down(name: str) -> None:
    assert encode(FRAMES[name]).hex() == VECTORS[name].hex()


@clause("BUS-WIRE-1")
@pytest.mark.parametrize("name", VECTORS)
def test_bytes_that_were_written_down_are_the_frame(name: str) -> None:
    assert decode(VECTORS[name]) == FRAMES[name]
    assert decode(memoryview(VECTORS[name])) == FRAMES[name]


@clause("BUS-WIRE-2")
def test_there_is_a_vector_of_each_type_and_it_begins_with_its_number() -> None:
    types = [
        *("HELLO", "WELCOME", "REFUSED", "OPEN_STREAM", "EXPORT", "UNEXPORT"),
        *("SEARCH", "CANCEL", "ADD_RELAY", "UNRELAY", "ELIMINATE", "SUBSCRIBE"),
        *("UNSUBSCRIBE", "MSG", "ACK", "DESCRIPTOR", "RELEASE", "CONNECT_OFFER"),
        *("ERROR", "PING", "PONG", "BYE"),
    ]
    first_bytes = {VECTORS[name][0]: name_of(FRAMES[name]) for name in VECTORS}

    assert first_bytes == dict(enumerate(types, start=1))
    assert [each.name for each in FrameType] == types


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


@clause("BUS-WIRE-1")
def test_a_batch_is_packed_so() -> None:
    """Written by hand from the clause, and so independent of what packs it."""
    body = b"\x93\xa3add\x01\xcb\x40\x04" + bytes(6)
    header = b"\x0e" + u64(17) + u64(2**63 + 5) + u32(2) + u64(2**40) + u16(2)
    asks = u32(7) + u32(3) + b"\x01\x01" + u64(2**64 - 1) + u32(10_000) + b"\x00"
    fails = u32(7) + u32(2**32 - 1) + b"\x04\x02" + u64(1) + u32(2**32 - 1) + b"\xff"

    packed = header + asks + u32(len(body)) + fails + u32(0) + body

    assert packed.hex() == VECTORS["MSG"].hex()
