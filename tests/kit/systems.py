"""Marks for tests of a part that only some systems have."""

from __future__ import annotations

import os

import pytest

from queuebroker import _files, _net
from queuebroker._platform import SYSTEM

__all__ = [
    "deletes_open_files",
    "ends_by_signals",
    "needs_abstract_names",
    "needs_fork",
    "needs_shared_memory",
    "needs_unix_sockets",
]

deletes_open_files = pytest.mark.skipif(
    SYSTEM == "windows", reason="Windows deletes no file that is open"
)
ends_by_signals = pytest.mark.skipif(
    SYSTEM == "windows", reason="Windows has no signal that ends a program"
)
needs_abstract_names = pytest.mark.skipif(
    SYSTEM != "linux", reason="needs abstract names of sockets, which only Linux has"
)
needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs fork, which Windows lacks"
)
needs_shared_memory = pytest.mark.skipif(
    not _files.HAS_SEALED_MEMORY, reason="needs shared memory, which only Linux has"
)
needs_unix_sockets = pytest.mark.skipif(
    not _net.HAS_UNIX, reason="needs UNIX sockets, which Windows lacks"
)
