"""An interrupt leaves no descriptor open that nothing will close."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import pytest

import bus as package
import queuebroker
from bus import AccessList
from bus.features.durable.storage import DiskStorage
from bus.features.memory.mappings import open_memory
from bus.features.memory.shared_memory import SharedMemory
from bus.process.run_directory import RunDirectory
from queuebroker import _net
from queuebroker.sockets import Driver
from specs.clauses import clause
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.strikes import Blow


def store(place: Path, _: SharedMemory) -> None:
    """Open a storage with a file, and close it."""
    storage = DiskStorage(place / "horizons")
    try:
        storage.read()
        storage.create()
        storage.close()
    finally:
        storage.close()


def hold(place: Path, _: SharedMemory) -> None:
    """Become master in a run directory, and stop being it."""
    directory = RunDirectory("bus1", AccessList(), str(place))
    try:
        directory.claim()
        directory.release()
    finally:
        directory.release()


def look(_: Path, memory: SharedMemory) -> None:
    """Open the memory of this process, and close it."""
    os.close(open_memory(os.getpid(), memory.fileno(), memory.name))


def sleep(*_: object) -> None:
    """Make a sleeper, and close it."""
    _net.Sleeper().close()


def drive(*_: object) -> None:
    """Make a driver, and close it."""
    Driver().close()


@clause("QB-ERR-9")
@pytest.mark.parametrize("act", [store, hold, look, sleep, drive])
def test_an_interrupt_leaks_no_descriptor(
    act: Callable[[Path, SharedMemory], None], tmp_path: Path
) -> None:
    """Wherever it comes, from the opening to the close."""
    memory = SharedMemory(4096)
    act(tmp_path, memory)

    def case(interrupted: Blow) -> None:
        before = os.listdir("/proc/self/fd")
        interrupted(lambda: act(tmp_path, memory))
        gc.collect()
        assert os.listdir("/proc/self/fd") == before

    everywhere(case, packages=(package, queuebroker))
    memory.close()
