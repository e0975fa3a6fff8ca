"""The header of a segment: it is read as written, and damage is detected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.journal.header import (
    HEADER_BYTES,
    LOST_MAX,
    LOST_OFFSET,
    NUMBER_MAX,
    SEAL_OFFSET,
    SEGMENT_MAX,
    Seal,
    SegmentHeader,
    boot_id,
)
from queuebroker import _files, _sync

if TYPE_CHECKING:
    from pathlib import Path

HEADER = SegmentHeader(
    journal=0x0102030405060708,
    segment=3,
    first_n=3000,
    slots=1000,
    boot_id=bytes(range(16)),
    mono=-5,
    wall=1_700_000_000_000_000_000,
)
SEAL = Seal(used=1000, count=998, crc32=0xDEADBEEF, lost=7)

seals = st.builds(
    lambda holes, count, crc32, lost: Seal(count + holes, count, crc32, lost),
    holes=st.integers(0, 2**32),
    count=st.integers(0, 2**62),
    crc32=st.integers(0, 2**32 - 1),
    lost=st.integers(0, LOST_MAX),
)
headers = st.builds(
    SegmentHeader,
    journal=st.integers(0, 2**64 - 1),
    segment=st.integers(0, SEGMENT_MAX),
    first_n=st.integers(0, NUMBER_MAX - 2**32),
    slots=st.integers(0, 2**32 - 1),
    boot_id=st.binary(min_size=16, max_size=16),
    mono=st.integers(-(2**63), 2**63 - 1),
    wall=st.integers(-(2**63), 2**63 - 1),
    seal=st.none() | seals,
    lost=st.integers(0, 2**64 - 1),
)


@given(headers)
def test_a_header_is_read_as_it_was_written(header: SegmentHeader) -> None:
    packed = header.pack()

    assert len(packed) == HEADER_BYTES
    assert SegmentHeader.unpack(packed) == header


def test_a_header_begins_with_these_bytes() -> None:
    assert HEADER.pack()[:64] == (
        b"QBJ1"
        + bytes.fromhex("0100 5000 03000000 e8030000 0807060504030201")
        + bytes.fromhex("b80b000000000000 000102030405060708090a0b0c0d0e0f")
        + bytes.fromhex("fbffffffffffffff 00002a36fe9c9717")
    )


def test_holes_are_the_slots_without_a_record() -> None:
    assert SEAL.holes == 2


@pytest.mark.parametrize("byte", range(68))
def test_a_changed_byte_of_the_head_is_noticed(byte: int) -> None:
    packed = bytearray(HEADER.pack())
    packed[byte] ^= 0x10

    with pytest.raises(ValueError, match="byte"):
        SegmentHeader.unpack(bytes(packed))


@pytest.mark.parametrize("byte", range(SEAL_OFFSET, SEAL_OFFSET + 36))
def test_a_changed_byte_of_the_seal_is_noticed(byte: int) -> None:
    packed = bytearray(attrs.evolve(HEADER, seal=SEAL).pack())
    packed[byte] ^= 0x10

    header = SegmentHeader.unpack(bytes(packed))

    assert header.seal is None
    assert header.seal_flaw == "the seal at byte 512 is damaged"


def test_a_file_that_is_no_segment_is_refused_with_its_first_bytes() -> None:
    with pytest.raises(
        ValueError, match=r"not a journal segment: byte 0 reads b'\\x7fELF'"
    ):
        SegmentHeader.unpack(b"\x7fELF" + bytes(HEADER_BYTES))


def test_a_short_header_is_refused_with_where_it_ends() -> None:
    with pytest.raises(ValueError, match="ends at byte 100, expected 4096"):
        SegmentHeader.unpack(HEADER.pack()[:100])


def test_another_record_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bus.journal.header.RECORD_VERSION", 2)
    packed = HEADER.pack()
    monkeypatch.undo()

    with pytest.raises(ValueError, match="version 2 of 80 bytes is not supported"):
        SegmentHeader.unpack(packed)


def test_losses_are_read_beside_the_seal() -> None:
    packed = bytearray(attrs.evolve(HEADER, seal=SEAL).pack())
    packed[LOST_OFFSET] = 9

    header = SegmentHeader.unpack(bytes(packed))

    assert header.lost == 9
    assert header.seal == SEAL


@pytest.mark.parametrize(
    "numbers",
    [{"segment": SEGMENT_MAX + 1}, {"first_n": NUMBER_MAX}, {"first_n": 2**64 - 1}],
)
def test_numbers_that_no_column_holds_are_damage(numbers: dict[str, int]) -> None:
    packed = attrs.evolve(HEADER, **numbers).pack()  # type: ignore[arg-type] # as the class says

    with pytest.raises(ValueError, match="is too large"):
        SegmentHeader.unpack(packed)


@pytest.mark.parametrize(
    "seal", [attrs.evolve(SEAL, count=1001), attrs.evolve(SEAL, lost=LOST_MAX + 1)]
)
def test_a_seal_that_cannot_be_true_is_damaged(seal: Seal) -> None:
    header = SegmentHeader.unpack(attrs.evolve(HEADER, seal=seal).pack())

    assert header.seal is None
    assert header.seal_flaw == "the seal at byte 512 is damaged"


def test_linux_gives_its_boot_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "boot_id"
    path.write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    monkeypatch.setattr("bus.journal.header.SYSTEM", "linux")
    monkeypatch.setattr("bus.journal.header._BOOT_ID", path)

    assert boot_id() == bytes.fromhex("0123456789abcdef" * 2)


@pytest.mark.parametrize(
    ("system", "text"),
    [("posix", ""), ("linux", "not a number"), ("linux", None)],
    ids=["macOS", "unreadable", "missing"],
)
def test_a_boot_without_a_number_is_known_by_its_host_and_its_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, text: str | None
) -> None:
    path = tmp_path / "boot_id"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr("bus.journal.header.SYSTEM", system)
    monkeypatch.setattr("bus.journal.header._BOOT_ID", path)

    def boot(host: str, wall_s: int, monotonic_s: int) -> bytes:
        monkeypatch.setattr(_files, "host_name", lambda: host)
        monkeypatch.setattr(_sync, "wall_ns", lambda: wall_s * 10**9)
        monkeypatch.setattr(_sync, "monotonic_ns", lambda: monotonic_s * 10**9)
        return boot_id()

    one = boot("here", 60_030, 30)
    assert len(one) == 16
    assert boot("here", 70_030, 10_030) == one
    assert boot("there", 60_030, 30) != one
    assert boot("here", 60_130, 30) != one
