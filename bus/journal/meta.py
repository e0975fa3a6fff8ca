"""The side file of a journal, ``meta.jsonl``: who wrote it, and what its numbers name.

One JSON object a line, each appended by a single write before the first record that
uses its number, so that no record in a journal of a killed process names nobody. The
lines, by their key ``is``: ``journal`` (first; who and where), ``name`` and ``thread``
(a number and its text), ``late`` (operations were reported after the close).

Nothing here takes a lock: an observer may be called by a finalizer in the middle of
any line of this module, on the same thread. Two threads that meet a name at once both
write a line; both numbers are good.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
from io import FileIO
from typing import TYPE_CHECKING, Final

from bus.journal.wording import hex64
from queuebroker import _sync

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.header import SegmentHeader

__all__ = ["META_FILE", "Meta"]

META_FILE: Final = "meta.jsonl"

# A program that makes names without end must not fill the memory: from here on its
# names are recorded as unknown.
NAMES_MAX: Final = 1_000_000
THREADS_MAX: Final = 2**16 - 1  # later threads share this number


class Meta:
    """The open side file of one incarnation.

    names: numbers by text, which the recorder reads without any lock; "" is 0, which
      also stands for a name that could not be written.
    unwritten: whether a name could not be written.
    """

    __slots__ = (
        "_file",
        "_name_numbers",
        "_path",
        "_thread_numbers",
        "_torn",
        "names",
        "unwritten",
    )

    def __init__(self, folder: Path, machine: str, header: SegmentHeader) -> None:
        """Make the file and say whose it is. OSError if that fails."""
        self._path = folder / META_FILE
        # Unbuffered, and not a bare descriptor: a thread that comes after the close
        # must not write to whatever file has that number by then.
        self._file = FileIO(self._path, "ab")
        self._torn = self.unwritten = False
        self._name_numbers = itertools.count(1)
        self._thread_numbers = itertools.count(1)
        self.names = {"": 0}
        self._write(
            {
                "is": "journal",
                "journal": hex64(header.journal),
                "machine": machine,
                "pid": os.getpid(),
                "program": sys.argv[0] if sys.argv else "",
                "python": sys.version.split()[0],
                "boot_id": header.boot_id.hex(),
                "mono": header.mono,
                "wall": header.wall,
            }
        )

    def name(self, text: str) -> int:
        """The number of a name; written down first if it is new. 0 if that fails."""
        number = self.names.get(text)
        if number is not None:
            return number
        if len(self.names) >= NAMES_MAX:
            return 0
        number = next(self._name_numbers)
        if not self._note({"is": "name", "id": number, "text": text}):
            return 0
        return self.names.setdefault(text, number)

    def thread(self) -> int:
        """A new number for the running thread, which has none yet. 0 if that fails."""
        number = min(next(self._thread_numbers), THREADS_MAX)
        text = "later threads"
        if number < THREADS_MAX:
            text = _sync.current_thread().name
        return number if self._note({"is": "thread", "id": number, "text": text}) else 0

    def late(self) -> None:
        """Say, after the close, that operations are still being reported."""
        data = _encoded({"is": "late", "mono": _sync.monotonic_ns()})
        if self._torn:
            data = b"\n" + data
        # If the journal was removed nobody is left to be told: do not make a new file.
        with (
            contextlib.suppress(OSError),
            FileIO(self._path, "ab", opener=_existing) as file,
        ):
            file.write(data)

    def close(self) -> None:
        """Close the file. Whoever still has a name to write is told that it cannot."""
        self._file.close()

    def _note(self, line: dict[str, object]) -> bool:
        try:
            self._write(line)
        except OSError:
            self.unwritten = True
            return False
        except ValueError:  # the file is closed
            return False
        return True

    def _write(self, line: dict[str, object]) -> None:
        data = _encoded(line)
        if self._torn:
            data = b"\n" + data
        # A full disk may take a part of a line. The reader passes over it, provided
        # that the next one begins on a line of its own.
        self._torn = True
        if self._file.write(data) != len(data):
            raise OSError("cannot write the line whole: the disk is full")
        self._torn = False


def _encoded(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT)
