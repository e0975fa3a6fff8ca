"""`Role`: what a process wants to be on its machine."""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.Enum):
    """Who routes for a machine (BUS-INIT-1): one master, and slaves.

    AUTO: master if nobody is, also later, when the one that was has gone (OPEN-1).
    MASTER: it, or nothing. SLAVE: never; whoever comes to be master is waited for.
    """

    AUTO = "auto"
    MASTER = "master"
    SLAVE = "slave"
