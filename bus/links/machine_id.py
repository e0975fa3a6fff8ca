"""`machine_id`: an id that distinguishes machines of the same name (BUS-DISC-8)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["machine_id"]


def machine_id() -> str:
    """Return the id of this host; the same until the next boot, at least."""
    for place in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with suppress(OSError):
            text = Path(place).read_text(encoding="ascii").strip()
            if text:
                return text
    return os.uname().nodename
