"""`System`: the system calls of `bus.features.durable.storage`, on a simulated disk.

It replaces the modules `os` and `_files` there, so that the code under test is the
production code, down to each sync.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from bus.features.durable import storage
from queuebroker._files import Descriptors
from tests.crash_states.disk import (
    DirectoryCreation,
    Disk,
    EntryChange,
    Truncation,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["FOLDER", "System"]

FOLDER: Final = "/simulated/horizons"
_PARENT: Final = "/simulated"


class System:
    """The descriptors of one process, and its disk.

    disk: assign another one to restart the process from another state.
    on_call: called before each system call that changes or syncs something; may raise.
    """

    O_RDONLY, O_RDWR, O_CREAT, O_TRUNC = os.O_RDONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC
    BINARY = 0

    def __init__(self) -> None:
        self.disk = Disk()
        self.on_call: Callable[[str], object] = lambda _: None
        self._files = self._opened = 0
        # By descriptor: a file and the position in it, or the path of a folder.
        self._open: dict[int, tuple[int, int] | str] = {}

    @contextmanager
    def install(self) -> Iterator[None]:
        """Let `bus.features.durable.storage` use this system within the block."""
        with (
            patch.object(storage, "os", self),
            patch.object(storage, "_files", self),
            patch.object(storage, "Descriptors", partial(_Descriptors, self)),
        ):
            yield

    def kill(self) -> None:
        """Kill the process: close its descriptors, and sync nothing."""
        self._open.clear()

    # Calls.

    def mkdir(self, path: Path, mode: int) -> None:
        """Create the directory."""
        assert str(path) == FOLDER
        if self.disk.current().exists:
            raise FileExistsError
        self.on_call("mkdir")
        self.disk.pending.append(DirectoryCreation())

    def open(self, place: Path, flags: int, _mode: int = 0) -> int:
        """Open a file or a folder."""
        self._opened += 1  # none is used again: a killed process may close late
        descriptor, path = self._opened, place.name
        assert self.disk.current().exists
        if str(place) == FOLDER:
            self._open[descriptor] = FOLDER
            return descriptor
        assert str(place.parent) == FOLDER
        file = self.disk.current().names.get(path)
        if file is None:
            if not flags & os.O_CREAT:
                raise FileNotFoundError
            self.on_call("create")
            self._files += 1
            file = self._files
            self.disk.pending.append(EntryChange(((path, file),)))
        elif flags & os.O_TRUNC:
            self.on_call("truncate")
            self.disk.pending.append(Truncation(file))
        self._open[descriptor] = (file, 0)
        return descriptor

    def read(self, descriptor: int, count: int) -> bytes:
        """Read from a file at its position."""
        file, at = self._file(descriptor)
        data = self.disk.current().files[file][at : at + count]
        self._open[descriptor] = (file, at + len(data))
        return data

    def pwrite(self, descriptor: int, data: bytes, at: int) -> int:
        """Write to a file at an offset."""
        file, _ = self._file(descriptor)
        self.on_call("write")
        self.disk.pending.append(Write(file, at, data))
        return len(data)

    def sync(self, descriptor: int) -> None:
        """Sync a file."""
        file, _ = self._file(descriptor)
        self.on_call("sync")
        self.disk.sync_file(file)

    def sync_folder(self, folder: Path) -> None:
        """Sync a folder."""
        self.on_call("sync_folder")
        if str(folder) == FOLDER:
            self.disk.sync_names()
        else:
            assert str(folder) == _PARENT
            self.disk.sync_parent()

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file."""
        self.on_call("replace")
        file = self.disk.current().names[old.name]
        self.disk.pending.append(EntryChange(((old.name, None), (new.name, file))))

    def close(self, descriptor: int) -> None:
        """Close a descriptor, unless its process was killed; this syncs nothing."""
        self._open.pop(descriptor, None)

    def to_lock(self, folder: Path) -> tuple[Path, int, int]:
        """Return the arguments of `open` for a folder."""
        return folder, os.O_RDONLY, 0

    def lock(self, descriptor: int) -> None:
        """Do nothing: no other process runs."""

    def _file(self, descriptor: int) -> tuple[int, int]:
        opened = self._open[descriptor]
        assert isinstance(opened, tuple)
        return opened


class _Descriptors(Descriptors):
    """Descriptors of the simulated system."""

    def __init__(self, system: System) -> None:
        super().__init__()
        self._system = system

    def close(self) -> None:
        while self:
            self._system.close(self.pop())
