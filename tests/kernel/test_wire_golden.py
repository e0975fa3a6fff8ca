"""The wire: its bytes equal the recorded ones, for each type."""

from __future__ import annotations

import pytest

from bus.kernel.wire import OPTIONAL, FrameType, decode, encode
from specs.clauses import clause
from tests.kernel.golden import FRAMES, VECTORS, name_of


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
        *("UNSUBSCRIBE", "MSG", "ACK", None, "RELEASE", "CONNECT_OFFER"),
        *("ERROR", "PING", "PONG", "BYE", "DISMISS", "DISMISSED", "GAP"),
        *("SLAB_ANSWER", "CLOSE_SLAB"),
    ]
    numbered = {at: name for at, name in enumerate(types, start=1) if name is not None}
    numbered[OPTIONAL + 16] = "OFFER_SLAB"
    first_bytes = {VECTORS[name][0]: name_of(FRAMES[name]) for name in VECTORS}

    assert first_bytes == numbered
    assert {each.value: each.name for each in FrameType} == numbered


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


@clause("BUS-WIRE-1")
def test_a_batch_is_packed_so() -> None:
    """Written by hand from the clause, and so independent of the encoder."""
    header = b"\x0e" + u64(17) + u64(2**63 + 5) + u32(2) + u64(2**40)
    header += u64(0) + u64(0) + u16(2) + u16(4)
    tells = u32(0) + u32(3) + b"\x03\x00" + u64(9) + u32(2**32 - 1) + b"\x01" + u16(3)
    tells += u64(0)
    fails = u32(7) + u32(2**32 - 1) + b"\x04\x02" + u64(1) + u32(2**32 - 1)
    lengths = u32(4) + u32(1) + u32(5) + u32(0)
    bodies = b"\xa3lit" + b"\xc0" + b"\xce" + u32(70_000)

    packed = header + tells + fails + b"\xff" + u16(1) + u64(0) + lengths + bodies

    assert packed.hex() == VECTORS["MSG two runs"].hex()


@clause("BUS-WIRE-1")
def test_payloads_of_bytes_are_packed_as_they_stand() -> None:
    header = b"\x0e" + u64(17) + u64(5) + u32(1) + u64(41)
    header += u64(2**40) + u64(2**40 - 3) + u16(1) + u16(3)
    head = u32(7) + u32(3) + b"\x01\x09" + u64(2) + u32(2**32 - 2) + b"\x00" + u16(3)
    head += u64(0)
    bodies = [b"\xc1 as it stands", b"", b"\x00"]

    packed = header + head + u32(14) + u32(0) + u32(1) + b"".join(bodies)

    assert packed.hex() == VECTORS["MSG raw"].hex()


@clause("BUS-WIRE-1")
def test_the_number_of_a_message_that_is_recorded_ends_the_head_of_its_run() -> None:
    header = b"\x0e" + u64(17) + u64(5) + u32(0) + u64(41)
    header += u64(0) + u64(0) + u16(1) + u16(1)
    head = u32(7) + u32(3) + b"\x01\x00" + u64(0) + u32(2**32 - 1) + b"\x00" + u16(1)

    packed = header + head + u64(2**63 + 9) + u32(1) + b"\xc0"

    assert packed.hex() == VECTORS["MSG recorded"].hex()
