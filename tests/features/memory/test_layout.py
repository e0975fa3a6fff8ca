"""Two regions: blocks apart from the data, and positions that follow from indices."""

from __future__ import annotations

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.features.memory import Pool, PoolLayout, Reader
from bus.features.memory.blocks import BLOCK_BYTES, END, QUEUE_BYTES
from specs.clauses import clause

LAYOUTS = st.builds(
    PoolLayout,
    buffers=st.integers(1, 20),
    buffer_bytes=st.integers(1, 9000),
    icbs=st.integers(0, 20),
    users=st.integers(1, 9),
)


@clause("MC-1")
@given(LAYOUTS)
def test_the_regions_hold_all_and_nothing_overlaps(layout: PoolLayout) -> None:
    queues = [layout.free_direct_at, layout.free_indirect_at]
    queues += [layout.user_queue_at(user) for user in range(layout.users)]
    blocks = [layout.block_at(index) for index in range(layout.blocks)]
    spans = [(at, at + QUEUE_BYTES) for at in queues]
    spans += [(at, at + BLOCK_BYTES) for at in blocks]

    ends = [0, *(end for _, end in spans)]

    assert ends == [*(begin for begin, _ in spans), layout.control_bytes]


@clause("MC-1")
def test_the_control_region_is_read_without_the_data() -> None:
    """The blocks of a message are all there in a mapping of the one region alone."""
    layout = PoolLayout(buffers=4, buffer_bytes=mmap.PAGESIZE, icbs=1, users=2)
    with (
        mmap.mmap(-1, layout.control_bytes) as control,
        mmap.mmap(-1, layout.data_bytes) as data,
    ):
        pool = Pool(layout, control, data)
        pool.publish(bytes(mmap.PAGESIZE + 1), [0, 1])
        first, second = pool.dequeue(0), pool.dequeue(1)
        assert first is not None
        assert second is not None

        alone = Reader(layout, bytes(control), bytes(layout.data_bytes))

        alone.check(first)
        alone.check(second)
        assert not any(alone.read(second))
        pool.close()


@clause("MC-2")
@given(LAYOUTS)
def test_each_dcb_has_one_buffer_of_its_own(layout: PoolLayout) -> None:
    places = [layout.buffer_at(index) for index in range(layout.buffers)]

    assert len(set(places)) == layout.buffers
    assert min(places) == 0
    assert max(places) + layout.buffer_bytes == layout.data_bytes
    assert all(at % layout.buffer_bytes == 0 for at in places)
    direct = [layout.is_direct(index) for index in range(layout.blocks)]
    assert direct == [True] * layout.buffers + [False] * layout.icbs


@clause("MC-2")
def test_a_message_lies_in_the_buffers_of_its_dcbs() -> None:
    layout = PoolLayout(buffers=3, buffer_bytes=2, icbs=0, users=1)
    data = bytearray(layout.data_bytes)
    pool = Pool(layout, bytearray(layout.control_bytes), data)

    pool.publish(b"abcde", [0])

    assert data == b"abcde\0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"buffers": 0}, "buffers must be >= 1, got 0"),
        ({"buffer_bytes": 0}, "buffer_bytes must be >= 1, got 0"),
        ({"icbs": -1}, "icbs must be >= 0, got -1"),
        ({"users": 0}, "users must be >= 1, got 0"),
        ({"buffer_bytes": 2**32}, "buffer_bytes must be <= 4294967295, got 4294967296"),
        ({"icbs": END}, r"buffers \+ icbs must be <= 4294967295, got 4294967296"),
    ],
)
def test_sizes_that_no_pool_can_have_are_refused(
    change: dict[str, int], message: str
) -> None:
    sizes = {"buffers": 1, "buffer_bytes": 1, "icbs": 0, "users": 1}
    PoolLayout(**{**sizes, "buffer_bytes": 2**32 - 1, "icbs": END - 1})

    with pytest.raises(ValueError, match=message):
        PoolLayout(**{**sizes, **change})


@pytest.mark.parametrize("region", ["control", "data"])
def test_a_region_that_is_too_small_is_refused(region: str) -> None:
    layout = PoolLayout(buffers=2, buffer_bytes=8, icbs=1, users=1)
    sizes = {"control": layout.control_bytes, "data": layout.data_bytes}
    sizes[region] -= 1

    with pytest.raises(ValueError, match=f"cannot use a {region} region of"):
        Pool(layout, bytearray(sizes["control"]), bytearray(sizes["data"]))


def test_a_larger_region_is_not_touched_beyond_its_end() -> None:
    """A mapping is rounded up to pages on some systems."""
    layout = PoolLayout(buffers=2, buffer_bytes=3, icbs=1, users=1)
    control = bytearray(b"x" * (layout.control_bytes + 5))
    data = bytearray(b"x" * (layout.data_bytes + 5))

    Pool(layout, control, data).publish(b"abcdef", [0])

    assert control.endswith(b"xxxxx")
    assert data == b"abcdefxxxxx"


def test_a_closed_pool_lets_its_mappings_be_closed() -> None:
    layout = PoolLayout(buffers=2, buffer_bytes=3, icbs=1, users=1)
    control, data = mmap.mmap(-1, 4096), mmap.mmap(-1, 4096)
    pool = Pool(layout, control, data)
    reader = Reader(layout, control, data)
    pool.publish(b"abc", [0])

    pool.close()
    reader.close()

    control.close()
    data.close()
