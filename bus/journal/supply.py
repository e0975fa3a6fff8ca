"""The segments of one journal: spare ones ahead, the current one, retired ones behind.

A writer only ever exchanges the current segment for a spare that is ready; the
housekeeper creates, seals and deletes files. `advance` is called under the journal's
lock. Every other method is called by one thread at a time: by the housekeeper while the
journal is open, then by the closing thread. This module knows nothing of records.
"""

from __future__ import annotations

import collections
import logging
import operator
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RECORD_BYTES
from bus.journal.header import HEADER_BYTES
from bus.journal.segment import Segment
from queuebroker import _sync
from queuebroker.waiting.parking import pause

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.header import SegmentHeader
    from bus.journal.retention import Retention

__all__ = ["Supply", "Tally"]

_log = logging.getLogger("bus.journal")

# A retired segment with an empty slot waits for its late writer, which may be dead.
RETIRED_MAX: Final = 8
# How long a close waits for writers that have drawn a slot and not written it.
STRAGGLER_S: Final = 1.0
POLL_S: Final = 0.002
# How long a slot may be empty before it is taken for a hole.
LATE_S: Final = 10.0


class Tally:
    """A counter that many threads increment without a lock, readable at any time.

    A range's iterator is advanced by one call in C, and reports its remaining length.
    """

    __slots__ = ("_left",)

    _END: Final = 2**62

    def __init__(self) -> None:
        self._left = iter(range(self._END))

    def add(self) -> None:
        """Add one."""
        next(self._left)

    @property
    def total(self) -> int:
        """The current count."""
        return self._END - operator.length_hint(self._left)


