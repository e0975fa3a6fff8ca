"""Checks of the slots in a part of a journal: does each hold its own record?

Writer and reader check millions of slots, the writer while other threads wait for the
interpreter. So the marks are compared in C, a chunk at a time.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Final

from bus.journal.format import MARK_OFFSET, RECORD_BYTES, mark

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["impossible_slots", "invalid_slots", "marks"]

# Long enough to be fast, short enough not to starve other threads.
_CHUNK_SLOTS: Final = 4096

# The offset of the top byte of a field in a record, and its possible values. The
# difference of two times between -2**61 and 2**61 fits 64 bits with room to add to it.
_TIMES: Final = bytes((*range(0x20), *range(0xE0, 0x100)))
_COUNTS: Final = bytes(range(0x40))  # `seq` and `mid` are below COUNT_MAX
_TOP_BYTES: Final = ((16 + 7, _TIMES), (32 + 7, _COUNTS), (48 + 7, _COUNTS))
_N_OFFSET: Final = 8


def invalid_slots(slots: memoryview, first_n: int, count: int) -> list[int]:
    """Return which of the first ``count`` slots lack the mark of their record.

    slots: bytes from slot 0 on, which is record ``first_n``.
    """
    if not count:
        return []
    words = slots[: count * RECORD_BYTES].cast("I")
    column = words[MARK_OFFSET // 4 :: RECORD_BYTES // 4]
    invalid: list[int] = []
    for start in range(0, count, _CHUNK_SLOTS):
        stop = min(start + _CHUNK_SLOTS, count)
        due = tuple(marks(first_n + start, stop - start))
        layout = f"<{stop - start}I"
        found = column[start:stop].tobytes()
        if found != struct.pack(layout, *due):
            pairs = zip(struct.unpack(layout, found), due, strict=True)
            invalid += [start + i for i, (is_, must) in enumerate(pairs) if is_ != must]
    return invalid


def impossible_slots(slots: memoryview, first_n: int, count: int) -> list[int]:
    """Return which of the first ``count`` slots hold impossible numbers.

    A slot with the mark of its record may still be damaged, and a segment without a
    seal has no checksum to detect it. The record number must be that of the slot;
    times, message numbers and ports must be within the range of later computations.
    All of this runs in C, as above.
    """
    body = slots[: count * RECORD_BYTES]
    impossible: set[int] = set()
    column = body.cast("Q")[_N_OFFSET // 8 :: RECORD_BYTES // 8]
    for start in range(0, count, _CHUNK_SLOTS):
        stop = min(start + _CHUNK_SLOTS, count)
        due = range(first_n + start, first_n + stop)
        found = column[start:stop].tobytes()
        if found != struct.pack(f"<{stop - start}Q", *due):
            numbers = struct.unpack(f"<{stop - start}Q", found)
            pairs = zip(numbers, due, strict=True)
            impossible |= {
                start + i for i, (is_, must) in enumerate(pairs) if is_ != must
            }
    for offset, possible in _TOP_BYTES:
        tops = body[offset::RECORD_BYTES].tobytes()
        if tops.translate(None, possible):
            impossible |= {i for i, top in enumerate(tops) if top not in possible}
    return sorted(impossible)


def marks(first_n: int, count: int) -> Iterator[int]:
    """Yield the marks of ``count`` consecutive records, counted in C.

    They are consecutive numbers but for the wrap after 2**32 - 1, which a segment can
    contain at most once.
    """
    first = mark(first_n)
    before_wrap = min(count, 2**32 - first)
    return itertools.chain(
        range(first, first + before_wrap), range(1, 1 + count - before_wrap)
    )
