"""The identity of a process, as it states it to its peers and in announcements."""

from __future__ import annotations

from typing import Any

from bus.kernel.wire import Identity, Role

__all__ = ["identity"]


def identity(machine: str = "here", **fields: Any) -> Identity:
    """Return the identity of a master on a machine, except for the given fields."""
    usual: dict[str, Any] = {
        "bus": "bus1",
        "machine_id": machine,
        "process": "p1",
        "process_id": 1,
        "incarnation": 1,
        "role": Role.MASTER,
    }
    return Identity(machine=machine, **(usual | fields))
