"""`Role`: the part that a process asks for on its machine."""

from __future__ import annotations

import enum

__all__ = ["Role"]


class Role(enum.Enum):
    """The part of a process in routing for its machine (BUS-INIT-1).

    A machine has one master, and slaves.

    AUTO: become master if the machine has none, now or after the present one has left
      (OPEN-1); else slave.
    MASTER: become master; if the machine has one, `open_bus` fails.
    SLAVE: never become master; wait until the machine has one.
    """

    AUTO = "auto"
    MASTER = "master"
    SLAVE = "slave"
