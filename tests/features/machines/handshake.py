"""A TLS handshake in memory, between two machines."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from bus.features.machines.machine_keys import MachineKeys

__all__ = ["shown"]


def shown(server: MachineKeys, client: MachineKeys) -> tuple[list[str], list[str]]:
    """Shake hands; return the URIs that the client sees, and those the server sees.

    Raises:
        ssl.SSLError: one side rejects the other.
    """
    ours, theirs = server.tls.context(server=True), client.tls.context(server=False)
    theirs.check_hostname = False
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        theirs.wrap_bio(down, up, server_side=False),
        ours.wrap_bio(up, down, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(10):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    assert not waiting
    near, far = (_uris(end) for end in ends)
    return near, far


def _uris(end: ssl.SSLObject) -> list[str]:
    facts = cast("dict[str, Any]", end.getpeercert())
    return [value for kind, value in facts["subjectAltName"] if kind == "URI"]
