"""`Notebook`: the notes of a process, which survive its death; `Reader` reads them.

A line is one write to a file opened to append. When the write returns, the kernel has
the whole line, so a later kill cannot lose it. The first word is one of `Note`, the
second the number of a message, as ``a.3/17``: the 17th of the third life of a.
"""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Note", "Notebook", "Reader"]


class Note(enum.StrEnum):
    """The event that a line notes."""

    SENT = "S"  # addressee, and `ledger.Wish`; written before it is sent
    OUTCOME = "O"  # with "ok", or the name of an error
    GOT = "G"  # by which task: the first step of its callback
    BROKEN = "B"  # likewise, but it is not as it was sent
    TAKEN = "T"  # its callback ran, and its process dies before it notes that
    HEARD = "N"  # a notification, and by which task
    KILLED = "X"  # no message: the state in which the process strikes itself


class Notebook:
    """The file of one life of a process; any thread may write."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor: Final = os.open(path, flags, 0o600)

    def note(self, kind: Note, *words: str) -> None:
        """Write one line."""
        os.write(self._descriptor, " ".join((kind, *words, "\n")).encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Reader:
    """Reads all notebooks of a folder, each line once."""

    __slots__ = ("_done", "_folder")

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._done: Final[dict[Path, int]] = {}

    def news(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the lines written since the last call: the life, and the words."""
        for path in sorted(self._folder.iterdir()):
            done = self._done.get(path, 0)
            with path.open("rb") as file:
                file.seek(done)
                lines, newline, _ = file.read().rpartition(b"\n")
            self._done[path] = done + len(lines) + len(newline)
            for line in lines.decode().splitlines():
                yield path.name, line.split()
