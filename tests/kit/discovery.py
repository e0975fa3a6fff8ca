"""The discovery of machines: its settings and its announcements."""

from __future__ import annotations

from typing import Any, Final

from bus.features.machines.announcement import Announcement
from bus.features.machines.discovery import DiscoverySettings
from bus.kernel.wire import VERSIONS

__all__ = ["GROUP_KEY", "announcement", "discovery_settings"]

GROUP_KEY: Final = bytes(range(32))


def discovery_settings(host: str, **fields: Any) -> DiscoverySettings:
    """Return the settings of a master with keys, except for the given fields.

    host: the address at which other masters dial this one.
    """
    usual: dict[str, Any] = {
        "port": 7400,
        "scheme": "tls",
        "keys": (GROUP_KEY,),
        "interval_s": 1.0,
        "jitter": 0.2,
        "lease_s": 10.0,
    }
    return DiscoverySettings(host=host, **(usual | fields))


def announcement(machine: str, **fields: Any) -> Announcement:
    """Return the first announcement of a machine, except for the given fields.

    Without a port, it names one where nothing listens.
    """
    usual: dict[str, Any] = {
        "bus": "bus1",
        "machine": machine,
        "machine_id": f"id-{machine}",
        "instance": 1,
        "counter": 1,
        "versions": VERSIONS,
        "host": "127.0.0.1",
        "port": 9,
    }
    return Announcement(**(usual | fields))
