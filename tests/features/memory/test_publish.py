"""Publishing: blocks taken, bytes written, counts, and what a refusal changes."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import ArenaFullError, BusFullError
from bus.features.memory import Excerpt, Mode
from bus.features.memory.blocks import INDIRECT
from bus.features.memory.recipients import Recipient
from specs.clauses import clause
from tests.depth import among
from tests.features.memory.support import CountingRegion, Site, content_of

if TYPE_CHECKING:
    from bus.features.memory import Descriptor
    from bus.features.memory.blocks import ControlBlock

MODES = pytest.mark.parametrize("mode", list(Mode))


@clause("MC-7")
@MODES
@pytest.mark.parametrize(
    ("total", "used"),
    [
        (0, [0]),
        (1, [1]),
        (3, [3]),
        (4, [4]),
        (5, [4, 1]),
        (8, [4, 4]),
        (9, [4, 4, 1]),
        (32, [4] * 8),
    ],
)
def test_a_message_takes_as_many_buffers_as_it_fills(
    total: int, used: list[int], mode: Mode
) -> None:
    site = Site(buffers=8, size=4)

    site.pool.publish(content_of(total), [0], mode=mode)

    descriptor = site.take(0)
    assert [piece.length for piece in descriptor.pieces] == used
    assert descriptor.total_bytes == total
    assert site.pool.census().free_direct == 8 - len(used)
    blocks = [site.pool.control.block(each.buffer) for each in descriptor.pieces]
    assert [block.bytes_used for block in blocks] == used
    assert {block.buffer_count for block in blocks} == {len(used)}
    assert site.reader.read(descriptor) == content_of(total)


@clause("MC-7", "MC-17")
@given(size=st.integers(1, 9), total=st.integers(0, 70), users=st.integers(1, 5))
def test_what_is_published_is_what_each_recipient_reads(
    size: int, total: int, users: int
) -> None:
    site = Site(buffers=80, size=size, icbs=2, users=users)

    site.pool.publish(content_of(total), range(users))

    descriptors = site.take_all(range(users))
    read = {site.reader.read(descriptor) for descriptor in descriptors}
    assert read == {content_of(total)}
    assert {each.total_bytes for each in descriptors} == {total}
    assert sum(piece.length for piece in descriptors[-1].pieces) == total


@clause("MC-8")
@MODES
@pytest.mark.parametrize("recipients", [1, 2, 3, 64])
def test_the_bytes_are_written_once(recipients: int, mode: Mode) -> None:
    site = Site(buffers=8, size=4, icbs=400, users=64)
    data = CountingRegion(site.layout, site.data)
    site.pool.data = data

    site.pool.publish(content_of(13), range(recipients), mode=mode)

    assert data.written == 13
    read = {site.reader.read(each) for each in site.take_all(range(recipients))}
    assert read == {content_of(13)}


@clause("MC-9", "MC-10")
@pytest.mark.parametrize("recipients", [1, 2, 5])
def test_each_further_recipient_takes_one_icb(recipients: int) -> None:
    site = Site(buffers=8, size=4, icbs=4, users=5)

    site.pool.publish(content_of(9), range(recipients))

    census = site.pool.census()
    assert (census.chained, census.indirect) == (3, recipients - 1)
    assert census.queued == recipients
    queues = [site.pool._recipients[each].queue for each in range(recipients)]
    heads = [next(iter(queue)).index for queue in queues]
    blocks = [site.pool.control.indirect(head) for head in heads]
    assert not blocks[0].is_indirect
    assert all(block.is_indirect for block in blocks[1:])
    assert {block.target for block in blocks[1:]} <= {heads[0]}
    assert site.dup(heads[0]) == recipients


@clause("MC-11")
def test_a_recipient_of_a_variant_that_releases_at_once_frees_nothing_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(buffers=4, size=4, icbs=6, users=3)
    site.pool.publish(content_of(4), [0], mode=Mode.BY_BUFFER)
    original = site.take(0)
    enqueue = Recipient.enqueue

    def enqueue_and_finish(recipient: Recipient[Any], head: ControlBlock) -> None:
        enqueue(recipient, head)
        if recipient is site.pool._recipients[1]:
            site.pool.release(0, original.lease)
            site.pool.release(1, site.take(1).lease)

    monkeypatch.setattr(Recipient, "enqueue", enqueue_and_finish)

    site.pool.publish_variant(0, original.lease, [Excerpt(0), b"new"], [1, 2])

    assert site.pool.check() == []
    assert site.reader.read(site.take(2)) == content_of(4) + b"new"


@clause("MC-12")
@MODES
def test_a_message_has_no_more_holders_than_the_limit(mode: Mode) -> None:
    site = Site(buffers=8, icbs=8, users=4, holders_max=3)
    for recipients in (2, 3):
        site.pool.publish(b"a", range(recipients), mode=mode)
    before = site.bits

    with pytest.raises(ValueError, match=r"to 4 recipients: a message has at most 3"):
        site.pool.publish(b"b", range(4), mode=mode)

    assert site.bits == before
    assert site.pool.check() == []


@clause("MC-12")
@pytest.mark.parametrize("limit", [0, -1, INDIRECT])
def test_a_limit_of_holders_is_below_the_reserved_code(limit: int) -> None:
    Site(holders_max=INDIRECT - 1)

    with pytest.raises(ValueError, match=f"from 1 to 4294967294, got {limit}"):
        Site(holders_max=limit)


@clause("MC-12")
def test_no_variant_gives_a_buffer_more_holders_than_the_limit() -> None:
    """Each buffer of the original is counted, also one that a variant has twice."""
    site = Site(buffers=8, icbs=8, users=3, holders_max=3)
    site.pool.publish(content_of(8), [0], mode=Mode.BY_BUFFER)
    lease = site.take(0).lease
    site.pool.publish_variant(0, lease, [Excerpt(1), Excerpt(0)], [1])
    before = site.bits

    for parts, recipients in (([Excerpt(0)], [1, 2]), ([Excerpt(1), Excerpt(1)], [1])):
        with pytest.raises(BusFullError, match=r"buffer \d is full: 3 holders"):
            site.pool.publish_variant(0, lease, parts, recipients)
        assert site.bits == before

    site.pool.publish_variant(0, lease, [Excerpt(1), Excerpt(0)], [2])
    assert (site.dup(0), site.dup(1)) == (3, 3)
    assert site.pool.check() == []


@clause("MC-13")
@MODES
def test_a_publish_to_nobody_takes_nothing(mode: Mode) -> None:
    site = Site()
    before = site.bits

    site.pool.publish(b"abc", [], mode=mode)

    assert site.bits == before
    site.pool.publish(b"abc", [0], mode=Mode.BY_BUFFER)
    lease, before = site.take(0).lease, site.bits
    site.pool.publish_variant(0, lease, [b"new", Excerpt(0)], [])
    assert site.bits[1] == before[1]
    assert site.dup(0) == 1
    assert site.pool.check() == []


@clause("MC-14", "MC-15")
@pytest.mark.parametrize("icbs", [0, 1, 2])
def test_free_dcbs_serve_as_icbs_if_these_are_short(icbs: int) -> None:
    site = Site(buffers=6, size=4, icbs=icbs, users=4)
    before = [sorted(each) for each in site.free]

    site.pool.publish(content_of(9), range(4))

    census = site.pool.census()
    assert census.free_direct == 6 - 3 - (3 - icbs)
    assert (census.chained, census.borrowed, census.indirect) == (3, 3 - icbs, icbs)
    assert site.pool.check() == []
    for user, held in enumerate(site.take_all(range(4))):
        assert site.reader.read(held) == content_of(9)
        site.pool.release(user, held.lease)
    assert [sorted(each) for each in site.free] == before
    assert site.pool.census().borrowed == 0


@clause("MC-15", "MC-24")
@MODES
def test_no_buffer_is_lost_by_borrowing(mode: Mode) -> None:
    """Also a borrowed DCB that is released last, or used as a DCB in between."""
    site = Site(buffers=7, size=4, icbs=1, users=3)
    orders = list(itertools.permutations(range(3)))

    for turn in range(among(1_000, 10_000)):
        site.pool.publish(
            content_of(5 if mode is Mode.WHOLE else 4), range(3), mode=mode
        )
        held = site.take_all(range(3))
        for user in orders[turn % len(orders)]:
            site.pool.release(user, held[user].lease)

    assert [len(each) for each in site.free] == [7, 1]
    assert site.pool.census().borrowed == 0
    assert site.pool.check() == []


@clause("MC-16")
@MODES
@given(
    icbs=st.integers(0, 4),
    total=st.integers(0, 30),
    users=st.integers(1, 4),
    taken=st.lists(st.integers(0, 9), max_size=3),
)
def test_a_publish_takes_all_its_blocks_or_none(
    icbs: int, total: int, users: int, taken: list[int], mode: Mode
) -> None:
    site = Site(buffers=6, size=4, icbs=icbs, users=4)
    for size in taken:
        if site.pool.has_room(size, 1):
            site.pool.publish(bytes(size), [0])
    before, census = site.bits, site.pool.census()
    chain = max(1, -(-total // 4))
    more = (users - 1) * (chain if mode is Mode.BY_BUFFER else 1)
    fits = chain + max(0, more - icbs) <= census.free_direct

    assert site.pool.has_room(total, users, mode=mode) == fits
    if fits:
        site.pool.publish(content_of(total), range(users), mode=mode)
        assert site.pool.check() == []
        return
    with pytest.raises(ArenaFullError) as caught:
        site.pool.publish(content_of(total), range(users), mode=mode)

    assert site.bits == before
    assert site.pool.census() == census
    assert (caught.value.needed, caught.value.limit) == (total, 24)


@clause("MC-16")
@pytest.mark.parametrize(
    ("parts", "recipients", "size"),
    [
        ([Excerpt(0), b"abcde"], [1], 9),  # a DCB is missing
        ([Excerpt(0)], [1, 2, 3], 4),  # an indirect block is
        ([b"abc"], [1, 2, 3], 3),
    ],
)
def test_a_variant_takes_all_its_blocks_or_none(
    parts: list[bytes | Excerpt], recipients: list[int], size: int
) -> None:
    site = Site(buffers=2, size=4, icbs=1, users=4)
    site.pool.publish(content_of(4), [0], mode=Mode.BY_BUFFER)
    lease = site.take(0).lease
    before = site.bits

    with pytest.raises(ArenaFullError) as caught:
        site.pool.publish_variant(0, lease, parts, recipients)

    assert site.bits == before
    assert caught.value.needed == size
    assert site.pool.check() == []


@clause("MC-16")
def test_there_is_always_room_for_nobody() -> None:
    site = Site(buffers=1)
    site.pool.publish(b"a", [0])

    assert site.pool.has_room(1000, 0)
    assert not site.pool.has_room(1, 1)


@clause("MC-10")
def test_a_recipient_that_is_named_twice_gets_the_message_twice() -> None:
    site = Site()

    site.pool.publish(b"abc", [1, 1])

    held: list[Descriptor] = site.take_all([1, 1])
    assert [site.reader.read(each) for each in held] == [b"abc", b"abc"]
    for each in held:
        assert site.pool.release(1, each.lease)
    assert site.pool.census().free_direct == 8


def test_any_contiguous_buffer_can_be_published() -> None:
    site = Site(size=8)
    for payload in (b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        site.pool.publish(payload, [0])
        assert site.reader.read(site.take(0)) == b"abc"
    site.pool.publish(memoryview(b"\1\0\2\0").cast("H"), [0])
    assert site.reader.read(site.take(0)) == b"\1\0\2\0"
    site.pool.publish((ctypes.c_uint8 * 3 * 0)(), [0])  # a shape with a zero
    assert site.reader.read(site.take(0)) == b""
    before = site.bits

    for wrong, problem in (
        ("abc", "payload must be bytes-like, got str"),
        (memoryview(b"abcd")[::2], "must be C-contiguous"),
    ):
        with pytest.raises(TypeError, match=problem):
            site.pool.publish(wrong, [0])  # type: ignore[arg-type] # under test

    assert site.bits == before
