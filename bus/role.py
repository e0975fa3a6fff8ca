"""`Role`: the part that a process asks for on its machine."""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.Enum):
    """The part of a process in routing for its machine (BUS-INIT-1).

    A machine has one master, and slaves.

    AUTO: master if there is none, also later, after the previous one has left (OPEN-1).
    MASTER: master, or the open fails.
    SLAVE: never master; waits for a master.
    """

    AUTO = "auto"
    MASTER = "master"
    SLAVE = "slave"
