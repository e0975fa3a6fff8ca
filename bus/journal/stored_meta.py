"""`StoredMeta`: the side file of a journal as it is found.

A line that cannot be read is passed over and counted: a full disk or a power cut may
have left a part of one, and what it named is then unknown, no more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from bus.journal.meta import META_FILE

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["StoredMeta", "read_meta"]


@attrs.define
class StoredMeta:
    """Who wrote a journal, and what its numbers name.

    journal: its number, None if the file does not say.
    machine, pid, program: who wrote it, "" or None if unknown.
    mono, wall: one instant on both clocks.
    names, threads: texts by number; numbers that are not there are unknown.
    late: operations were reported after the close.
    unreadable: lines that could not be read.
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
    late: bool = False
    unreadable: int = 0
    file_bytes: int = 0


def read_meta(folder: Path) -> StoredMeta:
    """Read the side file of a journal's folder; OSError if that fails."""
    data = (folder / META_FILE).read_bytes()
    meta = StoredMeta(file_bytes=len(data))
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            _take_in(meta, json.loads(line))
        except (ValueError, KeyError, TypeError):
            meta.unreadable += 1
    return meta


def _take_in(meta: StoredMeta, line: dict[str, Any]) -> None:
    match line["is"]:
        case "journal":
            meta.journal = int(line["journal"], 16)
            meta.machine = str(line["machine"])
            meta.pid = int(line["pid"])
            meta.program = str(line["program"])
            meta.mono, meta.wall = int(line["mono"]), int(line["wall"])
        case "name":
            meta.names[int(line["id"])] = str(line["text"])
        case "thread":
            meta.threads[int(line["id"])] = str(line["text"])
        case "late":
            meta.late = True
        case _:
            pass  # of a later version
