"""`ImportedJournal`: writes messages of the past as a journal.

`bus.journal.writer.Journal` records operations as they happen, with the clock of that
instant. Here each message brings its own time. The times of the records are those of
the messages, on a clock that begins with the first.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import attrs

from bus.errors import JournalError
from bus.journal.format import (
    COUNT_MAX,
    RECORD,
    RECORD_BYTES,
    RECORD_VERSION,
    Flag,
    Record,
    RecordKind,
)
from bus.journal.header import HEADER_BYTES, SegmentHeader
from bus.journal.meta import Meta
from bus.journal.payload_file import (
    FRAME,
    PAYLOAD_HEADER_BYTES,
    PayloadFile,
    PayloadHeader,
)
from bus.journal.segment import Segment
from bus.journal.wording import hex64
from queuebroker.closable import Closable

__all__ = ["ImportedJournal"]

_FILE_BYTES: Final = 16 << 20  # of a segment, and of most payload files
_SLOTS: Final = (_FILE_BYTES - HEADER_BYTES) // RECORD_BYTES
_FRAME_MAX: Final = FRAME.size + 8  # the bytes beside a payload, at most
_WALL_MAX: Final = 2**63 - 1
_SIZE_MAX: Final = 2**32 - 1
_EMPTY: Final = Record._make(RECORD.unpack(bytes(RECORD_BYTES)))._replace(
    version=RECORD_VERSION
)
_KINDS: Final = {
    "command": (RecordKind.COMMAND, 0),
    "answer": (RecordKind.RESPOND, Flag.ANSWER),
    "notification": (RecordKind.NOTIFY, Flag.NOTIFICATION),
}


class ImportedJournal(Closable):
    """A new journal of messages that are added in the order of their times.

    ::

        with ImportedJournal("journals", program="run.mcap", begin_ns=0) as journal:
            journal.add(5, "notification", "sensor", encoded=encode({"celsius": 17}))

    directory: the journal gets a folder of its own below it.
    program: the origin of the messages, shown to people.
    begin_ns: the time of the first message on the wall clock.

    Until `close` it reads as the journal of a program that still runs.
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, program: str, begin_ns: int
    ) -> None:
        """Create the folder and its contents. OSError if that fails."""
        self._begin_ns = self._latest_ns = _checked(begin_ns)
        header = SegmentHeader(
            journal=int.from_bytes(os.urandom(8), "little") >> 1,
            segment=0,
            first_n=0,
            slots=_SLOTS,
            # Its clock is that of no boot, and of no other imported journal.
            boot_id=os.urandom(16),
            mono=0,
            wall=begin_ns,
        )
        # A number of the process, from which its registrations are counted. 62 bits, so
        # that a signed column holds all of them.
        self._process = int.from_bytes(os.urandom(8), "little") >> 2
        self._registrations: dict[str, int] = {}
        self._mids: dict[int, int] = {}
        self.folder = Path(directory) / "imported" / f"0-{hex64(header.journal)}"
        self.folder.mkdir(parents=True)
        self._payloads: PayloadFile | None = None
        self._payload_files = 0
        self._closed = False
        self._meta = Meta(self.folder, "imported", header, pid=0, program=program)
        try:
            self._segment = Segment(self.folder, header)
        except OSError:
            self._meta.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._record(RecordKind.OPEN, origin=begin_ns)
        self._record(RecordKind.REGISTER, flow=self._process, origin=self._process)

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    def add(
        self,
        wall_ns: int,
        kind: str,
        sender: str,
        *,
        receiver: str = "",
        mid: int = 0,
        encoded: bytes,
        failed: bool = False,
    ) -> None:
        """Add a message.

        wall_ns: its time. One before that of the message before it counts as that.
        kind: "command", "answer" or "notification".
        sender, receiver: names of tasks; a notification has no receiver.
        mid: its number, of an answer that of the question. The numbers of a sender
          rise: a number that does not is replaced by the next one.
        encoded: its payload, as the bus encodes it.
        failed: True for an answer that is an error.
        """
        self._latest_ns = max(self._latest_ns, _checked(wall_ns))
        operation, flags = _KINDS[kind]
        origin = self._registered(sender)
        if kind != "answer":
            mid = max(mid, self._mids.get(origin, 0) + 1)
            self._mids[origin] = mid
        flags |= Flag.PAYLOAD | (Flag.ERROR if failed else 0)
        self._record(
            operation,
            flags=flags,
            size=min(len(encoded), _SIZE_MAX),
            flow=self._registered(receiver) if receiver else self._process,
            seq=self._write_payload(encoded),
            origin=origin,
            mid=min(mid, COUNT_MAX),
        )

    def close(self) -> None:
        """Write the last record and seal. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._record(RecordKind.CLOSE)
        if self._payloads is not None:
            self._payloads.close()
        self._segment.seal(0)
        self._meta.close()

    def discard(self) -> None:
        """Close its files as they are, and remove its folder."""
        self._closed = True
        if self._payloads is not None:
            self._payloads.discard()
        self._segment.discard()
        self._meta.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _registered(self, name: str) -> int:
        """Return the registration of a task; at its first message it is recorded."""
        number = self._registrations.get(name)
        if number is None:
            number = self._process + len(self._registrations) + 1
            task = self._meta.name(name)
            if not task:
                raise JournalError(
                    f"cannot write the name {name!r} to {self.folder}: the disk is"
                    " full, or there are too many names"
                )
            self._registrations[name] = number
            self._record(RecordKind.REGISTER, flow=number, origin=number, task=task)
        return number

    def _write_payload(self, encoded: bytes) -> int:
        """Write a payload; return its location."""
        while self._payloads is None or not (location := self._payloads.write(encoded)):
            if self._payloads is not None:
                self._payloads.close()
            header = PayloadHeader(
                self._segment.header.journal,
                self._payload_files,
                self._latest_ns - self._begin_ns,
                self._latest_ns,
            )
            needed = PAYLOAD_HEADER_BYTES + _FRAME_MAX + len(encoded)
            size = max(_FILE_BYTES, needed)
            self._payloads = PayloadFile(self.folder, header, size)
            self._payload_files += 1
        return location

    def _record(self, kind: RecordKind, **fields: int) -> None:
        mono = self._latest_ns - self._begin_ns
        try:
            n, offset, mark, target = self._segment.take()
        except StopIteration:
            header = attrs.evolve(
                self._segment.header,
                segment=self._segment.header.segment + 1,
                first_n=self._segment.next_n,
                mono=mono,
                wall=self._latest_ns,
            )
            self._segment.seal(0)
            self._segment = Segment(self.folder, header)
            n, offset, mark, target = self._segment.take()
        record = _EMPTY._replace(kind=kind, n=n, mono=mono, mark=mark, **fields)
        RECORD.pack_into(target, offset, *record)


def _checked(wall_ns: int) -> int:
    if not 0 <= wall_ns <= _WALL_MAX:
        raise JournalError(
            f"a journal cannot hold the time {wall_ns}: times are nanoseconds since"
            f" 1970, from 0 to {_WALL_MAX}"
        )
    return wall_ns
