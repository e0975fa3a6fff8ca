"""Marks for tests of a part that only some systems have."""

from __future__ import annotations

import importlib.util
import os
import select
from typing import Final

import pytest

from queuebroker import _files, _net
from queuebroker._platform import SYSTEM

__all__ = [
    "deletes_open_files",
    "ends_by_signals",
    "needs_abstract_names",
    "needs_epoll",
    "needs_fork",
    "needs_resource_limits",
    "needs_root",
    "needs_shared_memory",
    "needs_terminal",
    "needs_unix_sockets",
    "needs_users",
    "require_unix_sockets",
]

deletes_open_files = pytest.mark.skipif(
    SYSTEM == "windows", reason="Windows deletes no file that is open"
)
ends_by_signals = pytest.mark.skipif(
    SYSTEM == "windows", reason="Windows has no signal that ends a program"
)
_UNIX: Final = "needs UNIX sockets, which Windows lacks"

needs_abstract_names = pytest.mark.skipif(
    SYSTEM != "linux", reason="needs abstract names of sockets, which only Linux has"
)
needs_epoll = pytest.mark.skipif(
    not hasattr(select, "epoll"), reason="needs epoll, which only Linux has"
)
needs_resource_limits = pytest.mark.skipif(
    _files.resource is None, reason="needs limits of resources, which Windows lacks"
)
needs_fork = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs fork, which Windows lacks"
)
needs_root = pytest.mark.skipif(
    not _files.HAS_USERS or _files.user_id() != 0,
    reason="only root can become another user",
)
needs_shared_memory = pytest.mark.skipif(
    not _files.HAS_SEALED_MEMORY, reason="needs shared memory, which only Linux has"
)
needs_terminal = pytest.mark.skipif(
    importlib.util.find_spec("termios") is None,
    reason="needs a pseudo terminal, which Windows lacks",
)
needs_unix_sockets = pytest.mark.skipif(not _net.HAS_UNIX, reason=_UNIX)
needs_users = pytest.mark.skipif(
    not _files.HAS_USERS, reason="needs users and modes of files, which Windows lacks"
)


def require_unix_sockets() -> None:
    """Skip the calling test where there are none; for helpers that need them."""
    if not _net.HAS_UNIX:
        pytest.skip(_UNIX)
