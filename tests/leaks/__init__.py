"""Leaks: of a single test (`Snapshot`), and of thousands of cycles of a bus.

``python -m tests.leaks --cycles 10000`` lets processes join a bus and leave it, and
tasks register and deregister. `cycles` defines the cycles, and `growth` reports whether
anything grows with their number.
"""

from tests.leaks.snapshot import Snapshot

__all__ = ["Snapshot"]
