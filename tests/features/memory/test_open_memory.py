"""The memory of another process, opened by the number of its descriptor."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from bus.features.memory.mappings import MemoryMapping, open_memory
from bus.features.memory.shared_memory import SharedMemory
from queuebroker._files import fcntl
from specs.clauses import clause
from tests.kit.systems import needs_shared_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = needs_shared_memory

SIZE = 2**16


@pytest.fixture
def owner() -> Iterator[SharedMemory]:
    made = SharedMemory(SIZE)
    yield made
    made.close()


@clause("MC-38", "MC-34")
def test_it_is_the_same_memory_for_reading_only(owner: SharedMemory) -> None:
    opened = open_memory(os.getpid(), owner.fileno(), owner.name)

    mapping = MemoryMapping(opened)
    owner.memory[:5] = b"hello"
    assert bytes(mapping.memory[:5]) == b"hello"
    assert fcntl.fcntl(opened, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    assert not os.get_inheritable(opened)
    os.close(opened)
    mapping.close()


def test_no_two_memories_have_one_name(owner: SharedMemory) -> None:
    other = SharedMemory(SIZE)
    assert other.name != owner.name
    other.close()


@clause("MC-38")
def test_other_memory_under_the_number_is_refused(owner: SharedMemory) -> None:
    """The descriptor was closed, and its number is in use again."""
    other = SharedMemory(SIZE)
    with pytest.raises(ValueError, match=f"shared memory '{owner.name}', got"):
        open_memory(os.getpid(), other.fileno(), owner.name)
    other.close()


@clause("MC-38")
def test_a_file_of_that_name_is_no_memory(owner: SharedMemory, tmp_path: Path) -> None:
    file = tmp_path / f"memfd:{owner.name} (deleted)"
    with file.open("w") as stream:
        with pytest.raises(ValueError, match="must be of shared memory"):
            open_memory(os.getpid(), stream.fileno(), owner.name)
        file.unlink()
        with pytest.raises(ValueError, match="must be of shared memory"):
            open_memory(os.getpid(), stream.fileno(), owner.name)


@clause("MC-38")
def test_a_pipe_under_the_number_is_not_even_opened(
    owner: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open a pipe for reading, or some devices, has an effect."""
    opened: list[object] = []
    monkeypatch.setattr(os, "open", lambda *which: opened.append(which))
    reader, writer = os.pipe()

    with pytest.raises(ValueError, match="must be of shared memory"):
        open_memory(os.getpid(), writer, owner.name)

    assert opened == []
    os.close(reader)
    os.close(writer)


@clause("MC-38")
def test_a_number_that_was_used_again_meanwhile_is_refused(
    owner: SharedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SharedMemory(SIZE)
    number = os.dup(owner.fileno())
    before = len(os.listdir("/proc/self/fd"))
    real_open = os.open

    def late(path: str, flags: int) -> int:
        os.dup2(other.fileno(), number)
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(ValueError, match="must be of shared memory"):
        open_memory(os.getpid(), number, owner.name)

    assert len(os.listdir("/proc/self/fd")) == before
    os.close(number)
    other.close()


def test_a_process_or_a_descriptor_that_is_gone_is_an_os_error(
    owner: SharedMemory,
) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(FileNotFoundError):
        open_memory(child.pid, owner.fileno(), owner.name)
    with pytest.raises(FileNotFoundError):
        open_memory(os.getpid(), 10**6, owner.name)
