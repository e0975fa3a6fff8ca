"""Variants: buffers of an original dropped, reordered, trimmed, and mixed with new."""

from __future__ import annotations

import ctypes
import zlib

import pytest

from bus.errors import StaleLeaseError
from bus.features.memory import Excerpt, Mode
from bus.features.memory.blocks import END, INDIRECT
from specs.clauses import clause
from tests.features.memory.support import CountingRegion, Site

ORIGINAL = b"abcdEFGHijkl"  # three buffers of four bytes


def with_original(recipients: int = 1, icbs: int = 8) -> tuple[Site, int]:
    """Return a pool in which recipient 0 has leased the original."""
    site = Site(buffers=8, size=4, icbs=icbs, users=4)
    site.pool.publish(ORIGINAL, range(recipients), mode=Mode.BY_BUFFER)
    return site, site.take(0).lease


@clause("MC-25", "MC-28")
@pytest.mark.parametrize("icbs", [0, 8])
@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([Excerpt(0), Excerpt(1), Excerpt(2)], b"abcdEFGHijkl"),
        ([Excerpt(0), Excerpt(2)], b"abcdijkl"),  # drops
        ([Excerpt(2), Excerpt(0)], b"ijklabcd"),  # reorders
        ([Excerpt(1, 1, 2)], b"FG"),  # trims
        ([Excerpt(1, 2)], b"GH"),
        ([Excerpt(1, 0, 0)], b""),
        ([Excerpt(1), Excerpt(1)], b"EFGHEFGH"),  # repeats
        ([b"new", Excerpt(1)], b"newEFGH"),  # a header before a shared body
        ([Excerpt(1), b"new"], b"EFGHnew"),
        ([b"longer", Excerpt(2, 3), b"x"], b"longerlx"),
        ([b"only new"], b"only new"),
        ([b"", Excerpt(0)], b"abcd"),
        ([b""], b""),
        ([Excerpt(2), (ctypes.c_uint8 * 3 * 0)()], b"ijkl"),  # a shape with a zero
        ([], b""),
    ],
)
def test_a_variant_is_what_its_parts_make(
    parts: list[Excerpt | bytes], content: bytes, icbs: int
) -> None:
    site, lease = with_original(icbs=icbs)
    data = CountingRegion(site.layout, site.data)
    site.pool.data = data

    site.pool.publish_variant(0, lease, parts, [1])

    held = site.take(1)
    assert site.reader.read(held) == content
    assert held.total_bytes == len(content)
    # Only the new bytes are written.
    assert data.written == sum(len(part) for part in parts if isinstance(part, bytes))
    assert site.pool.check() == []
    site.pool.release(1, held.lease)
    assert site.pool.census().chained == 3
    site.pool.release(0, lease)
    assert [len(each) for each in site.free] == [8, icbs]


@clause("MC-25")
def test_an_extended_icb_has_fields_of_its_own() -> None:
    site, lease = with_original(icbs=2)

    site.pool.publish_variant(0, lease, [Excerpt(2, 1, 2), b"new", Excerpt(0)], [1])

    # The ICBs are blocks 8 and 9, the new bytes are in DCB 3.
    fields = [site.pool.control.block(index).read() for index in (8, 3, 9)]
    # dup, used, offset, next, last, next message, target, mode, total, count, gen.
    assert fields == [
        (INDIRECT, 2, 1, 3, 9, END, 2, 1, 9, 3, 0),
        (1, 3, 0, 9, 9, END, END, 1, 9, 3, 0),
        (INDIRECT, 4, 0, END, 9, END, 0, 1, 9, 3, 0),
    ]


@clause("MC-25")
def test_the_original_is_unchanged_and_every_recipient_has_its_own() -> None:
    site, lease = with_original(recipients=2)

    site.pool.publish_variant(0, lease, [Excerpt(2), b"!"], [1, 2])
    site.pool.publish_variant(0, lease, [Excerpt(0, 2)], [2, 3])

    def drain(user: int) -> list[bytes]:
        read = []
        while (held := site.pool.dequeue(user)) is not None:
            read.append(site.reader.read(held))
        return read

    assert drain(1) == [ORIGINAL, b"ijkl!"]
    assert drain(2) == [b"ijkl!", b"cd"]
    assert drain(3) == [b"cd"]
    site.pool.publish_variant(0, lease, [Excerpt(place) for place in range(3)], [3])
    assert drain(3) == [ORIGINAL]
    assert site.pool.check() == []


@clause("MC-8", "MC-28")
def test_new_bytes_are_written_once_for_all_recipients_of_a_variant() -> None:
    site, lease = with_original()
    data = CountingRegion(site.layout, site.data)
    site.pool.data = data

    site.pool.publish_variant(0, lease, [b"header", Excerpt(0)], [1, 2, 3])

    assert data.written == 6
    read = {site.reader.read(held) for held in site.take_all([1, 2, 3])}
    assert read == {b"headerabcd"}


