"""`Payloads`: the payload files of one journal, and the bodies written to them.

The sender's thread writes a body to the current file; the housekeeper makes the next
files. A file that is full stays as it is: no writer has a reason to come back to it,
and a writer that was suspended in it holds its memory.
"""

from __future__ import annotations

import collections
import logging
from typing import TYPE_CHECKING, Any, Final

from bus.journal.payload_file import (
    FRAME,
    PAYLOAD_HEADER_BYTES,
    PAYLOAD_NUMBER_MAX,
    PayloadFile,
    PayloadHeader,
)
from bus.model.arrays import is_array
from bus.model.payload import ENCODER, encode, size_with_length
from queuebroker import _sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bus.journal.retention import Retention

__all__ = ["Payloads", "body_within", "room_for_one"]

_log = logging.getLogger("bus.journal")

_BYTES: Final = (bytes, memoryview)
_encode: Final = ENCODER.encode


def room_for_one(file_bytes: int) -> int:
    """Return the length of the longest body that a file of that size can hold."""
    return file_bytes - PAYLOAD_HEADER_BYTES - FRAME.size


def body_within(
    payload: Any, encoded: bytes | memoryview | None, most: int
) -> tuple[bytes | memoryview, bool]:
    """Return the first ``most`` bytes of an encoding, and True if there are more.

    payload: frozen.
    encoded: its encoding, if there is one already.
    """
    # A long payload of bytes, perhaps in shared memory, is not copied in order to drop
    # most of the copy.
    long = encoded is None and type(payload) in _BYTES and len(payload) > most
    if long and not (type(payload) is memoryview and is_array(payload)):
        return (_head_of_bytes(len(payload)) + bytes(payload[:most]))[:most], True
    body = encode(payload) if encoded is None else encoded
    return (memoryview(body)[:most], True) if len(body) > most else (body, False)


def _head_of_bytes(length: int) -> bytes:
    """Return how MessagePack begins bytes of that length."""
    code, width = (0xC4, 1) if length < 2**8 else (0xC5, 2)
    if length >= 2**16:
        code, width = 0xC6, 4
    return bytes((code,)) + length.to_bytes(width, "big")


class Payloads:
    """The payload files of one incarnation.

    short: True while a spare is needed that could not be made.

    `advance` is called under the journal's lock; `write` by any thread; every other
    method by one thread at a time, as for `bus.journal.supply.Supply`.
    """

    __slots__ = (
        "_bytes_max",
        "_file_bytes",
        "_folder",
        "_full",
        "_journal",
        "_line",
        "_next",
        "_plain_max",
        "_retention",
        "short",
    )

    def __init__(
        self,
        folder: Path,
        journal: int,
        file_bytes: int,
        bytes_max: int,
        retention: Retention,
    ) -> None:
        """Make the first file. OSError if there is no room for it.

        bytes_max: how much of each body is kept.
        retention: of the files of the journal.
        """
        self._folder: Final = folder
        self._journal: Final = journal
        self._file_bytes: Final = file_bytes
        self._bytes_max: Final = bytes_max
        # Bytes below this length are kept whole.
        self._plain_max: Final = 2 * bytes_max - size_with_length(bytes_max)
        self._retention: Final = retention
        self._next = 0
        # Full files that the housekeeper has not yet seen.
        self._full: collections.deque[PayloadFile] = collections.deque()
        self.short = False
        # The current file, followed by the spares.
        self._line: collections.deque[PayloadFile] = collections.deque()
        self._make()

    @property
    def current(self) -> PayloadFile:
        """The file that bodies are written to."""
        return self._line[0]

    def write(
        self,
        payload: Any,
        encoded: bytes | memoryview | None,
        advance: Callable[[], bool],
    ) -> tuple[int, bool]:
        """Write a payload; return its location, and True if only a part is kept.

        The location is 0 if there is no room.

        advance: calls `advance` under the lock; returns False if there is no spare.
        """
        body: bytes | memoryview
        # The most common case is spared two calls.
        if type(payload) is bytes and len(payload) < self._plain_max:
            body, truncated = _encode(payload), False
        else:
            body, truncated = body_within(payload, encoded, self._bytes_max)
        while not (location := self._line[0].write(body)):
            if not advance():
                return 0, False
        return location, truncated

    def advance(self) -> bool:
        """Replace a full file by a spare; return False if there is none."""
        if not self.current.full:
            return True  # another thread was faster
        if len(self._line) < 2:
            return False
        # One call in C, as for segments.
        self._full.extend(map(collections.deque.popleft, (self._line,)))
        return True

    def tend(self) -> None:
        """Retire full files, and make spares."""
        self._retire_full()
        due = self._retention.spares_due(self._file_bytes)
        try:
            while len(self._line) - 1 < due and self._next <= PAYLOAD_NUMBER_MAX:
                self._retention.make_room(self._file_bytes)
                self._make()
        except OSError as error:
            if not self.short:
                _log.warning(
                    "cannot make a payload file in %s: %s; payloads without room are"
                    " counted as lost until there is room again",
                    self._folder,
                    error,
                )
            self.short = True
        else:
            self.short = False

    def finish(self) -> None:
        """Remove the spares and cut the current file. Repeat after an interrupt."""
        self._retire_full()
        while len(self._line) > 1:
            self._line[-1].discard()
            self._line.pop()
        try:
            self.current.close()
        except OSError as error:
            _log.warning("cannot cut %s: %s", self.current.path, error)

    def _retire_full(self) -> None:
        # The last writer in it, which may be suspended, frees its memory.
        while self._full:
            self._retention.closed(self._full[0].path, self._file_bytes)
            self._full.popleft()

    def _make(self) -> None:
        header = PayloadHeader(
            self._journal, self._next, _sync.monotonic_ns(), _sync.wall_ns()
        )
        file = PayloadFile(self._folder, header, self._file_bytes)
        # An interrupt cannot fall between these two lines: no number is used twice.
        self._next += 1
        self._line.append(file)
        self._retention.opened(self._file_bytes)
