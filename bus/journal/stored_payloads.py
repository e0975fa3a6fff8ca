"""`StoredPayloads`: the bodies of messages beside a journal, as found on disk.

A body is read by its location alone; no index is needed. The reader trusts no byte of
it: the checksum of the frame decides.
"""

from __future__ import annotations

import os
import weakref
import zlib
from typing import TYPE_CHECKING, Final

from bus.errors import JournalError
from bus.journal.payload_file import (
    FRAME,
    OFFSET_BITS,
    PAYLOAD_HEADER_BYTES,
    PayloadHeader,
    payload_file_name,
)
from bus.journal.wording import hex64

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StoredPayloads"]

_OFFSET: Final = (1 << OFFSET_BITS) - 1


class StoredPayloads:
    """The payload files of one journal."""

    def __init__(self, folder: Path, journal: int) -> None:
        self._folder = folder
        self._journal = journal
        # The last file read stays open: to open one for each body takes as long as the
        # rest of reading a message.
        self._number = -1
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
        [file] = self._open
        # Never read more than the file holds: the buffer would be allocated first.
        room = os.fstat(file).st_size - offset - FRAME.size
        head = os.pread(file, FRAME.size, offset)
        if len(head) == FRAME.size:
            length, crc32 = FRAME.unpack(head)
            if length <= room:
                body = os.pread(file, length, offset + FRAME.size)
                if len(body) == length and zlib.crc32(body) == crc32:
                    return body
        path = self._folder / payload_file_name(number)
        msg = f"{path} is damaged: the payload at byte {offset} is not whole"
        raise JournalError(msg)

    def close(self) -> None:
        """Close the file that is open; the next `read` opens it again."""
        self._number = -1
        _close(self._open)

    def _open_file(self, number: int) -> None:
        self.close()
        path = self._folder / payload_file_name(number)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._open.append(file)
        try:
            header = PayloadHeader.unpack(os.pread(file, PAYLOAD_HEADER_BYTES, 0))
        except ValueError as error:
            raise JournalError(f"cannot read {path}: {error}") from None
        if (header.journal, header.number) != (self._journal, number):
            whose = f"payload file {header.number} of journal {hex64(header.journal)}"
            raise JournalError(f"cannot read {path}: it is {whose}")
        self._number = number


def _close(files: list[int]) -> None:
    while files:
        os.close(files.pop())
