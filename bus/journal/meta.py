"""The side file of a journal, ``meta.jsonl``: its writer, and the names of its numbers.

It has one JSON object a line. A single write appends each line before the first record
that uses its number. So even in the journal of a killed process, every number has its
name. The lines, by their key ``is``: ``journal`` (first; the process and machine),
``name`` and ``thread`` (a number and its text), ``registration`` (the name of a task on
a bus: its REGISTER record may be deleted with the oldest segment), ``late`` (operations
were reported after the close).

The writer locks the file, and the kernel releases the lock when the process
ends in any way. So a reader that gets the lock knows that no record will follow.

No thread waits here for another: a finalizer may call an observer in the middle of any
line of this module, on the same thread. If two threads meet a name at once, both write
a line, and both numbers are valid.
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
from queuebroker import _files, _sync

if TYPE_CHECKING:
    from pathlib import Path

    from bus.journal.header import SegmentHeader

__all__ = ["META_FILE", "Meta"]

META_FILE: Final = "meta.jsonl"

# A program that generates names without end must not fill the memory: beyond this
# number, its names are recorded as unknown.
NAMES_MAX: Final = 1_000_000
THREADS_MAX: Final = 2**16 - 1  # later threads share this number


class Meta:
    """The open side file of one incarnation.

    names: numbers by text, which the recorder reads without any lock; "" is 0, which
      also stands for a name that could not be written.
    unwritten: True if a name could not be written.
    """

    __slots__ = (
        "_file",
        "_name_numbers",
        "_path",
        "_registrations",
        "_thread_numbers",
        "_torn",
        "names",
        "unwritten",
    )

    def __init__(
        self,
        folder: Path,
        machine: str,
        header: SegmentHeader,
        *,
        pid: int | None = None,
        program: str | None = None,
    ) -> None:
        """Create the file and write its first line. OSError if that fails.

        pid, program: of the writer; None for those of this process.
        """
        if program is None:
            program = sys.argv[0] if sys.argv else ""
        self._path = folder / META_FILE
        # Unbuffered, and no bare descriptor: a thread that writes after the close must
        # not reach another file that has reused the descriptor.
        self._file = FileIO(self._path, "ab")
        locked = False
        with contextlib.suppress(OSError):  # some file systems have no locks
            _files.lock(self._file.fileno())
            locked = True
        self._torn = self.unwritten = False
        self._name_numbers = itertools.count(1)
        self._thread_numbers = itertools.count(1)
        self._registrations = itertools.count()
        self.names = {"": 0}
        self._write(
            {
                "is": "journal",
                "journal": hex64(header.journal),
                "machine": machine,
                "pid": os.getpid() if pid is None else pid,
                "program": program,
                "python": sys.version.split()[0],
                "boot_id": header.boot_id.hex(),
                "mono": header.mono,
                "wall": header.wall,
                "locked": locked,
            }
        )

    def name(self, text: str) -> int:
        """Return the number of a name, written first if it is new. 0 if that fails."""
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
        """Return a new number for the running thread. 0 if that fails."""
        number = min(next(self._thread_numbers), THREADS_MAX)
        text = "later threads"
        if number < THREADS_MAX:
            text = _sync.current_thread().name
        return number if self._note({"is": "thread", "id": number, "text": text}) else 0

    def registration(self, number: int, text: str) -> None:
        """Note the name of a task on a bus; beyond a bound it is only in its record."""
        # Tasks may come and go without end, as names may.
        if next(self._registrations) < NAMES_MAX:
            self._note({"is": "registration", "id": hex64(number), "name": text})

    def late(self) -> None:
        """Note, after the close, that operations are still being reported."""
        data = _encoded({"is": "late", "mono": _sync.monotonic_ns()})
        if self._torn:
            data = b"\n" + data
        # If the journal was removed, no reader needs the note: do not make a new file.
        with (
            contextlib.suppress(OSError),
            FileIO(self._path, "ab", opener=_existing) as file,
        ):
            file.write(data)

    def close(self) -> None:
        """Close the file. A later attempt to write a name fails."""
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
        # A full disk may take part of a line. The reader skips it if the next line
        # begins on a line of its own.
        self._torn = True
        if self._file.write(data) != len(data):
            raise OSError("cannot write the whole line: the disk is full")
        self._torn = False


def _encoded(line: dict[str, object]) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"


def _existing(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT)
