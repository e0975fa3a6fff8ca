"""`keep_memory`: what a long message leaves behind is kept for the next one.

glibc gives what is free at the end of its heap back to the system as soon as that is
more than a few of those messages, and then every message is read into pages that the
kernel has to find and to clear first: that was a third of all that a receiver of 1 MiB
messages did. From what is freed it learns how long things are that come and go, and
keeps more of it (mallopt(3), `M_MMAP_THRESHOLD`). So it is shown something long, once.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["KEPT_BYTES", "keep_memory"]

# Twice as much is kept at most; of what is longer nothing.
KEPT_BYTES: Final = 1 << 24


@cache
def keep_memory() -> None:
    """Let the allocator keep what is freed, up to 32 MiB; once in a process is enough.

    It takes no memory: what nobody writes to is not there. Where there is another
    allocator, or its user has told it what to do, nothing changes.
    """
    bytes(KEPT_BYTES)
