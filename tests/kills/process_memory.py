"""`ProcessMemory`: the shared memory that a process has mapped and open."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs

__all__ = ["ProcessMemory", "total_kib"]

_NAME = re.compile(r"/memfd:(bus-[0-9a-f]+) ")


@attrs.frozen
class ProcessMemory:
    """What the kernel lists of one process, by the names of `SharedMemory`.

    mapped: the number of mappings of each. opened: the number of descriptors of each.
    """

    mapped: Counter[str]
    opened: Counter[str]

    @classmethod
    def of(cls, pid: int) -> ProcessMemory:
        """Return the present state of a living process."""
        process = Path("/proc") / str(pid)
        maps = (process / "maps").read_text(encoding="utf-8", errors="replace")
        opened: Counter[str] = Counter()
        for number in os.listdir(process / "fd"):
            with suppress(OSError):  # closed by now
                opened.update(_NAME.findall(os.readlink(process / "fd" / number)))
        return cls(Counter(_NAME.findall(maps)), opened)

    @property
    def names(self) -> set[str]:
        """The names of all."""
        return {*self.mapped, *self.opened}


def total_kib() -> int:
    """Return the shared memory of all processes of the system, in KiB."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    [found] = re.findall(r"^Shmem: +(\d+) kB$", text, re.MULTILINE)
    return int(found)