@clause("MC-26")
def test_each_buffer_counts_its_own_holders() -> None:
    site, lease = with_original(recipients=2)
    assert [site.dup(buffer) for buffer in range(3)] == [2, 2, 2]

    site.pool.publish_variant(0, lease, [Excerpt(0), b"x", Excerpt(0)], [2, 3])
    assert [site.dup(buffer) for buffer in range(4)] == [6, 2, 2, 2]

    site.pool.release(2, site.take(2).lease)
    assert [site.dup(buffer) for buffer in range(4)] == [4, 2, 2, 1]
    site.pool.release(0, lease)
    assert [site.dup(buffer) for buffer in range(4)] == [3, 1, 1, 1]
    site.pool.release(1, site.take(1).lease)
    assert [site.dup(buffer) for buffer in range(4)] == [2, 0, 0, 1]
    site.pool.release(3, site.take(3).lease)
    assert [site.dup(buffer) for buffer in range(4)] == [0, 0, 0, 0]
    assert [len(each) for each in site.free] == [8, 8]


@clause("MC-27")
def test_a_buffer_is_freed_as_soon_as_nobody_holds_it() -> None:
    """The variant has buffers 0 and 2; buffer 1 is freed with the original."""
    site, lease = with_original()
    site.pool.publish_variant(0, lease, [Excerpt(0), Excerpt(2)], [1])
    held = site.take(1)

    site.pool.release(0, lease)

    assert site.free[0] == [3, 4, 5, 6, 7, 1]
    site.pool.publish(b"over", [2])
    assert site.reader.read(held) == b"abcdijkl"
    site.pool.release(1, held.lease)
    assert site.free[0] == [4, 5, 6, 7, 1, 0, 2]
    assert site.pool.check() == []


@clause("MC-27")
def test_a_chain_has_one_mode_for_its_life() -> None:
    site = Site(users=2)
    site.pool.publish(b"abcdef", [0])
    lease = site.take(0).lease
    before = site.bits

    with pytest.raises(ValueError, match=r"publish it with mode=Mode\.BY_BUFFER"):
        site.pool.publish_variant(0, lease, [Excerpt(0)], [1])

    assert site.bits == before


@clause("MC-25", "MC-27")
def test_a_variant_may_be_the_original_of_another() -> None:
    """Its excerpts are cut from what it shows, and need the first original no more."""
    site, lease = with_original()
    site.pool.publish_variant(0, lease, [b"<", Excerpt(1, 1), b">"], [1])
    between = site.take(1).lease
    site.pool.release(0, lease)

    parts = [Excerpt(2), Excerpt(1, 1, 1), Excerpt(0)]
    site.pool.publish_variant(1, between, parts, [2, 3])
    site.pool.release(1, between)

    assert site.reader.read(site.take(2)) == b">G<"
    assert site.reader.read(site.take(3)) == b">G<"
    assert site.pool.check() == []
    site.pool.release_all(2)
    site.pool.release_all(3)
    assert [len(each) for each in site.free] == [8, 8]


@pytest.mark.deep
@clause("MC-28")
def test_a_shared_buffer_is_never_written_again() -> None:
    site, lease = with_original()
    body = zlib.crc32(site.data[:12])

    for number in range(1000):
        header = number.to_bytes(4, "big")
        site.pool.publish_variant(
            0, lease, [header, Excerpt(0), Excerpt(1), Excerpt(2)], [1, 2]
        )
        for user, held in zip((1, 2), site.take_all([1, 2]), strict=True):
            assert site.reader.read(held) == header + ORIGINAL
            site.pool.release(user, held.lease)

    assert zlib.crc32(site.data[:12]) == body
    assert site.pool.check() == []
    assert site.pool.census().chained == 3


@clause("MC-21")
def test_a_variant_needs_a_lease_that_the_holder_has() -> None:
    site, lease = with_original(recipients=2)
    site.pool.release(0, lease)
    other = site.take(1).lease
    before = site.bits

    for holder, wrong in ((0, lease), (0, other), (1, 99)):
        with pytest.raises(StaleLeaseError) as caught:
            site.pool.publish_variant(holder, wrong, [Excerpt(0)], [2])
        assert caught.value.lease == wrong

    assert site.bits == before


@clause("MC-25")
@pytest.mark.parametrize(
    ("excerpt", "message"),
    [
        (Excerpt(3), "has the pieces 0 to 2"),
        (Excerpt(-1), "has the pieces 0 to 2"),
        (Excerpt(0, 5), "the piece has 4 bytes"),
        (Excerpt(0, -1), "the piece has 4 bytes"),
        (Excerpt(0, 2, 3), "the piece has 4 bytes"),
        (Excerpt(0, 2, -1), "the piece has 4 bytes"),
    ],
)
def test_an_excerpt_outside_of_the_original_is_refused(
    excerpt: Excerpt, message: str
) -> None:
    site, lease = with_original()
    before = site.bits

    with pytest.raises(ValueError, match=message):
        site.pool.publish_variant(0, lease, [b"new", excerpt], [1])

    assert site.bits == before
