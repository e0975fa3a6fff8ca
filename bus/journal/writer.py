"""`Journal`: the recorder of one process, an observer for a `BrokerManager`.

It records operations as they happen and never delays them: a record that cannot be
written is counted as lost, and the count is written. The hot path is in `recorder`;
folder and segments are in `incarnation`. This module has the user's interface, the slow
path for records that the hot path cannot write, and the handling of forks. Nothing here
may raise into an observed operation.

A killed process loses none of the records it has written; a machine that loses power
loses those that its kernel had not yet written back.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bus.journal.format import COUNT_MAX, RECORD, RECORD_BYTES, RECORD_VERSION
from bus.journal.header import HEADER_BYTES
from bus.journal.incarnation import Incarnation
from bus.journal.payloads import room_for_one
from bus.journal.recorder import Emit, Fields, exhausted, flow_of, make_recorder
from bus.model.address import split_absolute
from bus.model.events import BusOperation, BusReason
from bus.model.specification import Specification
from bus.process.at_exit import call_at_exit, do_not_call_at_exit
from queuebroker import _files, _platform, _sync
from queuebroker.closable import Closable
from queuebroker.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.journal.bus_recorder import BusRecorder
    from bus.journal.segment import Slot

__all__ = ["Journal"]

_log = logging.getLogger("bus.journal")

SEGMENT_BYTES: Final = 64 << 20
SEGMENT_BYTES_MIN: Final = 16 << 10
SEGMENT_BYTES_MAX: Final = 1 << 36
PAYLOAD_BYTES_MAX: Final = 64 << 10
FILES_MIN: Final = 2  # of each kind: the current one and a spare

_NAMES_REMEMBERED: Final = 4096

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# The largest value of each of `Fields`.
_U8, _U16, _U32, _U64 = (2 ** (8 * width) - 1 for width in (1, 2, 4, 8))
_LIMITS: Final = (
    *(_U8, _U8, _U16, _U32),  # kind, flags, reason, size
    *(_U64, COUNT_MAX, _U64, COUNT_MAX),  # flow, seq, origin, mid
    *(_U32, _U32, _U32, _U32, _U16, _U8),  # task, peer, wait_us, depth, thread, hop
)


class Journal(Closable):
    """Records reported operations, in the order of the reports.

    ::

        with Journal("journals") as journal:
            manager = BrokerManager(observer=journal.observe)
            ...

    directory: a folder for the journals of any number of programs, made if missing.
      This journal uses ``<directory>/<machine>/<pid>-<start>-<number>`` in it.
    segment_bytes: the size of one file; at least twice as much is kept allocated.
    max_bytes, max_age_s, min_free_bytes: the limits of the files of this process: their
      size, how long ago the last record in a file was written, and the room that they
      leave on the file system. The oldest files are deleted when a file is full, and
      once a minute. Verdicts on the journal then state that its beginning is missing.
      None sets no limit. If nothing is left to delete and less than ``min_free_bytes``
      is free, new records are counted as lost.
    payloads: True to keep the payloads of the messages of buses, too; or a pattern of
      task names, or several, in the language of `Specification`, to keep those of the
      messages from and to these tasks: a notification by its notifier's name, a command
      or an answer by its sender's or its addressee's. Patterns that begin with a star
      match no task of the system.
    payload_bytes_max: how much of each encoded payload is kept, in bytes.
    machine: the name for the machine, its host name by default.

    observe: the observer for a `BrokerManager`.
    emit: writes any record; `observe` does so for the operations of queues.

    It is open until `close`, or until the program ends normally. A forked child that
    continues to record opens its own folder. If the first segment cannot be made, the
    constructor raises OSError with the folder and the setting in its text; later errors
    are logged once, and counted.

    Lock: ``_lock`` guards the creation of an incarnation in a forked child.
    """

    observe: Observer
    emit: Emit

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        max_bytes: int | None = None,
        max_age_s: float | None = None,
        min_free_bytes: int | None = None,
        payloads: bool | str | Sequence[str] = False,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        machine: str | None = None,
    ) -> None:
        for name, number in (
            ("segment_bytes", segment_bytes),
            ("max_bytes", max_bytes),
            ("max_age_s", max_age_s),
            ("min_free_bytes", min_free_bytes),
            ("payload_bytes_max", payload_bytes_max),
        ):
            if number is not None and not isinstance(number, int | float):
                raise TypeError(f"{name} must be a number, got {number!r}")
        if not SEGMENT_BYTES_MIN <= segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(
                f"segment_bytes must be {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX},"
                f" got {segment_bytes}"
            )
        self._parent = Path(directory)
        self._slots = (segment_bytes - HEADER_BYTES) // RECORD_BYTES
        self._file_bytes = HEADER_BYTES + self._slots * RECORD_BYTES
        self._keeps_payloads = _payload_filter(payloads)
        room = room_for_one(self._file_bytes)
        if self._keeps_payloads is not None and not 0 < payload_bytes_max <= room:
            raise ValueError(
                f"payload_bytes_max must be 1 to {room}, got {payload_bytes_max}; one"
                f" payload must fit a file of segment_bytes={segment_bytes}"
            )
        files = FILES_MIN if self._keeps_payloads is None else 2 * FILES_MIN
        if max_bytes is not None and max_bytes < files * segment_bytes:
            raise ValueError(
                f"max_bytes must be >= {files * segment_bytes}, got {max_bytes}:"
                f" {files} files of segment_bytes={segment_bytes} are always allocated"
            )
        for name, limit in ("max_age_s", max_age_s), ("min_free_bytes", min_free_bytes):
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be > 0 or None, got {limit}")
        self._limits = max_bytes, max_age_s, min_free_bytes
        self._payload_bytes_max = (
            None if self._keeps_payloads is None else payload_bytes_max
        )
        self._machine = _files.host_name() if machine is None else machine
        self._recorder = make_recorder(self._introduce, self._write)
        self.observe = self._recorder.observe
        self.emit = self._recorder.emit
        self._lock, self._inside = _sync.Lock(), _sync.Local()
        try:
            self._incarnation: Incarnation | None = self._begin()
        except OSError as error:
            raise self._explained(error) from error
        self._closed = False
        _journals.add(self)
        # Closes the journal at the end of a program that did not.
        call_at_exit(self.close)

    @property
    def folder(self) -> Path | None:
        """The folder of this process; None in a forked child that has no record."""
        return self._incarnation.folder if self._incarnation else None

    @property
    def closed(self) -> bool:
        """True if nothing is recorded any more."""
        return self._closed

    @property
    def lost(self) -> int:
        """The number of records that could not be written."""
        return self._incarnation.lost if self._incarnation else 0

    @property
    def payloads_lost(self) -> int:
        """The number of payloads that found no room; their messages are recorded."""
        return self._incarnation.payloads_lost if self._incarnation else 0

    def name(self, text: str) -> int:
        """Return the number of a name for `emit`; 0 if it cannot be written."""
        return self._introduce(text, "")[0]

    def flow(self, channel: int, direction: int) -> int:
        """Return the `flow` for `emit` of a channel's direction; channel 0 is none."""
        incarnation = self._current()
        return flow_of(incarnation.base if incarnation else 0, channel, direction)

    def _trace_sink(self) -> BusRecorder:
        """Return a new recorder of one process on one bus, for `bus.open_bus`."""
        from bus.journal.bus_recorder import BusRecorder  # noqa: PLC0415 - of buses only

        return BusRecorder(
            self.emit,
            self.name,
            self._keeps_payloads,
            self._write_payload,
            self._note_registration,
        )

    def record_death(
        self, pid: int, *, machine: str | None = None, process: str = ""
    ) -> None:
        """Record the death of another process, whose journal then has no end (J1).

        Call it only if the death is certain: the process was waited for, or its system
        closed its link without a farewell. A journal with a record of a later time is
        not attributed to that process. Never raises; a repeated call is harmless.

        pid: its process id, as its system numbers it.
        machine: the name given to its own `Journal`; None if it is this one's.
        process: its name, for people.
        """
        self.emit(
            BusOperation.LINK_DOWN,
            reason=BusReason.DIED,
            mid=pid,
            task=self.name(process),
            peer=self.name(self._machine if machine is None else machine),
        )

    def close(self) -> None:
        """Write the last record, wait briefly for late writers, and seal. Idempotent.

        Operations reported later are not recorded; the journal then notes them as late.
        An interrupted close is finished by the next one, at the latest by the one at
        the end of the program. While another thread closes, this does nothing.
        """
        self._closed = True
        incarnation = self._incarnation
        if incarnation is not None:
            incarnation.close()
        if incarnation is None or incarnation.finished:
            do_not_call_at_exit(self.close)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return (
            f"<Journal {str(self.folder or self._parent)!r} {state}, {self.lost} lost>"
        )

    # Calls from the hot path.

    def _introduce(self, local: str, remote: str) -> tuple[int, int]:
        incarnation = self._current()
        if incarnation is None:
            self._recorder.enrol(lambda: 0)
            return 0, 0
        meta = incarnation.meta
        self._recorder.enrol(meta.thread)
        return meta.name(local), meta.name(remote)

    def _write(self, slot: Slot | None, fields: Fields) -> None:
        incarnation = self._current()
        if incarnation is None:
            return
        values = [
            min(max(value, 0), limit)
            for value, limit in zip(fields, _LIMITS, strict=True)
        ]
        while (slot := slot or incarnation.draw()) is not None:
            n, offset, mark, target = slot
            clock = _sync.monotonic_ns()
            try:
                head, tail = values[:4], values[4:]
                RECORD.pack_into(
                    target, offset, *head, n, clock, *tail, RECORD_VERSION, mark
                )
            except (ValueError, TypeError):
                slot = None  # its segment was sealed without us: draw again
            else:
                return
        incarnation.lose()

    def _note_registration(self, number: int, name: str) -> None:
        incarnation = self._current()
        if incarnation is not None:
            incarnation.meta.registration(number, name)

    def _write_payload(
        self, payload: Any, encoded: bytes | memoryview | None
    ) -> tuple[int, bool]:
        incarnation = self._incarnation or self._current()
        return (
            incarnation.write_payload(payload, encoded) if incarnation else (0, False)
        )

    # Opening, also in a forked child.

    def _begin(self) -> Incarnation:
        return Incarnation(
            self._parent,
            self._machine,
            self._slots,
            self._limits,
            self._payload_bytes_max,
            self._recorder,
        )

    def _explained(self, error: OSError) -> OSError:
        """Return an error whose text has the folder, the reason and the remedy."""
        remedy = "give a folder that this process can write to"
        if error.errno in NO_ROOM:
            remedy = (
                f"make room for 2 segments of {self._file_bytes:,} bytes, give another"
                " folder, or give Journal a smaller segment_bytes="
            )
        elif error.errno in (errno.EMFILE, errno.ENFILE):
            remedy = "let this process open more files (ulimit -n)"
        elif error.errno == errno.EAGAIN:
            remedy = "let this process start one more thread"
        where = f" ({error.filename})" if error.filename else ""
        return OSError(
            error.errno,
            f"cannot record in {str(self._parent)!r}: {error.strerror}{where};"
            f" {remedy}",
        )

    def _current(self) -> Incarnation | None:
        """Return the open incarnation; a child makes its own at its first record."""
        if self._incarnation is None and not self._closed:
            self._begin_in_child()
        return self._incarnation

    def _begin_in_child(self) -> None:
        # The start allocates, so a finalizer may run here and record, too: its report
        # precedes the first record and is not part of the journal.
        if getattr(self._inside, "beginning", False):
            return
        self._inside.beginning = True
        try:
            with self._lock:
                if self._incarnation is None:
                    self._incarnation = self._begin()
        except OSError as error:
            self._closed = True
            told = self._explained(error).strerror
            _log.warning("nothing is recorded in this forked child: %s", told)
        finally:
            self._inside.beginning = False

    def _forget(self) -> None:
        """In a forked child, detach from the parent's files."""
        self._recorder.switch(exhausted)
        self._recorder.rebase(0, {})
        self._lock, self._inside = _sync.Lock(), _sync.Local()
        if self._incarnation is not None:
            self._incarnation.abandon()
            self._incarnation = None


def _payload_filter(
    payloads: bool | str | Sequence[str],
) -> Callable[[str], bool] | None:
    """Return a function of a task's name: True if the payloads of the task are kept."""
    if payloads is True:
        return lambda _: True
    if not payloads:
        return None
    patterns = []
    for each in (payloads,) if isinstance(payloads, str) else payloads:
        pattern = Specification.parse(each)
        if pattern.machine is not None:
            msg = f"payloads must hold names of this machine, got {each!r}"
            raise ValueError(msg)
        patterns.append(pattern)

    # Names are few, but a program may generate them without end.
    @functools.lru_cache(_NAMES_REMEMBERED)
    def keeps(name: str) -> bool:
        _, _, module = split_absolute(name)
        return any(pattern.matches(module) for pattern in patterns)

    return keeps


_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for journal in list(_journals):
        journal._forget()


_platform.after_fork_in_child(_after_fork_in_child)
