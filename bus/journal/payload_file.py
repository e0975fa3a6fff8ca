"""`PayloadFile` and `StoredPayloads`: payloads as written, and as found on disk.

A header of 64 bytes, then frames: length, crc32 and bytes of one encoded payload, at a
multiple of eight. A record names a payload by its *location*: the number of the file in
the upper bits, the offset of the frame in the lower 36. A location is never 0.

Room is reserved by one call into C, as a slot is drawn (`bus.journal.segment`): the
position of an empty `io.BytesIO` is a number that one `seek` increases and returns. So
no lock is taken, and a finalizer that records in the middle of a write reserves other
room. The frame is written before the record that names it, so a kill leaves no record
with a partial payload.
"""

from __future__ import annotations

import contextlib
import io
import os
import struct
import weakref
import zlib
from typing import TYPE_CHECKING, Final

import attrs

from bus.errors import JournalError
from bus.journal.mapped_file import MappedFile, atomic
from bus.journal.wording import hex64
from queuebroker import _files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "FRAME",
    "OFFSET_BITS",
    "PAYLOAD_FILES",
    "PAYLOAD_HEADER_BYTES",
    "PAYLOAD_NUMBER_MAX",
    "PayloadFile",
    "PayloadHeader",
    "StoredPayloads",
    "payload_file_name",
]

PAYLOAD_HEADER_BYTES: Final = 64
OFFSET_BITS: Final = 36
PAYLOAD_NUMBER_MAX: Final = 2 ** (62 - OFFSET_BITS) - 1
FRAME: Final = struct.Struct("<II")  # length and crc32 of a body

PAYLOAD_FILES: Final = "payloads-*.bin"  # the names of all, as a glob

_MAGIC: Final = b"QBP1"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<4sIQQqq")
_CRC: Final = struct.Struct("<I")
_ALIGNMENT: Final = 8

# The part of a file that a reader keeps: it begins before the body that it looked for,
# since threads write the records of neighbours in another order than the bodies.
_WINDOW_BYTES: Final = 256 << 10
_BEFORE_BYTES: Final = 32 << 10
# A global is read faster than an attribute.
_FORWARD: Final = os.SEEK_CUR
_FRAME_BYTES: Final = FRAME.size
_PADDED: Final = FRAME.size + _ALIGNMENT - 1
_ALIGNED: Final = -_ALIGNMENT
_pack_frame, _crc32 = FRAME.pack_into, zlib.crc32
_OFFSET: Final = (1 << OFFSET_BITS) - 1


def payload_file_name(number: int) -> str:
    """Return the name of a payload file in the folder of its journal."""
    return f"payloads-{number:05d}.bin"


@attrs.frozen
class PayloadHeader:
    """The head of a payload file.

    journal: the number of the journal it belongs to.
    number: its place in that journal, from 0.
    mono, wall: the instant at which it was made, on both clocks, in nanoseconds.
    """

    journal: int
    number: int
    mono: int
    wall: int

    def pack(self) -> bytes:
        """Return the bytes at the beginning of the file."""
        body = _HEAD.pack(
            _MAGIC, _VERSION, self.journal, self.number, self.mono, self.wall
        )
        head = body + _CRC.pack(zlib.crc32(body))
        return head.ljust(PAYLOAD_HEADER_BYTES, b"\0")

    @classmethod
    def unpack(cls, buffer: bytes) -> PayloadHeader:
        """Parse a head; ValueError gives the defect and its byte."""
        if len(buffer) < PAYLOAD_HEADER_BYTES:
            msg = f"the header ends at byte {len(buffer)}"
            raise ValueError(msg)
        body = buffer[: _HEAD.size]
        magic, version, journal, number, mono, wall = _HEAD.unpack(body)
        if magic != _MAGIC:
            msg = f"not a payload file: byte 0 reads {magic!r}, expected {_MAGIC!r}"
            raise ValueError(msg)
        if _CRC.unpack_from(buffer, _HEAD.size)[0] != zlib.crc32(body):
            msg = f"the header is damaged: wrong checksum at byte {_HEAD.size}"
            raise ValueError(msg)
        if version != _VERSION:
            msg = f"payload file version {version} is not supported"
            raise ValueError(msg)
        return cls(journal, number, mono, wall)


