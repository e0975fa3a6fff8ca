"""`Peer`: the identity of the other end, from the kernel or from its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from queuebroker import _net

if TYPE_CHECKING:
    from queuebroker._net import Socket

__all__ = ["Peer", "peer_of"]


@attrs.frozen(slots=True)
class Peer:
    """The identity of a peer.

    name: the name of its broker, as the peer itself claims.
    pid, uid, gid: of the process, as the kernel reports (``ipc``), else None. The pid
      is also None if the process is in a pid namespace that hides it.
    certificate: the common name of its certificate (``tls``), None if it showed none.
    uris: the URIs in that certificate.
    host: its IP address (``tcp``, ``tls``), None if it is connected by ``ipc``.
    """

    name: str
    pid: int | None = None
    uid: int | None = None
    gid: int | None = None
    certificate: str | None = None
    uris: tuple[str, ...] = ()
    host: str | None = None


def peer_of(socket: Socket, name: str) -> Peer:
    """Return the peer's identity from the kernel, or from its certificate."""
    if isinstance(socket, _net.TlsSocket):
        shown = socket.shown
        return Peer(
            name,
            certificate=_net.common_name(shown),
            uris=_net.uris(shown),
            host=_host_of(socket),
        )
    credentials = _net.credentials_of(socket)
    if credentials is None:
        return Peer(name, host=_host_of(socket))
    return Peer(name, credentials.pid or None, credentials.uid, credentials.gid)


def _host_of(socket: Socket) -> str | None:
    """Return the IP address of the peer; None if it has none, or is disconnected."""
    try:
        found = socket.getpeername()
    except OSError:
        return None
    # A listener at all addresses sees IPv4 peers by their mapped addresses.
    return str(found[0]).removeprefix("::ffff:") if isinstance(found, tuple) else None
