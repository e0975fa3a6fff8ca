"""Shared by the tests of segments: a first header, and filling a slot by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.journal.format import RECORD, mark
from bus.journal.header import SegmentHeader

if TYPE_CHECKING:
    from bus.journal.segment import Slot

__all__ = ["first_header", "write"]


def first_header(slots: int) -> SegmentHeader:
    """Return the header of the first segment of journal 1."""
    return SegmentHeader(
        journal=1,
        segment=0,
        first_n=0,
        slots=slots,
        boot_id=bytes(16),
        mono=0,
        wall=0,
    )


def write(slot: Slot) -> None:
    """Write a record of kind 77 into a drawn slot."""
    n, offset, shown, target = slot
    assert shown == mark(n)
    RECORD.pack_into(target, offset, 77, 0, 0, 0, n, *[0] * 11, 1, shown)
