"""The recipient's side: it only reads, and trusts no descriptor."""

from __future__ import annotations

import mmap
import os
import tempfile

import pytest

from bus.errors import WireError
from bus.features.memory import Descriptor, Piece, Pool, PoolLayout, Reader
from specs.clauses import clause
from tests.features.memory.support import Site, content_of


@clause("MC-22", "MC-1")
def test_a_reader_needs_no_right_to_write() -> None:
    """Two mappings of the same memory, that of the reader read-only."""
    page = mmap.PAGESIZE
    layout = PoolLayout(buffers=4, buffer_bytes=page, icbs=2, users=2)
    with tempfile.TemporaryFile() as control, tempfile.TemporaryFile() as data:
        os.ftruncate(control.fileno(), layout.control_bytes)
        os.ftruncate(data.fileno(), layout.data_bytes)
        files = (control.fileno(), data.fileno())
        own = [mmap.mmap(file, 0) for file in files]
        read_only = [mmap.mmap(file, 0, prot=mmap.PROT_READ) for file in files]
        pool, reader = Pool(layout, *own), Reader(layout, *read_only)

        pool.publish(content_of(page + 9), [0, 1])

        held = pool.dequeue(1)
        assert held is not None
        assert reader.read(held) == content_of(page + 9)
        pool.close()
        reader.close()
        for mapping in own + read_only:
            mapping.close()


def test_views_are_read_only_and_not_copied() -> None:
    site = Site(buffers=3, size=4)
    site.pool.publish(b"abcdef", [0])

    views = site.reader.views(site.take(0))

    assert [bytes(view) for view in views] == [b"abcd", b"ef"]
    assert all(view.readonly for view in views)
    site.data[:6] = b"ABCDEF"
    assert b"".join(views) == b"ABCDEF"


@pytest.mark.parametrize(
    "piece",
    [
        Piece(3, 0, 1, 0),  # an ICB
        Piece(4, 0, 1, 0),
        Piece(2**32 - 1, 0, 1, 0),
        Piece(2, 0, 5, 0),
        Piece(2, 4, 1, 0),
        Piece(2, 2**32 - 1, 1, 0),
    ],
)
def test_a_descriptor_of_other_memory_is_refused(piece: Piece) -> None:
    site = Site(buffers=3, size=4, icbs=1)
    descriptor = Descriptor(1, (Piece(0, 0, 1, 0), piece), 2)

    with pytest.raises(WireError, match="names memory outside"):
        site.reader.read(descriptor)

    assert site.reader.read(Descriptor(1, (Piece(2, 4, 0, 0),), 0)) == b""
