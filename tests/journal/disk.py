"""Generated traffic stored as journals on the disk, in any condition.

The bytes are built here from the format alone, not by the writer under test.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import RECORD, RECORD_BYTES, RECORD_VERSION, RecordKind, mark
from bus.journal.header import SEAL_OFFSET, Seal, SegmentHeader
from tests.journal.history import Entry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.journal.history import History

__all__ = ["MACHINE", "Condition", "journal_id", "process_id", "store"]

MACHINE: Final = "machine"
_MONO: Final = 10**12


def journal_id(index: int) -> int:
    """Return the number of a history's journal."""
    return 0x5EED_0000_0000 + index


def process_id(index: int) -> int:
    """Return the process that wrote a history's journal."""
    return 1 + index


@attrs.frozen
class Condition:
    """The condition in which a journal is found.

    closed: with a CLOSE record. sealed: its last segment, too. lost: records that its
    writer counted as lost. holes: record numbers whose slots are empty. beginning: how
    many segments at its beginning were deleted. damaged: a byte was changed after the
    seal.
    seal_damaged: a byte of the last seal was. late: operations were reported after the
    close. begun: False if its process was killed before its first record. machine: that
    of its process. boot: one of its boots. ahead: of the clock of that boot, in
    nanoseconds.
    """

    closed: bool = True
    sealed: bool = True
    lost: int = 0
    holes: tuple[int, ...] = ()
    beginning: int = 0
    damaged: bool = False
    seal_damaged: bool = False
    late: bool = False
    begun: bool = True
    machine: str = MACHINE
    boot: int = 0
    ahead: int = 0


def store(
    history: History,
    folder: Path,
    *,
    slots: int = 64,
    conditions: Mapping[int, Condition] | None = None,
) -> list[Path]:
    """Store a history's journals below a folder, in the given conditions."""
    stored = []
    for index in range(history.journals):
        condition = (conditions or {}).get(index, Condition())
        path = folder / condition.machine / f"journal-{index}"
        path.mkdir(parents=True)
        entries = [entry for entry in history.entries if entry.journal == index]
        if not condition.begun:
            entries = []
            condition = attrs.evolve(condition, closed=False, sealed=False)
        records = _records(index, entries, path, condition)
        _write_segments(index, records, path, slots, condition)
        stored.append(path)
    return stored


def _records(
    index: int, entries: list[Entry], path: Path, condition: Condition
) -> list[bytes]:
    """Return the packed records, and the side file with their names."""
    names = {"": 0}
    for entry in entries:
        for name in (entry.task, entry.peer):
            names.setdefault(name, len(names))
    lines: list[dict[str, object]] = [
        {
            "is": "journal",
            "journal": f"{journal_id(index):016x}",
            "machine": condition.machine,
            "pid": process_id(index),
            "program": "history",
            "boot_id": condition.boot.to_bytes(16).hex(),
            "mono": _MONO,
            "wall": 10 * _MONO,
        }
    ]
    lines += [{"is": "name", "id": i, "text": text} for text, i in names.items() if i]
    if condition.late:
        lines.append({"is": "late", "mono": _MONO})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (path / "meta.jsonl").write_text(text, encoding="ascii")
    end = max([entry.at for entry in entries], default=0) + 1
    kinds = [Entry(RecordKind.OPEN), *entries] if condition.begun else []
    kinds += [Entry(RecordKind.CLOSE, at=end)] if condition.closed else []
    return [
        bytes(RECORD_BYTES)
        if n in condition.holes
        else _pack(n, entry, names, condition.ahead)
        for n, entry in enumerate(kinds)
    ]


def _pack(n: int, entry: Entry, names: Mapping[str, int], ahead: int) -> bytes:
    who = names[entry.task], names[entry.peer]
    mono = _MONO + 1000 * entry.at + entry.late + ahead
    head = entry.kind, entry.flags, entry.reason, entry.size, n, mono
    what = entry.flow, entry.seq, entry.origin, entry.port, *who
    return RECORD.pack(*head, *what, 0, 0, 0, entry.hop, RECORD_VERSION, mark(n))


def _write_segments(
    index: int, records: list[bytes], path: Path, slots: int, condition: Condition
) -> None:
    count = max(1, -(-len(records) // slots))
    for number in range(condition.beginning, count):
        body = b"".join(records[number * slots : (number + 1) * slots])
        used = len(body) // RECORD_BYTES
        empty = sum(
            not any(body[at : at + RECORD_BYTES])
            for at in range(0, len(body), RECORD_BYTES)
        )
        sealed = condition.sealed or number < count - 1
        seal = Seal(used, used - empty, zlib.crc32(body), condition.lost)
        header = SegmentHeader(
            journal=journal_id(index),
            segment=number,
            first_n=number * slots,
            slots=slots,
            boot_id=condition.boot.to_bytes(16),
            mono=_MONO,
            wall=10 * _MONO,
            seal=seal if sealed else None,
            lost=condition.lost,
        )
        if not sealed:
            body = body.ljust(slots * RECORD_BYTES, b"\0")
        if condition.damaged and number == count - 1:
            body = _flipped(body)
        head = bytearray(header.pack())
        if condition.seal_damaged and sealed and number == count - 1:
            head[SEAL_OFFSET + 8] ^= 1
        suffix = ".qbj" if sealed else ".open.qbj"
        file = path / f"seg-{number:05d}{suffix}"
        file.write_bytes(head + body)


def _flipped(body: bytes) -> bytes:
    """Change the `mono` of the first record: still valid, but not as written."""
    (mono,) = struct.unpack_from("<q", body, 16)
    return body[:16] + struct.pack("<q", mono ^ 1) + body[24:]
