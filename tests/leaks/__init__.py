"""What is left behind: by a test (`Snapshot`), and by thousands of cycles of a bus.

``python -m tests.leaks --cycles 10000`` lets processes join a bus and leave it, and
tasks register and deregister; `cycles` says what one cycle is, and `growth` whether
anything grows with how many there were.
"""

from tests.leaks.snapshot import Snapshot

__all__ = ["Snapshot"]
