"""`PeerTrust`: which peers of other machines a process admits to links.

They are admitted by their certificates, if there are keys. Behind a gateway, its master
vouches for the machine of a process; a process that it serves is admitted by its user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from bus.model.rights import Credentials
from queuebroker.sockets import SocketMessageQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.model.rights import AccessList
    from queuebroker.channel.message_queue import MessageQueue
    from queuebroker.sockets import Peer, Tls

__all__ = ["PeerTrust", "machine_in"]

_SCHEME: Final = "ism://"


class PeerTrust:
    """The trust of one process in its peers; any thread may call the methods.

    Args:
        access: the users that may join.
        tls: the keys of this process, and the authority that it trusts; None for none.

    Attributes:
        tls: as given.
    """

    __slots__ = ("_access", "_vouched_machines", "tls")

    def __init__(self, access: AccessList, tls: Tls | None) -> None:
        self._access: Final = access
        self.tls: Final = tls
        # The machines for which a master vouches, by link, until a link is used.
        # Weak: some links are not used after all.
        self._vouched_machines: Final[WeakKeyDictionary[MessageQueue, str]] = (
            WeakKeyDictionary()
        )

    def refusal(self, peer: Peer) -> str | None:
        """Return the reason to refuse a process of this machine, or None."""
        return self._access.refusal(peer.uid, peer.gid)

    def outside_refusal(self, peer: Peer) -> str | None:
        """Return the reason to refuse a process of another machine, or None."""
        if self.tls is None or _machine_of(peer) is not None:
            return None
        return "its certificate names no machine"

    def vouched_refusal(self, queue: MessageQueue, machine: str) -> str | None:
        """Note the machine that a master vouches for; return the reason to refuse it.

        Returns None if the master is trusted. ``machine`` is "" if it has no keys.
        """
        self._vouched_machines[queue] = machine
        if self.tls is None or machine:
            return None
        return "its master has no certificate: give `keys` to its network"

    def is_trusted(self, queue: SocketMessageQueue) -> bool:
        """Return True for a process of this machine with all rights."""
        peer = queue.peer
        if peer.uid is None:
            return False
        rights = self._access.rights(peer.uid, peer.gid)
        return rights is not None and rights.whole

    def proved(self, queue: SocketMessageQueue) -> str:
        """Return the machine that the certificate of a peer proves, "" without keys."""
        return _machine_of(queue.peer) or ""

    def credentials(self, queue: MessageQueue) -> Credentials | None:
        """Return the identity of a process of another machine; None for one of this.

        It has all rights: its master admits its users.
        """
        assert isinstance(queue, SocketMessageQueue)
        peer = queue.peer
        vouched = self._vouched_machines.pop(queue, None)
        if vouched is not None:
            return Credentials(machine=vouched or None, outside=True, is_direct=False)
        if peer.uid is None:
            machine_there, host = _machine_of(peer), peer.host or ""
            return Credentials(machine=machine_there, outside=True, host=host)
        return None


def _machine_of(peer: Peer) -> str | None:
    return machine_in(peer.uris)


def machine_in(uris: Iterable[str]) -> str | None:
    """Return the machine that the URIs of a certificate name (BUS-SEC-5)."""
    found = [
        uri[len(_SCHEME) : -1]
        for uri in uris
        if uri.startswith(_SCHEME) and uri.endswith("/")
    ]
    return found[0] if len(found) == 1 else None
