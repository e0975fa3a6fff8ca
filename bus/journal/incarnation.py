"""One process's part of a journal, from its first record to its last.

It consists of a folder with a side file and segments, and of the housekeeper: a thread
that makes spare segments, seals retired ones and periodically reads both clocks.
Writers enter this module only if the hot path in `recorder` has no slot to draw.
"""

from __future__ import annotations

import collections
import datetime as dt
import errno
import itertools
import logging
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bus.journal.format import RECORD, RECORD_BYTES, RECORD_VERSION, RecordKind
from bus.journal.header import HEADER_BYTES, SegmentHeader, boot_id
from bus.journal.meta import META_FILE, Meta
from bus.journal.payloads import Payloads
from bus.journal.recorder import exhausted
from bus.journal.retention import Retention
from bus.journal.supply import Supply
from bus.journal.wording import hex64
from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from bus.journal.recorder import Recorder
    from bus.journal.segment import Slot

__all__ = ["Incarnation"]

_log = logging.getLogger("bus.journal")

ANCHOR_S: Final = 60.0  # between two readings of both clocks
# Between two looks at new records, or attempts to make a segment on a full disk.
RETRY_S: Final = 1.0


class Incarnation:
    """Folder, side file, segments and housekeeper of one process.

    folder: the folder it records in.
    base: the upper half of its channel numbers, drawn at random with its own number.

    Locks: ``_closing`` is held by the closing thread and never waited for; ``_lock``,
    taken second, guards ``_closed``, ``_parker`` and every change of the current
    segment. It is not held across a system call. A finalizer may interrupt a writer,
    disconnect a queue and so record, too: the inner call then loses its record, since
    waiting for the lock would deadlock.
    """

    def __init__(
        self,
        parent: Path,
        machine: str,
        slots: int,
        limits: tuple[int | None, float | None, int | None],
        payload_bytes_max: int | None,
        recorder: Recorder,
    ) -> None:
        """Create the folder and its contents. OSError if that fails.

        limits: max_bytes, max_age_s and min_free_bytes of `Retention`.
        payload_bytes_max: how much of each payload is kept; None to keep none.
        """
        header = _first_header(slots)
        self.folder = parent / _folder_name(machine) / _incarnation_name(header)
        self.base = header.journal >> 33  # so that no flow of it is `SHARED_FLOWS`
        self._recorder = recorder
        self._lock = _sync.Lock()
        self._inside = _sync.Local()
        self._closed = False
        self._told_late = False
        self._closing = _sync.Lock()
        self._last: list[Slot] = []  # for the CLOSE record, once it is drawn
        self._parker: _thread.LockType | None = None
        self._lost_told = self._payloads_lost_told = 0
        self._payloads: Payloads | None = None
        self._anchored = _sync.monotonic()
        self._told_unnamed = False
        self._housekeeper = _sync.Thread(
            target=self._keep_house, name="journal", daemon=True
        )
        self.folder.mkdir(parents=True)
        try:
            self._retention = Retention(self.folder, *limits)
            self._supply = Supply(self.folder, header, self._retention)
            if payload_bytes_max is not None:
                file_bytes = HEADER_BYTES + slots * RECORD_BYTES
                self._payloads = Payloads(
                    self.folder,
                    header.journal,
                    file_bytes,
                    payload_bytes_max,
                    self._retention,
                )
            self.meta = Meta(self.folder, machine, header)
            _write(self._supply.current.take(), RecordKind.OPEN, origin=_sync.wall_ns())
            self._start()
        except OSError:
            # Their files are closed with them: Windows deletes none that is open.
            for part in ("_supply", "_payloads"):
                if hasattr(self, part):
                    delattr(self, part)
            # A partial folder would be read as a journal that lost every record.
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        recorder.rebase(self.base, self.meta.names)
        recorder.switch(self._supply.current.take)
        # The remaining steps of a close. If a step was interrupted, even right after
        # its end, the next close runs it again.
        self._to_close: collections.deque[Callable[[], object]] = collections.deque(
            (
                self._take_no_more,
                self._housekeeper.join,
                self._write_last,
                self._finish_payloads,
                self._seal_all,
                self.meta.close,
            )
        )

    def _start(self) -> None:
        """Start the housekeeper; OSError if the thread cannot be started."""
        try:
            self._housekeeper.start()
        except RuntimeError as error:
            self.meta.close()
            raise OSError(errno.EAGAIN, str(error)) from error

    @property
    def finished(self) -> bool:
        """True once a close has completed."""
        return not self._to_close

    @property
    def lost(self) -> int:
        """The number of records that could not be written."""
        return self._supply.lost.total

    @property
    def payloads_lost(self) -> int:
        """The number of payloads that could not be kept."""
        return self._supply.payloads_lost.total

    def write_payload(
        self, payload: Any, encoded: bytes | memoryview | None
    ) -> tuple[int, bool]:
        """Write a payload; return its location, and True if only a part is kept.

        The location is 0 if there is no room: the payload is then counted as lost.
        """
        payloads = self._payloads
        if payloads is None:
            return 0, False
        written = payloads.write(payload, encoded, self._advance_payloads)
        if not written[0]:
            self._supply.lose_payload()
        return written

    def _advance_payloads(self) -> bool:
        """Go on with the next payload file; False if none is ready. As `draw`."""
        payloads = self._payloads
        assert payloads is not None
        if getattr(self._inside, "drawing", False):
            return False
        self._inside.drawing = True
        try:
            with self._lock:
                if self._closed or not payloads.advance():
                    return False
                # Only after a change: a full disk must not cost a wake-up a payload.
                self._wake_locked()
                return True
        finally:
            self._inside.drawing = False

    def draw(self) -> Slot | None:
        """Draw a slot, advancing to the next segment; None if none is ready."""
        if getattr(self._inside, "drawing", False):
            return None
        # Set before the lock is requested: a finalizer may run at any point after that.
        self._inside.drawing = True
        try:
            with self._lock:
                return None if self._closed else self._draw_locked()
        finally:
            self._inside.drawing = False

    def lose(self) -> None:
        """Count a record that could not be written; after the close, note it late."""
        if not self._closed:
            self._supply.lose()
            if not self._closed:
                return
            # The close may have read the count before this record was added to it, and
            # sealed the segment that holds the count. Then only `late` shows the loss.
        if not self._told_late:
            self.meta.late()
            self._told_late = True  # set last: an interrupt must not suppress the note

    def close(self) -> None:
        """Write the last record, wait briefly for late writers, and seal. Idempotent.

        After an interrupt, the next call continues. If another call is closing, perhaps
        in this very thread below a finalizer, return at once.
        """
        taken: list[bool] = []
        try:
            # One call in C: an interrupt cannot fall between the acquisition of the
            # lock and the note of it.
            taken.extend(map(self._closing.acquire, (False,)))
            if taken == [True]:
                self._take_steps()  # a call: see `_sync.Lock`
        finally:
            if taken == [True]:
                self._closing.release()

    def _take_steps(self) -> None:
        while self._to_close:
            self._to_close[0]()
            self._to_close.popleft()

    # The steps of a close.

    def _take_no_more(self) -> None:
        # As in `draw`: a finalizer may run while the lock is held.
        self._inside.drawing = True
        try:
            with self._lock:
                self._closed = True
                self._wake_locked()
        finally:
            self._inside.drawing = False
        self._recorder.switch(exhausted)

    def _write_last(self) -> None:
        if not self._last:
            self._supply.refill()
            self._tell_lost()
        while not self._last:
            # One call in C draws the slot and stores it: a slot that is drawn and then
            # lost to an interrupt would be a hole.
            draws = iter(self._supply.current.take, None)
            self._last.extend(itertools.islice(draws, 1))
            if not self._last and not self._supply.advance():
                return
        _write(self._last[0], RecordKind.CLOSE)

    def _tell_unnamed(self) -> None:
        """Log once that names could not be written; the recorder must not log."""
        if self.meta.unwritten and not self._told_unnamed:
            self._told_unnamed = True
            _log.warning(
                "cannot write names to %s: records from now on may lack them",
                self.folder / META_FILE,
            )

    def _finish_payloads(self) -> None:
        if self._payloads is not None:
            self._payloads.finish()

    def _seal_all(self) -> None:
        self._tell_unnamed()
        self._supply.finish(self._last[0][0] + 1 if self._last else None)

    def abandon(self) -> None:
        """In a forked child, close its copy of the side file that the parent uses."""
        self.meta.close()

    def _draw_locked(self) -> Slot | None:
        while True:
            try:
                return self._supply.current.take()
            except StopIteration:
                advanced = self._supply.advance()
                # On a full disk, the housekeeper tries again once a second; a wake-up
                # for each lost record would make it try each time.
                if advanced or not self._supply.short:
                    self._wake_locked()
                if not advanced:
                    return None
            # Only the closing thread may draw from a closing journal.
            if not self._closed:
                self._recorder.switch(self._supply.current.take)
            self._tell_lost()

    def _tell_lost(self) -> None:
        """Record how many records and payloads were lost since the last LOST record."""
        lost = self.lost - self._lost_told
        payloads = self.payloads_lost - self._payloads_lost_told
        if not lost and not payloads:
            return
        # Updated before the draw, which may call this function again.
        self._lost_told += lost
        self._payloads_lost_told += payloads
        slot = self._draw_locked()
        if slot is None:
            self._lost_told -= lost
            self._payloads_lost_told -= payloads
        else:
            _write(slot, RecordKind.LOST, seq=lost, mid=payloads)

    def _keep_house(self) -> None:
        while True:
            parker = _sync.Lock()
            parker.acquire()
            with self._lock:
                if self._closed:
                    return
                # Published before the work starts: a writer that finds more work
                # meanwhile wakes the sleep before it begins.
                self._parker = parker
            now = _sync.monotonic()
            try:
                self._supply.tend()
                if self._payloads is not None:
                    self._payloads.tend()
                self._retention.make_room()
                self._tell_unnamed()
                if now >= self._anchored + ANCHOR_S:
                    self._anchored = now
                    self._anchor()
                unfinished = any(
                    (
                        self._supply.publish(now),
                        self._supply.short,
                        self._supply.late,
                        self._payloads is not None and self._payloads.short,
                    )
                )
            except (MemoryError, OSError):
                unfinished = True  # as if the disk had no room
            until = now + (RETRY_S if unfinished else ANCHOR_S)
            self._rest(parker, until)

    def _rest(self, parker: _thread.LockType, until: float) -> None:
        def woken() -> bool:
            return self._parker is not parker

        _sync.park(parker, woken, until)

    def _anchor(self) -> None:
        """Record one instant on both clocks, which reveals a step of either.

        An anchor without a slot counts neither as a lost operation nor as a late one.
        """
        slot = self.draw()
        if slot is not None:
            _write(slot, RecordKind.CLOCK, origin=_sync.wall_ns())

    def _wake_locked(self) -> None:
        """Wake the housekeeper, if it sleeps or is about to."""
        parker, self._parker = self._parker, None
        if parker is not None:
            parker.release()


def _write(
    slot: Slot, kind: RecordKind, seq: int = 0, origin: int = 0, mid: int = 0
) -> int:
    """Write a record of the journal's own; return its number."""
    n, offset, mark, target = slot
    mono = _sync.monotonic_ns()
    head = kind, 0, 0, 0, n, mono, 0, seq, origin
    tail = 0, 0, 0, 0, 0, 0, RECORD_VERSION, mark
    RECORD.pack_into(target, offset, *head, mid, *tail)
    return n


def _first_header(slots: int) -> SegmentHeader:
    return SegmentHeader(
        # 63 bits, so that a signed column holds the same number.
        journal=int.from_bytes(os.urandom(8), "little") >> 1,
        segment=0,
        first_n=0,
        slots=slots,
        boot_id=boot_id(),
        mono=_sync.monotonic_ns(),
        wall=_sync.wall_ns(),
    )


def _folder_name(machine: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", machine) or "machine"


def _incarnation_name(header: SegmentHeader) -> str:
    start = dt.datetime.fromtimestamp(header.wall / 1e9, dt.UTC)
    return f"{os.getpid()}-{start:%Y%m%dT%H%M%S}-{hex64(header.journal)}"
