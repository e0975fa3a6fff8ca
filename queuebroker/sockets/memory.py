"""`keep_memory`: keep the memory of a long message for the next one.

glibc returns the free memory at the end of its heap to the system as soon as it exceeds
a few long messages. Then every message is read into pages that the kernel must first
find and clear: that took a third of the time of a receiver of 1 MiB messages. From the
sizes of freed blocks glibc learns to keep more (mallopt(3), `M_MMAP_THRESHOLD`). So
this module frees one long block, once.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["KEPT_BYTES", "keep_memory"]

# glibc keeps at most twice as much, and nothing of longer blocks.
KEPT_BYTES: Final = 1 << 24


@cache
def keep_memory() -> None:
    """Make the allocator keep freed memory, up to 32 MiB; once per process suffices.

    It takes no memory: pages without a write are not allocated. With another allocator,
    or if the user has configured it, nothing changes.
    """
    bytes(KEPT_BYTES)
