"""A test must leave nothing behind: `Snapshot` covers threads, descriptors, shm.

Files in ``/dev/shm`` belong to the whole machine. A file counts as ours only if it is
new, has a name that the bus or Python gives, has our user, and no other process holds
it open or mapped.
"""

from __future__ import annotations

import gc
import os
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic

import attrs

from queuebroker._platform import SYSTEM

__all__ = ["Snapshot"]

_SETTLE_S = 5.0
_LOOK_S = 0.002

_SHM = Path("/dev/shm")
# The memory of the bus has such a name, and never a file. The others are those of
# `multiprocessing`. Files of other libraries on this machine are not ours.
_NAMES = ("bus-", "psm_", "sem.")
_FDS = "/proc/self/fd"
_PROCESSES = Path("/proc")


@attrs.frozen
class Snapshot:
    """The threads, descriptors and shared memory files that exist at one moment.

    folder: the folder of the shared memory files.
    """

    threads: frozenset[threading.Thread]
    descriptors: frozenset[str]
    shared: frozenset[str]
    folder: Path = _SHM

    @classmethod
    def take(cls, folder: Path = _SHM) -> Snapshot:
        """Record the present resources."""
        return cls(_threads(), _descriptors(), _shared_in(folder), folder)

    def leaks(self, settle_s: float = _SETTLE_S) -> list[str]:
        """Return the lasting additions since the snapshot: one sentence each.

        Ending threads get ``settle_s`` seconds to finish, and garbage is collected
        before it counts.
        """
        if not self._more():
            return []
        gc.collect()
        deadline = monotonic() + settle_s
        pause = threading.Event()
        while (more := self._more()) and monotonic() < deadline:
            pause.wait(_LOOK_S)
        if more:
            gc.collect()  # a thread that has ended since may have held some of it
            more = self._more()
        return more

    def _more(self) -> list[str]:
        now = Snapshot.take(self.folder)
        return [
            *(f"thread {one.name!r} runs" for one in now.threads - self.threads),
            *(
                f"descriptor {one} is open"
                for one in now.descriptors - self.descriptors
            ),
            *(
                f"{path} is left"
                for path in map(self.folder.joinpath, now.shared - self.shared)
                if not _held_elsewhere(path)
            ),
        ]


def _threads() -> frozenset[threading.Thread]:
    """List the living; a foreign thread's dummy never dies, so it is left out."""
    return frozenset(
        thread
        for thread in threading.enumerate()
        if not isinstance(thread, threading._DummyThread)
    )


def _descriptors() -> frozenset[str]:
    """Name each open descriptor by number and target, so that a reuse is noticed."""
    found = []
    # Wine shows the files of the host, where Wine itself opens some.
    for number in _names_in(_FDS) if SYSTEM != "windows" else ():
        # The descriptor that lists the folder is itself listed, and closed by now.
        with suppress(OSError):
            target = os.readlink(f"{_FDS}/{number}")
            # With static trampolines, libffi keeps its own file open from the first
            # `ctypes` callback on, which a test may cause.
            if "/libffi.so" not in target:
                found.append(f"{number} -> {target}")
    return frozenset(found)


def _shared_in(folder: Path) -> frozenset[str]:
    """List the files of a folder whose names could be ours."""
    return frozenset(name for name in _names_in(folder) if name.startswith(_NAMES))


def _names_in(folder: Path | str) -> list[str]:
    """List a folder that only Linux has; on other systems return nothing."""
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []


def _held_elsewhere(path: Path) -> bool:
    """Whether a file is removed, another user's, or held by another process."""
    try:
        if path.stat().st_uid != os.getuid():
            return True
    except OSError:
        return True
    return any(
        _holds(process, path)
        for process in _PROCESSES.iterdir()
        if process.name.isdigit() and int(process.name) != os.getpid()
    )


def _holds(process: Path, path: Path) -> bool:
    with suppress(OSError):
        if str(path) in (process / "maps").read_text(errors="replace"):
            return True
        return any(os.readlink(one) == str(path) for one in (process / "fd").iterdir())
    return False
