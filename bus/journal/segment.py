"""One segment of a journal being written: its file, its map, its slots, its seal.

A slot is drawn by one call into C (`Segment.take`) that yields record number, byte
offset, mark and target together. So no lock is needed, and no thread can pair the
number of one segment with the target of another. The thread that draws a slot writes
it. This module knows nothing of names, clocks or when to change segments.

The races all concern a writer that has drawn a slot and is then suspended:

* The segment fills up and is retired meanwhile. It stays mapped until every slot
  holds its mark, and is sealed only then: the late writer can still write its slot.
* The segment must be sealed although a slot is empty (the journal closes, or the thread
  was interrupted between drawing and writing). Then the target is released first: from
  then on the late writer's `pack_into` raises ValueError and the writer draws again, so
  that no byte changes after the checksum.
* The process dies. Packed records are in the page cache and survive. One call in C
  packs a record; it zeroes the slot first and writes the mark last, so that a torn
  record has no mark.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import zlib
from typing import TYPE_CHECKING, Final

from bus.journal.format import RECORD_BYTES, invalid_slots, marks
from bus.journal.header import (
    HEADER_BYTES,
    LOST,
    LOST_OFFSET,
    PAYLOADS_LOST_OFFSET,
    PUBLISHED_OFFSET,
    SEAL_OFFSET,
    Seal,
    SegmentHeader,
)
from bus.journal.mapped_file import MappedFile, atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["OPEN_SUFFIX", "SEALED_SUFFIX", "Segment"]

OPEN_SUFFIX: Final = ".open.qbj"
SEALED_SUFFIX: Final = ".qbj"

Slot = tuple[int, int, int, memoryview]


class Segment(MappedFile):
    """A file of slots.

    take: draws the next slot: (n, byte offset, mark, target); StopIteration when all
      are drawn. One call in C: atomic under the interpreter lock.
    """

    __slots__ = ("_offsets", "_seal", "header", "take")

    def __init__(self, folder: Path, header: SegmentHeader) -> None:
        """Make the file. OSError if there is no room; no file remains then."""
        size = HEADER_BYTES + header.slots * RECORD_BYTES
        self.header = header
        path = folder / f"seg-{header.segment:05d}{OPEN_SUFFIX}"
        super().__init__(path, header.pack(), size)
        self._seal: Seal | None = None
        self._offsets = iter(range(HEADER_BYTES, size, RECORD_BYTES))
        draw = zip(
            itertools.count(header.first_n),
            self._offsets,
            marks(header.first_n, header.slots),
            itertools.repeat(self._view),
            strict=False,
        ).__next__
        self.take: Callable[[], Slot] = atomic(draw)

    @property
    def next_n(self) -> int:
        """The record number after the last slot of this segment."""
        return self.header.first_n + self.header.slots

    def note_lost(self, total: int) -> None:
        """Write the number of lost records into the header, where it survives a kill.

        Two threads may write in the wrong order and leave it one short until the next
        loss or the seal. Verdicts rest only on its not being 0, which holds after any
        loss.
        """
        # A sealed segment has the number in its seal.
        with contextlib.suppress(ValueError, TypeError):
            LOST.pack_into(self._view, LOST_OFFSET, total)

    def note_payloads_lost(self, total: int) -> None:
        """Write the number of lost payloads into the header, likewise."""
        with contextlib.suppress(ValueError, TypeError):
            LOST.pack_into(self._view, PAYLOADS_LOST_OFFSET, total)

    @property
    def drawn(self) -> int:
        """How many slots were drawn; as for `bus.journal.supply.Tally`."""
        return self.header.slots - operator.length_hint(self._offsets)

    def publish(self, slots: int) -> None:
        """Write how many slots are final into the header."""
        # After the seal, all of them are.
        with contextlib.suppress(ValueError, TypeError):
            LOST.pack_into(self._view, PUBLISHED_OFFSET, slots)

    def whole(self, used: int) -> bool:
        """Return True if the first ``used`` slots, all drawn, hold their records."""
        return not self.empty(used)

    def empty(self, used: int) -> list[int]:
        """Return which of the first ``used`` slots, all drawn, hold no record yet."""
        with self._view[HEADER_BYTES:] as slots:
            return invalid_slots(slots, self.header.first_n, used)

    def seal(self, lost: int, *, is_last: bool = True) -> Seal:
        """Close the segment for good: count, checksum, truncate the file, rename it.

        is_last: False if another segment follows. Then it keeps its length, since a
          shorter one shows a reader that the journal has ended.

        For writers that have drawn a slot and not written it, the target is released.
        After an interrupt, or an OSError, call it again.
        """
        if self._seal is None:
            self._seal = self._sum_up(lost, is_last=is_last)
        seal = self._seal
        # A traceback may keep an interrupted call alive, and its view of the map too.
        with contextlib.suppress(BufferError):
            self._map.close()
        if self.sealed_path.exists():
            return seal
        if seal.used < self.header.slots:
            os.truncate(self._path, HEADER_BYTES + seal.used * RECORD_BYTES)
        self._path.rename(self.sealed_path)
        return seal

    def _sum_up(self, lost: int, *, is_last: bool) -> Seal:
        self._view.release()
        # After the release: a slot drawn from here on cannot be written any more.
        used = self._drawn()
        with memoryview(self._map) as file, file[HEADER_BYTES:] as slots:
            missing = invalid_slots(slots, self.header.first_n, used)
            # Slots at the end that were never written are no holes, but the end. A
            # reader may have passed those that are published.
            (least,) = LOST.unpack_from(file, PUBLISHED_OFFSET)
            while is_last and used > least and missing and missing[-1] == used - 1:
                missing.pop()
                used -= 1
            with slots[: used * RECORD_BYTES] as body:
                checksum = zlib.crc32(body)
        seal = Seal(used=used, count=used - len(missing), crc32=checksum, lost=lost)
        packed = seal.pack()
        self._map[SEAL_OFFSET : SEAL_OFFSET + len(packed)] = packed
        return seal

    def _drawn(self) -> int:
        """Return the number of drawn slots; draws the next one to find out."""
        try:
            return self.take()[0] - self.header.first_n
        except StopIteration:
            return self.header.slots

    @property
    def sealed_path(self) -> Path:
        """The path of the segment after it is sealed."""
        return self._path.with_name(f"seg-{self.header.segment:05d}{SEALED_SUFFIX}")
