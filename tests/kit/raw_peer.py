"""A plain socket that is connected to a listening process."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.kit.systems import require_unix_sockets
from tests.support import LIMIT_S

__all__ = ["raw"]


def raw(address: str | Path | None) -> socket.socket:
    """Connect to the path or the address of a socket; send and receive nothing."""
    assert address is not None
    local = isinstance(address, Path) or address.startswith("ipc://")
    if local:
        require_unix_sockets()
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(address).removeprefix("ipc://"))  # waits for room to connect
    else:
        host, _, port = str(address).rpartition("://")[2].rpartition(":")
        made = socket.create_connection((host, int(port)), LIMIT_S)
    made.settimeout(LIMIT_S)
    return made
