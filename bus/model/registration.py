"""`RegistrationId` and the other terms of a registration of a task."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Key", "Overflow", "RegistrationId", "Role", "Visibility"]

# The names of a machine and of a process on it.
Key: TypeAlias = tuple[str, str]

# The policy for messages that exceed a task's capacity (BUS-FLOW-6).
Overflow: TypeAlias = Literal[
    "block", "drop-oldest", "drop-newest", "error", "disconnect"
]


class Visibility(enum.Enum):
    """The scope in which a task is addressed by its name (BUS-INIT-8, BUS-INIT-9)."""

    PUBLIC = "public"
    PRIVATE = "private"


class RegistrationId(Struct, frozen=True):
    """The identity of one registration; never reused, even for the same name.

    Late frames about a task refer to this, not to its name (BUS-DEREG-7).
    """

    machine: str
    process: str
    number: int


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