class Supply:
    """All segments of one incarnation.

    lost, payloads_lost: records that found no slot, payloads that found no room.
    short: True while a spare is needed that could not be made.
    """

    __slots__ = (
        "_awaited",
        "_drawn",
        "_file_bytes",
        "_final",
        "_folder",
        "_line",
        "_next",
        "_retention",
        "_retired",
        "_template",
        "lost",
        "payloads_lost",
        "short",
    )

    def __init__(
        self, folder: Path, template: SegmentHeader, retention: Retention
    ) -> None:
        """Make the first segment. OSError if there is no room for it.

        template: the header of segment 0.
        retention: of the files of the journal.
        """
        self._folder = folder
        self._template = template
        self._retention = retention
        self._file_bytes = HEADER_BYTES + template.slots * RECORD_BYTES
        self._next = 1
        # The record number below which each slot is final; and, while slots behind it
        # are empty, a later one with the time at which all slots below that are final.
        self._final = 0
        self._drawn: tuple[int, float] | None = None
        self._awaited = False
        self._retired: collections.deque[Segment] = collections.deque()
        self.short = False
        self.lost, self.payloads_lost = Tally(), Tally()
        # The current segment, followed by the spares.
        self._line = collections.deque([Segment(folder, template)])
        retention.opened(self._file_bytes)

    @property
    def current(self) -> Segment:
        """The segment that slots are drawn from."""
        return self._line[0]

    def advance(self) -> bool:
        """Replace the current segment by a spare; return False if there is none.

        Call under the journal's lock. The move is one call in C, so that an interrupt
        cannot leave the segment in both places, to be sealed twice, or in neither.
        """
        if len(self._line) < 2:
            return False
        self._retired.extend(map(collections.deque.popleft, (self._line,)))
        return True

    def lose(self) -> None:
        """Count one record that found no slot, so that it survives a kill."""
        self.lost.add()
        self.current.note_lost(self.lost.total)

    def lose_payload(self) -> None:
        """Count one payload that found no room, so that it survives a kill."""
        self.payloads_lost.add()
        self.current.note_payloads_lost(self.payloads_lost.total)

    def tend(self) -> None:
        """Make spares, and seal complete segments."""
        while len(self._line) - 1 < self._retention.spares_due(self._file_bytes):
            if not self._make_spare():
                break
        for _ in range(len(self._retired)):
            segment = self._retired.popleft()
            late = not segment.whole(segment.header.slots)
            if late and len(self._retired) < RETIRED_MAX:
                self._retired.append(segment)
            else:
                try:
                    self._seal(segment, is_last=False)
                except MemoryError:
                    self._retired.append(segment)  # sealed the next time
                    raise

    def publish(self, now: float) -> bool:
        """Publish the slots that stay empty; return True if this has to be repeated.

        A reader needs no word of ours to pass a record. At an empty slot it waits:
        perhaps the writer was suspended after drawing it. A slot that is still empty
        after `LATE_S` is final.
        """
        # In this order: a writer may retire the current segment meanwhile.
        current, segments = self.current, [*self._retired]
        if current not in segments:
            segments.append(current)
        drawn = [segment.drawn for segment in segments]
        end = segments[-1].header.first_n + drawn[-1]
        if end == self._final:
            return False  # no record since: an idle program is not woken again
        if not any(
            segment.header.first_n + slot >= self._final
            for segment, slots in zip(segments, drawn, strict=True)
            for slot in segment.empty(slots)
        ):
            self._final, self._drawn = end, None
            return False
        if self._drawn is None:
            self._drawn = end, now + LATE_S
        final, at = self._drawn
        if now >= at:
            for segment, slots in zip(segments, drawn, strict=True):
                segment.publish(max(0, min(slots, final - segment.header.first_n)))
            self._final, self._drawn = final, None
        return end != self._final

    def refill(self) -> None:
        """Make a spare if there is none and room for one: CLOSE needs a slot."""
        if len(self._line) < 2:
            self._make_spare()

    @property
    def late(self) -> bool:
        """True if a retired segment waits for a late writer."""
        return bool(self._retired)

    def finish(self, end: int | None) -> None:
        """Seal all segments; no slot is drawn any more. Repeat after an interrupt.

        end: the number after the last record that will be written, None if all slots
          of the current segment were drawn.
        """
        if not self._awaited:
            header = self.current.header
            used = header.slots if end is None else end - header.first_n
            self._await_stragglers(used)
            self._awaited = True
        while len(self._line) > 1:
            self._line[-1].discard()
            self._line.pop()
        while self._retired:
            self._seal(self._retired[0], is_last=False)
            self._retired.popleft()
        self._seal(self.current, is_last=True)

    def _make_spare(self) -> bool:
        """Make the next segment; log the first failure until one succeeds."""
        header = attrs.evolve(
            self._template,
            segment=self._next,
            first_n=self._next * self._template.slots,
            mono=_sync.monotonic_ns(),
            wall=_sync.wall_ns(),
        )
        try:
            self._retention.make_room(self._file_bytes)
            segment = Segment(self._folder, header)
        except OSError as error:
            if not self.short:
                _log.warning(
                    "cannot make a journal segment in %s: %s; records without room are"
                    " counted as lost until there is room again",
                    self._folder,
                    error,
                )
            self.short = True
            return False
        self.short = False
        # An interrupt cannot fall between these two lines: no number is used twice.
        self._next += 1
        self._line.append(segment)
        self._retention.opened(self._file_bytes)
        return True

    def _await_stragglers(self, used: int) -> None:
        """Wait for writers that were suspended between drawing and writing."""
        deadline = _sync.monotonic() + STRAGGLER_S
        while not (
            self.current.whole(used)
            and all(old.whole(old.header.slots) for old in self._retired)
        ):
            now = _sync.monotonic()
            if now >= deadline:
                return
            pause(min(deadline - now, POLL_S))

    def _seal(self, segment: Segment, *, is_last: bool) -> None:
        try:
            segment.note_payloads_lost(self.payloads_lost.total)
            segment.seal(self.lost.total, is_last=is_last)
        except OSError as error:
            _log.warning("cannot seal %s: %s", segment.sealed_path, error)
        else:
            # A close that was interrupted here repeats this step.
            self._retention.closed(segment.sealed_path, self._file_bytes)
