"""`ImportedJournal`: writes messages of the past as a journal.

`bus.journal.writer.Journal` records operations as they happen, with the clock of that
instant. Here each message brings its own time, so the files are written directly. The
times of the records are those of the messages, on a clock that begins with the first.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import JournalError
from bus.journal.format import (
    COUNT_MAX,
    RECORD,
    RECORD_BYTES,
    RECORD_VERSION,
    Flag,
    RecordKind,
    mark,
)
from bus.journal.header import HEADER_BYTES, Seal, SegmentHeader
from bus.journal.meta import META_FILE
from bus.journal.payload_file import (
    FRAME,
    OFFSET_BITS,
    PayloadHeader,
    payload_file_name,
)
from bus.journal.segment import OPEN_SUFFIX, SEALED_SUFFIX
from bus.journal.wording import hex64
from queuebroker.closable import Closable

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["ImportedJournal"]

_SLOTS: Final = ((64 << 20) - HEADER_BYTES) // RECORD_BYTES
_PAYLOAD_FILE_BYTES: Final = 64 << 20
_ALIGNMENT: Final = 8  # of the bodies
_WALL_MAX: Final = 2**63 - 1
_SIZE_MAX: Final = 2**32 - 1
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
        self._id = int.from_bytes(os.urandom(8), "little") >> 1
        # A number of the process, from which its registrations are counted. 62 bits, so
        # that a signed column holds all of them.
        self._process = int.from_bytes(os.urandom(8), "little") >> 2
        self._numbers: dict[str, int] = {}
        self._mids: dict[int, int] = {}
        self._n = 0
        self.folder = Path(directory) / "imported" / f"0-{hex64(self._id)}"
        self.folder.mkdir(parents=True)
        self._segment: _Segment | None = None
        self._payloads: BinaryIO | None = None
        self._payload_number = -1
        self._closed = False
        self._meta = (self.folder / META_FILE).open("wb", buffering=0)
        try:
            self._begin(program, begin_ns)
        except BaseException:
            self.discard()
            raise

    def _begin(self, program: str, begin_ns: int) -> None:
        self._note(
            {
                "is": "journal",
                "journal": hex64(self._id),
                "machine": "imported",
                "pid": 0,
                "program": program,
                "mono": 0,
                "wall": begin_ns,
            }
        )
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
            seq=self._kept(encoded),
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
        assert self._segment is not None
        self._segment.seal()
        self._meta.close()

    def discard(self) -> None:
        """Close its files as they are, and remove its folder."""
        self._closed = True
        segment = self._segment.file if self._segment else None
        for file in (self._payloads, segment, self._meta):
            with suppress(OSError):  # of buffered data without room
                if file is not None:
                    file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _registered(self, name: str) -> int:
        """Return the registration of a task; at its first message it is recorded."""
        number = self._numbers.get(name)
        if number is None:
            place = len(self._numbers) + 1
            number = self._numbers[name] = self._process + place
            self._note({"is": "name", "id": place, "text": name})
            self._record(RecordKind.REGISTER, flow=number, origin=number, task=place)
        return number

    def _kept(self, body: bytes) -> int:
        """Write a body; return its place."""
        file = self._payloads
        if file is None or file.tell() > _PAYLOAD_FILE_BYTES:
            if file is not None:
                file.close()
            self._payload_number += 1
            number = self._payload_number
            file = (self.folder / payload_file_name(number)).open("wb")
            at = self._latest_ns - self._begin_ns, self._latest_ns
            file.write(PayloadHeader(self._id, number, *at).pack())
            self._payloads = file
        offset = file.tell()
        file.write(FRAME.pack(len(body), zlib.crc32(body)) + body)
        file.write(bytes(-file.tell() % _ALIGNMENT))
        return self._payload_number << OFFSET_BITS | offset

    def _record(
        self,
        kind: RecordKind,
        *,
        flags: int = 0,
        size: int = 0,
        flow: int = 0,
        seq: int = 0,
        origin: int = 0,
        mid: int = 0,
        task: int = 0,
    ) -> None:
        mono = self._latest_ns - self._begin_ns
        if self._segment is None or self._segment.full:
            number = 0
            if self._segment is not None:
                number = self._segment.header.segment + 1
                self._segment.seal()
            header = SegmentHeader(
                journal=self._id,
                segment=number,
                first_n=self._n,
                slots=_SLOTS,
                boot_id=bytes(16),
                mono=mono,
                wall=self._latest_ns,
            )
            self._segment = _Segment(self.folder, header)
        head = kind, flags, 0, size, self._n, mono, flow, seq, origin, mid, task
        tail = 0, 0, 0, 0, 0, RECORD_VERSION, mark(self._n)
        self._segment.write(RECORD.pack(*head, *tail))
        self._n += 1

    def _note(self, line: dict[str, object]) -> None:
        self._meta.write(json.dumps(line).encode("ascii") + b"\n")


class _Segment:
    """A segment that is written from its beginning to its end."""

    def __init__(self, folder: Path, header: SegmentHeader) -> None:
        self.header = header
        self._path = folder / f"seg-{header.segment:05d}{OPEN_SUFFIX}"
        self.file = self._path.open("wb")
        self.file.write(header.pack())
        self._used = self._crc32 = 0

    @property
    def full(self) -> bool:
        return self._used == self.header.slots

    def write(self, record: bytes) -> None:
        self.file.write(record)
        self._crc32 = zlib.crc32(record, self._crc32)
        self._used += 1

    def seal(self) -> None:
        seal = Seal(self._used, self._used, self._crc32, 0)
        self.file.seek(0)
        self.file.write(attrs.evolve(self.header, seal=seal).pack())
        self.file.close()
        name = self._path.name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX
        self._path.rename(self._path.with_name(name))


def _checked(wall_ns: int) -> int:
    if not 0 <= wall_ns <= _WALL_MAX:
        raise JournalError(
            f"a journal cannot hold the time {wall_ns}: times are nanoseconds since"
            f" 1970, from 0 to {_WALL_MAX}"
        )
    return wall_ns