class PayloadFile(MappedFile):
    """A file of bodies.

    size: its length in bytes.
    """

    __slots__ = ("_base", "_reserve", "size")

    def __init__(self, folder: Path, header: PayloadHeader, size: int) -> None:
        """Make the file. OSError if there is no room; no file remains then."""
        super().__init__(folder / payload_file_name(header.number), header.pack(), size)
        self.size: Final = size
        self._base: Final = header.number << OFFSET_BITS
        position = io.BytesIO()
        position.seek(PAYLOAD_HEADER_BYTES)
        # Moves the position by the bytes of a frame, and returns the end of the frame.
        self._reserve: Callable[[int, int], int] = atomic(position.seek)

    def write(self, body: bytes | memoryview) -> int:
        """Write a body; return its location, 0 if the file is full or closed."""
        length = len(body)
        frame = length + _PADDED & _ALIGNED
        end = self._reserve(frame, _FORWARD)
        if end > self.size:
            return 0
        offset = end - frame
        start = offset + _FRAME_BYTES
        view = self._view
        try:
            view[start : start + length] = body
            _pack_frame(view, offset, length, _crc32(body))
        except (ValueError, TypeError):  # closed without us: see `close`
            return 0
        return self._base | offset

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def full(self) -> bool:
        """True if a body found no room."""
        return self._reserve(0, os.SEEK_CUR) > self.size

    def close(self) -> None:
        """Cut the file to its bodies. Idempotent, also after an interrupt.

        The memory is released first: from then on, a writer that was suspended between
        reserving and writing cannot write, and keeps no body.
        """
        self._view.release()
        end = self._reserve(0, os.SEEK_CUR)
        with contextlib.suppress(BufferError):
            self._map.close()
        if end < self.size:
            os.truncate(self._path, end)


class StoredPayloads:
    """The payload files of one journal, as found on disk.

    A location is enough to read a payload: there is no index. The reader trusts no byte
    of a file: the checksum of the frame decides.
    """

    def __init__(self, folder: Path, journal: int) -> None:
        self._folder = folder
        self._journal = journal
        # The last file read stays open: to open one for each body takes as long as the
        # rest of reading a message.
        self._number = -1
        self._start, self._window = 0, b""  # a part of that file
        self._exist: dict[int, bool] = {}  # by number of the file
        self._open: list[int] = []
        weakref.finalize(self, _close, self._open)

    def read(self, location: int) -> bytes:
        """Return the body at a location.

        Raises:
            JournalError: the file is another one, or the body is damaged.
            OSError: the file cannot be read; FileNotFoundError if it does not exist
              any more.
        """
        number, offset = location >> OFFSET_BITS, location & _OFFSET
        if number != self._number:
            self._open_file(number)
        body = self._in_window(offset)
        if body is not None:
            return body
        [file] = self._open
        # Never read more than the file holds: the buffer would be allocated first.
        room = os.fstat(file).st_size - offset - FRAME.size
        head = _files.pread(file, FRAME.size, offset)
        if len(head) == FRAME.size:
            length, crc32 = FRAME.unpack(head)
            if length <= room:
                body = _files.pread(file, length, offset + FRAME.size)
                if len(body) == length and zlib.crc32(body) == crc32:
                    # Locations rise nearly as the records do, so the next bodies
                    # follow this one. One call reads many of them.
                    if length < _WINDOW_BYTES // 4:
                        self._start = max(0, offset - _BEFORE_BYTES)
                        self._window = _files.pread(file, _WINDOW_BYTES, self._start)
                    return body
        path = self._folder / payload_file_name(number)
        msg = f"{path} is damaged: the payload at byte {offset} is not whole"
        raise JournalError(msg)

    def has_file_of(self, location: int) -> bool:
        """Return True if the file of a location existed when first asked."""
        number = location >> OFFSET_BITS
        if number not in self._exist:
            self._exist[number] = (self._folder / payload_file_name(number)).exists()
        return self._exist[number]

    def _in_window(self, offset: int) -> bytes | None:
        """Return a body that was read with an earlier one.

        None for one that the writer had not written then. The checksum shows that,
        unless the frame was still zero: that is a body of length 0 with its checksum.
        """
        at = offset - self._start
        if not 0 <= at <= len(self._window) - FRAME.size:
            return None
        length, crc32 = FRAME.unpack_from(self._window, at)
        at += FRAME.size
        body = self._window[at : at + length]
        whole = len(body) == length > 0 and zlib.crc32(body) == crc32
        return body if whole else None

    def close(self) -> None:
        """Close the file that is open; the next `read` opens it again."""
        self._number, self._window = -1, b""
        _close(self._open)

    def _open_file(self, number: int) -> None:
        self.close()
        path = self._folder / payload_file_name(number)
        file = os.open(path, os.O_RDONLY | _files.BINARY)
        self._open.append(file)
        try:
            header = PayloadHeader.unpack(_files.pread(file, PAYLOAD_HEADER_BYTES, 0))
        except ValueError as error:
            raise JournalError(f"cannot read {path}: {error}") from None
        if (header.journal, header.number) != (self._journal, number):
            whose = f"payload file {header.number} of journal {hex64(header.journal)}"
            raise JournalError(f"cannot read {path}: it is {whose}")
        self._number = number


def _close(files: list[int]) -> None:
    while files:
        os.close(files.pop())
