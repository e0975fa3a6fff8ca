"""`StoredMeta`: the side file of a journal as found on disk.

The reader skips an unreadable line and keeps its number: a full disk or a power cut may
have left a partial line. Only the names in that line are then unknown. The reader
enforces the writer's bounds on every value. So no later step, such as Arrow's 64-bit
columns or the calendar, gets a number that it cannot hold.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.journal.meta import META_FILE, THREADS_MAX
from queuebroker import _files

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StoredMeta", "has_writer", "read_meta"]

_JOURNAL_MAX: Final = 2**64 - 1
_PID_MAX: Final = 2**31 - 1
_NAME_MAX: Final = 2**32 - 1  # `task` and `peer` of a record
_CLOCK_MAX: Final = 2**63 - 1

# A line of thousands of brackets makes the parser raise RecursionError.
_UNREADABLE: Final = (ValueError, KeyError, TypeError, RecursionError)


@attrs.define
class StoredMeta:
    """The writer of a journal, and the names of its numbers.

    journal: its number, None if the file does not contain it.
    machine, pid, program: of the writer, "" or None if unknown.
    mono, wall: one instant on both clocks.
    names, threads: texts by number; missing numbers are unknown.
    registrations: names of tasks on a bus by the number of their registration. They
      are listed here if the segments that record them may be missing.
    late: operations were reported after the close.
    unreadable: numbers of the lines that could not be read, from 1.
    file_bytes: how much of the file was read; it only grows.
    """

    journal: int | None = None
    machine: str = ""
    pid: int | None = None
    program: str = ""
    mono: int = 0
    wall: int = 0
    names: dict[int, str] = attrs.field(factory=lambda: {0: ""})
    threads: dict[int, str] = attrs.field(factory=lambda: {0: ""})
    registrations: dict[int, str] = attrs.field(factory=dict)
    late: bool = False
    unreadable: list[int] = attrs.field(factory=list)
    file_bytes: int = 0

    @property
    def silent(self) -> bool:
        """True if it has at most the line of the journal's owner, and no names."""
        named = len(self.names) > 1 or len(self.threads) > 1
        return not named and not self.late and self.unreadable in ([], [1])


def read_meta(folder: Path) -> StoredMeta:
    """Read the side file of a journal's folder; OSError if that fails."""
    data = (folder / META_FILE).read_bytes()
    meta = StoredMeta(file_bytes=len(data))
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            _take_in(meta, json.loads(line))
        except _UNREADABLE:
            meta.unreadable.append(number)
    return meta


def has_writer(folder: Path) -> bool:
    """Return False if the process that writes a journal has ended, in any way.

    True also if that is unknown. Ask only on the machine of the process: a lock may
    not reach another one.
    """
    try:
        with (folder / META_FILE).open("rb") as file:
            _files.lock(file.fileno(), shared=True)
            line = json.loads(file.readline())
            return line["is"] != "journal" or line.get("locked") is not True
    except (OSError, *_UNREADABLE):
        return True


def _take_in(meta: StoredMeta, line: dict[str, Any]) -> None:
    match line["is"]:
        case "journal":
            # Accept the line whole or not at all.
            journal = _bounded(int(_text(line["journal"]), 16), 0, _JOURNAL_MAX)
            machine, program = _text(line["machine"]), _text(line["program"])
            pid = _bounded(line["pid"], 0, _PID_MAX)
            mono = _bounded(line["mono"], -_CLOCK_MAX, _CLOCK_MAX)
            wall = _bounded(line["wall"], 0, _CLOCK_MAX)
            meta.journal, meta.machine, meta.pid = journal, machine, pid
            meta.program, meta.mono, meta.wall = program, mono, wall
        case "name":
            meta.names[_bounded(line["id"], 1, _NAME_MAX)] = _text(line["text"])
        case "thread":
            meta.threads[_bounded(line["id"], 1, THREADS_MAX)] = _text(line["text"])
        case "registration":
            number = _bounded(int(_text(line["id"]), 16), 0, _JOURNAL_MAX)
            meta.registrations[number] = _text(line["name"])
        case "late":
            meta.late = True
        case _:
            pass  # of a later version


def _bounded(value: object, least: int, most: int) -> int:
    """Return a whole number within its bounds; ValueError for any other value."""
    if type(value) is not int or not least <= value <= most:
        msg = f"expected a whole number from {least} to {most}, got {value!r:.40}"
        raise ValueError(msg)
    return value


def _text(value: object) -> str:
    """Return a text; TypeError for any other value."""
    if not isinstance(value, str):
        msg = f"expected a text, got {value!r:.40}"
        raise TypeError(msg)
    return value
