"""`machine_id`: an id that distinguishes machines of the same name (BUS-DISC-8)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["machine_id"]

# The first of these that can be read. The second changes with each boot.
_FILES: Final = ("/etc/machine-id", "/proc/sys/kernel/random/boot_id")
# Only the bus derives its ids with this text: other programs that derive an id from the
# same file obtain another one.
_PURPOSE: Final = b"bus: id of a machine"


def machine_id() -> str:
    """Return the id of this host; the same until the next boot, at least.

    Announcements carry the id unencrypted, and machine-id(5) asks programs not to show
    the content of its file. So the id is a keyed hash of it, 32 hexadecimal digits;
    the content cannot be computed from it.
    """
    import hmac  # noqa: PLC0415 - loads OpenSSL, for a bus over sockets only

    return hmac.digest(_secret(), _PURPOSE, "sha256")[:16].hex()


def _secret() -> bytes:
    for path in _FILES:
        with suppress(OSError):
            if content := Path(path).read_bytes().strip():
                return content
    return os.uname().nodename.encode()
