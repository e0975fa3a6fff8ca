"""`RegistrationId` and the other terms of a registration of a task."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Key", "Overflow", "RegistrationId", "Visibility"]

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
