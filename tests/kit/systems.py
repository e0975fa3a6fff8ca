"""Marks for tests of a part that only some systems have."""

from __future__ import annotations

import pytest

from queuebroker import _files
from queuebroker._platform import SYSTEM

__all__ = ["needs_abstract_names", "needs_shared_memory"]

needs_abstract_names = pytest.mark.skipif(
    SYSTEM != "linux", reason="needs abstract names of sockets, which only Linux has"
)
needs_shared_memory = pytest.mark.skipif(
    not _files.HAS_SEALED_MEMORY, reason="needs shared memory, which only Linux has"
)
