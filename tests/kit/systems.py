"""Marks for tests of a part that only some systems have."""

from __future__ import annotations

import os

import pytest

from queuebroker import _files

__all__ = ["needs_eventfd", "needs_shared_memory"]

# Python warns of a socket that is collected, as after an interrupt of its making; no
# descriptor is lost.
needs_eventfd = pytest.mark.skipif(
    not hasattr(os, "eventfd"),
    reason="needs eventfd: the sockets in its place are closed with a warning",
)

needs_shared_memory = pytest.mark.skipif(
    not _files.HAS_SEALED_MEMORY, reason="needs shared memory, which only Linux has"
)
