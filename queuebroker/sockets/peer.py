"""`Peer`: who is at the other end, as far as anybody but itself vouches for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker import _net

if TYPE_CHECKING:
    from queuebroker._net import Socket

__all__ = ["Peer", "peer_of"]


@attrs.frozen(slots=True)
class Peer:
    """Who is there.

    name: the name of its broker; it says so itself.
    pid, uid, gid: of the process, as the kernel reports (``ipc``), else None. The pid
      is also None if the process is in a pid namespace that hides it.
    certificate: the common name of its certificate (``tls``), None if it showed none.
    """

    name: str
    pid: int | None = None
    uid: int | None = None
    gid: int | None = None
    certificate: str | None = None


def peer_of(socket: Socket, name: str) -> Peer:
    """Ask the kernel, or the certificate, who is there."""
    if isinstance(socket, _net.TlsSocket):
        return Peer(name, certificate=_net.common_name(socket))
    credentials = _net.credentials_of(socket)
    if credentials is None:
        return Peer(name)
    return Peer(name, credentials.pid or None, credentials.uid, credentials.gid)
