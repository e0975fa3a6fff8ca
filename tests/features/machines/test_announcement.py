"""The bytes of an announcement, and its tags (BUS-DISC)."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import WireError
from bus.features.machines.announcement import (
    ANNOUNCEMENT_BYTES_MAX,
    Announcement,
    decode_announcement,
    encode_announcement,
    is_signed,
)
from specs.clauses import clause
from tests.kit.discovery import GROUP_KEY, announcement

KEYS = (GROUP_KEY,)
LATER_KEY = b"later key".ljust(32)
ANNOUNCEMENT = announcement("m", instance=7, host="192.0.2.1", port=7400)


@clause("BUS-DISC-4")
def test_an_announcement_comes_back_from_its_bytes() -> None:
    """Machine, address and instance travel in one signed datagram."""
    data = encode_announcement(ANNOUNCEMENT, KEYS)
    assert decode_announcement(data) == ANNOUNCEMENT
    assert is_signed(data, KEYS)


@clause("BUS-DISC-4")
def test_the_longest_announcement_fits_into_its_bound() -> None:
    """Any legal names give less than 512 bytes."""
    longest = Announcement(
        bus="b" * 32,
        machine="m" * 63,
        machine_id="i" * 63,
        instance=2**64 - 1,
        counter=2**64 - 1,
        versions=(2**16 - 1, 2**16 - 1),
        host="fdff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
        port=2**16 - 1,
        advertised=True,
        leaves=True,
    )
    data = encode_announcement(longest, (GROUP_KEY, LATER_KEY))
    assert len(data) < ANNOUNCEMENT_BYTES_MAX
    assert decode_announcement(data) == longest


@clause("BUS-DISC-4")
def test_the_versions_of_an_announcement_are_in_order() -> None:
    data = encode_announcement(announcement("m", versions=(1, 2)), ())
    swapped = data.replace(b"versions\x92\1\2", b"versions\x92\2\1")
    assert decode_announcement(data).versions == (1, 2)

    with pytest.raises(WireError, match="lowest and highest, got 2, 1"):
        decode_announcement(swapped)


@clause("BUS-SEC-6")
@given(st.integers(0, 10_000), st.integers(1, 255))
def test_one_changed_byte_is_noticed(at: int, change: int) -> None:
    """No byte of a signed announcement can be changed."""
    data = bytearray(encode_announcement(ANNOUNCEMENT, KEYS))
    data[at % len(data)] ^= change
    assert not is_signed(bytes(data), KEYS)


@clause("BUS-SEC-6")
@pytest.mark.parametrize("tags", [0, 1])
def test_no_tag_can_be_taken_away(tags: int) -> None:
    data = bytearray(encode_announcement(ANNOUNCEMENT, (LATER_KEY, GROUP_KEY)))
    assert is_signed(bytes(data), KEYS)
    body, tag = data[:-64], data[-32:]
    body[4] = tags

    assert not is_signed(bytes(body + tag * tags), KEYS)


@clause("BUS-SEC-6")
def test_a_datagram_shorter_than_its_tags_is_not_signed() -> None:
    """Even if it ends with the tag of an empty datagram."""
    data = b"ISMA\2" + hmac.digest(GROUP_KEY, b"", "sha256")

    assert not is_signed(data, KEYS)
    with pytest.raises(WireError, match="no announcement"):
        decode_announcement(data)


@clause("BUS-SEC-6", "BUS-DISC-4")
def test_a_datagram_that_is_too_long_is_not_even_hashed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("hmac.digest")
    data = encode_announcement(ANNOUNCEMENT, ())[:4] + b"\1" + bytes(64_000)

    assert not is_signed(data, KEYS)


@clause("BUS-SEC-8")
@given(st.binary(max_size=600))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    """No bytes raise another error than `WireError`."""
    for each in (data, *(b"ISMA" + bytes([tags]) + data for tags in range(4))):
        try:
            decode_announcement(each)
        except WireError as error:
            assert len(str(error)) < 200  # noqa: PT017 # for some inputs alone
