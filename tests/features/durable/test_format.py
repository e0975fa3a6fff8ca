"""The file of horizons: the result of reading it whole, torn or broken."""

from __future__ import annotations

import pytest

from bus.errors import HorizonError
from bus.features.durable import format as horizon_format
from bus.features.durable.format import (
    GROUP_BYTES_MAX,
    MAGIC,
    Owner,
    groups,
    head,
    read,
)
from bus.features.durable.horizons import Horizon
from specs.clauses import clause

PATH = "/there/horizons"
OWNER = Owner("bus1", "machine", "me", 77)
LAST = 2**64 - 1


def stored(*each: dict[str, Horizon]) -> list[bytes]:
    return [head(OWNER), *[group for one in each for group in groups(one)]]


FIRST, SECOND = {"a": Horizon(1, 2)}, {"m/b": Horizon(LAST, LAST), "a": Horizon(1, 9)}


def test_what_is_written_is_read() -> None:
    owner, horizons = read(b"".join(stored(FIRST, SECOND)), PATH)

    assert owner == OWNER
    assert horizons == {"a": Horizon(1, 9), "m/b": Horizon(LAST, LAST)}


@clause("AMO-20")
def test_the_highest_horizon_of_a_sender_counts() -> None:
    """In whatever order they stand: no write can lower one."""
    _, horizons = read(b"".join(stored({"a": Horizon(3, 1)}, FIRST)), PATH)

    assert horizons == {"a": Horizon(3, 1)}


def test_a_group_has_a_bounded_length() -> None:
    many = {f"machine/{number}": Horizon(1, number) for number in range(1000)}

    parts = list(groups(many))

    assert len(parts) > 1
    assert max(map(len, parts)) < 2 * GROUP_BYTES_MAX
    assert read(b"".join([head(OWNER), *parts]), PATH) == (OWNER, many)


@clause("AMO-20")
def test_a_torn_last_group_is_dropped() -> None:
    """Its write was not synced, so none of its messages was handed over."""
    begin, first, last = stored(FIRST, SECOND)

    for size in range(len(last)):
        for torn in (last[:size], last[:size].ljust(len(last), b"\0")):
            _, horizons = read(begin + first + torn, PATH)
            assert horizons in (FIRST, {**FIRST, **SECOND})


@clause("AMO-20")
def test_a_flipped_bit_in_the_last_group_lowers_no_horizon() -> None:
    """It may have been synced, and its messages handed over."""
    begin, first, last = stored(FIRST, SECOND)

    for bit in range(8 * len(last)):
        flipped = bytearray(last)
        flipped[bit // 8] ^= 1 << bit % 8
        _, horizons = read(begin + first + bytes(flipped), PATH)
        assert horizons == {**FIRST, **SECOND}, bit


@clause("AMO-20")
def test_a_flipped_bit_before_the_last_group_is_an_error() -> None:
    begin, first, last = stored(FIRST, SECOND)

    for bit in range(8 * len(begin + first)):
        flipped = bytearray(begin + first + last)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(HorizonError) as raised:
            read(bytes(flipped), PATH)
        error = raised.value
        assert error.offset in {0, len(MAGIC), len(begin)}
        assert str(error).startswith(f"cannot use the horizons in {PATH} at byte ")
        assert "restore the directory" in str(error)


@pytest.mark.parametrize(
    ("data", "fact"),
    [
        (b"", "does not begin with the magic number"),
        (b"MCAP" + bytes(60), "does not begin with the magic number"),
        (MAGIC, "its owner is not readable"),
        (head(OWNER)[:-1], "its owner is not readable"),
        (head(OWNER) + horizon_format._frame(b"\x01"), "Expected `array`"),
    ],
    ids=["empty", "other", "no owner", "cut owner", "no group"],
)
def test_a_file_of_another_format_is_an_error(data: bytes, fact: str) -> None:
    with pytest.raises(HorizonError, match=fact):
        read(data, PATH)


def test_zeros_behind_the_last_group_are_no_group() -> None:
    """A file may have got its length before its bytes."""
    _, horizons = read(b"".join(stored(FIRST)) + bytes(512), PATH)

    assert horizons == FIRST
