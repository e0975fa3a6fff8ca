"""`Disk`: a directory on stable storage, and the operations not yet synced.

A write, a truncation or a change of names stays pending until the file, or the
directory, is synced. A crash keeps any subset of the pending operations, in any order
where they touch the same bytes, and any part of a write. If the length of a file is
kept without its bytes, these are zeros. The entry of the directory in its parent is
pending, too: without it a crash loses the whole directory.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

__all__ = ["DirectoryCreation", "Disk", "EntryChange", "Truncation", "Write"]


@attrs.frozen
class Write:
    """A write of bytes to a file at an offset."""

    file: int
    at: int
    data: bytes


@attrs.frozen
class Truncation:
    """A truncation of a file to no bytes."""

    file: int


@attrs.frozen
class EntryChange:
    """A change of the file that each name refers to; None for a removed name."""

    names: tuple[tuple[str, int | None], ...]


@attrs.frozen
class DirectoryCreation:
    """The creation of the directory: its entry in its parent."""


Operation: TypeAlias = Write | Truncation | EntryChange | DirectoryCreation


@attrs.define
class Disk:
    """The state of one directory.

    files: the stable contents by file number. names: the stable entries.
    exists: True if the entry of the directory is stable.
    pending: the operations that are not synced, in order.
    """

    files: dict[int, bytes] = attrs.field(factory=dict)
    names: dict[str, int] = attrs.field(factory=dict)
    exists: bool = False
    pending: list[Operation] = attrs.field(factory=list)

    def copy(self) -> Disk:
        """Return a disk with the same stable contents, and nothing pending."""
        return Disk(dict(self.files), dict(self.names), self.exists)

    def current(self) -> Disk:
        """Return the state that processes read: all operations, synced or not."""
        return self.with_operations(self.pending)

    def with_operations(self, operations: Iterable[Operation]) -> Disk:
        """Return the disk after a power cut that keeps only these operations."""
        disk = self.copy()
        for each in operations:
            disk._apply(each)
        if not disk.exists:
            return Disk()
        return disk

    def _apply(self, operation: Operation) -> None:
        match operation:
            case Write(file, at, data):
                before = self.files.get(file, b"").ljust(at, b"\0")
                self.files[file] = before[:at] + data + before[at + len(data) :]
            case Truncation(file):
                self.files[file] = b""
            case EntryChange(names):
                for name, number in names:
                    if number is None:
                        self.names.pop(name, None)
                    else:
                        self.names[name] = number
                        self.files.setdefault(number, b"")
            case DirectoryCreation():
                self.exists = True

    # Syncs.

    def sync_file(self, file: int) -> None:
        """Make the contents of a file stable, but not its name."""
        kept: list[Operation] = []
        for each in self.pending:
            if isinstance(each, (Write, Truncation)) and each.file == file:
                self._apply(each)
            else:
                kept.append(each)
        self.pending = kept

    def sync_names(self) -> None:
        """Make the entries of the directory stable."""
        self._sync_kind(EntryChange)

    def sync_parent(self) -> None:
        """Make the entry of the directory stable."""
        self._sync_kind(DirectoryCreation)

    def _sync_kind(self, kind: type[EntryChange | DirectoryCreation]) -> None:
        for each in self.pending:
            if isinstance(each, kind):
                self._apply(each)
        self.pending = [each for each in self.pending if not isinstance(each, kind)]

    # Power cuts.

    def subsets(self) -> Iterator[Disk]:
        """Yield the disk for each subset of the pending operations that is kept."""
        for kept in itertools.product((False, True), repeat=len(self.pending)):
            yield self.with_operations(itertools.compress(self.pending, kept))

    def with_torn_writes(self, draw: random.Random) -> Disk:
        """Return the disk after a power cut that tears writes, at random.

        It keeps some operations, perhaps in another order, and of some writes only a
        part. Of the last write it always keeps only a part.
        """
        kept = [each for each in self.pending if draw.random() < 0.7]
        last = next((each for each in reversed(self.pending) if _is_write(each)), None)
        if last is not None and last not in kept:
            kept.append(last)
        parts: list[Operation] = []
        for each in kept:
            if isinstance(each, Write) and (each is last or draw.random() < 0.3):
                parts += _parts(each, draw)
            else:
                parts.append(each)
        if draw.random() < 0.5:
            # Changes of names keep their order: each relies on the one before.
            order = list(range(len(parts)))
            draw.shuffle(order)
            names = iter([each for each in parts if isinstance(each, EntryChange)])
            parts = [
                next(names) if isinstance(parts[at], EntryChange) else parts[at]
                for at in order
            ]
        return self.with_operations(parts)

    def with_flipped_bit(self, name: str, draw: random.Random) -> Disk:
        """Return the disk with one bit of a file flipped, at random."""
        disk = self.copy()
        file = disk.names[name]
        data = bytearray(disk.files[file])
        bit = draw.randrange(8 * len(data))
        data[bit // 8] ^= 1 << bit % 8
        disk.files[file] = bytes(data)
        return disk


def _is_write(operation: Operation) -> bool:
    return isinstance(operation, Write)


def _parts(write: Write, draw: random.Random) -> list[Operation]:
    """Return the operations that a torn write leaves, at random."""
    size = len(write.data)
    begin, stop = sorted(draw.randrange(size + 1) for _ in range(2))
    parts: list[Operation] = []
    match draw.randrange(4):
        case 0:  # only the beginning arrived
            parts.append(attrs.evolve(write, data=write.data[:stop]))
        case 1:  # the length arrived, and the beginning of the bytes
            parts.append(attrs.evolve(write, data=write.data[:stop].ljust(size, b"\0")))
        case 2:  # only the end arrived
            parts.append(Write(write.file, write.at + stop, write.data[stop:]))
        case _:  # a piece in the middle did not arrive
            hole = bytes(stop - begin)
            data = write.data[:begin] + hole + write.data[stop:]
            parts.append(attrs.evolve(write, data=data))
    return parts
