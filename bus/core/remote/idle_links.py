"""`IdleLinks`: links for messages that neither side needs any more (BUS-DEREG-5).

The side that no longer needs a link asks the peer to close it, and sends no more frames
on it. The peer closes the link, or refuses if it needs the link. After a refusal the
frames that were held back are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.wire import Bye, Error, Reason
from bus.events import BusReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bus.core.hooks import Hooks
    from bus.core.peer.peer import Peer
    from bus.core.remote.link import Link
    from bus.core.remote.link_table import LinkTable
    from bus.core.remote.outbound_messages import OutboundMessages
    from bus.core.remote.relays import Relays
    from bus.core.remote.topology import Topology
    from bus.core.remote.undelivered_messages import UndeliveredMessages

__all__ = ["IdleLinks"]


class IdleLinks:
    """The idle links, and since when each is idle."""

    __slots__ = (
        "_hooks",
        "_links",
        "_outbound_messages",
        "_relays",
        "_topology",
        "_undelivered_messages",
    )

    def __init__(
        self,
        topology: Topology,
        relays: Relays,
        outbound_messages: OutboundMessages,
        undelivered_messages: UndeliveredMessages,
        links: LinkTable,
        hooks: Sequence[Hooks],
    ) -> None:
        self._topology: Final = topology
        self._relays: Final = relays
        self._outbound_messages: Final = outbound_messages
        self._undelivered_messages: Final = undelivered_messages
        self._links: Final = links
        self._hooks: Final = hooks

    def review(self, now: float) -> None:
        """Record which links this process does not need."""
        for peer in self._topology.peers.values():
            if not self._is_idle(peer):
                peer.idle_since = None
            elif peer.idle_since is None:
                peer.idle_since = now

    def due_at(self, peer: Peer) -> float | None:
        """Return when a link is to be closed; None if it is needed."""
        if peer.idle_since is None:
            return None
        return peer.idle_since + self._topology.limits.linger_s

    def is_due(self, peer: Peer, now: float) -> bool:
        """Return True if a link has been idle for long enough."""
        at = self.due_at(peer)
        return at is not None and at <= now

    def ask(self, peer: Peer) -> None:
        """Ask whether the peer needs the link; send nothing more until it answers."""
        peer.closing, peer.idle_since = True, None
        peer.session.send_link_frame(Bye())
        peer.session.pause()

    def on_bye(self, link: Link, _: Bye, now: float) -> None:
        """Close a link at the peer's request, unless this process needs it."""
        peer = link.peer
        assert peer is not None
        if peer.closing:
            self._links.hang_up(link)
            peer.parted = BusReason.LEFT
            self._topology.drop_peer(peer, now)
            return
        used = any(map(self._relays.is_used, peer.relays.values()))
        if peer.joined or peer.busy or used or self._wants(peer):
            peer.session.send_control(Error(reason=Reason.BUSY))
            return
        self._topology.send(link.id, Bye())
        self._links.hang_up(link)
        peer.parted = BusReason.LEFT
        self._undelivered_messages.close(peer)
        self._topology.drop_peer(peer, now)

    def on_refused(self, peer: Peer) -> None:
        """Continue to use a link that the peer needs."""
        peer.closing = False
        peer.session.resume()
        self._outbound_messages.pump(peer)

    def _is_idle(self, peer: Peer) -> bool:
        if peer.joined or peer.closing or not peer.session.ready:
            return False
        if peer.busy or any(map(self._relays.is_used, peer.relays.values())):
            return False
        return not self._wants(peer)

    def _wants(self, peer: Peer) -> bool:
        """Return True if a process subscribes to any task of this one."""
        return any(each.wants(peer) for each in self._hooks)
