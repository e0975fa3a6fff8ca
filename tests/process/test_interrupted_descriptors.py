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
from queuebroker._platform import SYSTEM
from queuebroker.sockets import Driver
from specs.clauses import clause
from tests.kit.systems import needs_shared_memory
from tests.strikes import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.strikes import Blow


def store(place: Path) -> None:
    """Open a storage with a file, and close it."""
    storage = DiskStorage(place / "horizons")
    try:
        storage.read()
        storage.create()
        storage.close()
    finally:
        storage.close()


def hold(place: Path) -> None:
    """Become master in a run directory, and stop being it."""
    directory = RunDirectory("bus1", AccessList(), str(place))
    try:
        directory.claim()
        directory.release()
    finally:
        directory.release()


def look(_: Path) -> None:
    """Open memory of this process, and close both."""
    memory = SharedMemory(4096)
    try:
        os.close(open_memory(os.getpid(), memory.fileno(), memory.name))
    finally:
        memory.close()


def sleep(*_: object) -> None:
    """Make a sleeper, and close it."""
    _net.Sleeper().close()


def drive(*_: object) -> None:
    """Make a driver, and close it."""
    Driver().close()


@pytest.mark.skipif(SYSTEM == "windows", reason="no list of open descriptors here")
@clause("QB-ERR-9")
@pytest.mark.parametrize(
    "act",
    [store, hold, pytest.param(look, marks=needs_shared_memory), sleep, drive],
)
def test_an_interrupt_leaks_no_descriptor(
    act: Callable[[Path], None], tmp_path: Path
) -> None:
    """Wherever it comes, from the opening to the close."""
    act(tmp_path)

    def case(interrupted: Blow) -> None:
        before = os.listdir("/proc/self/fd")
        interrupted(lambda: act(tmp_path))
        gc.collect()
        assert os.listdir("/proc/self/fd") == before

    everywhere(case, packages=(package, queuebroker))
