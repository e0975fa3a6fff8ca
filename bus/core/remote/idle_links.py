"""`IdleLinks`: links for messages that neither side needs any more (BUS-DEREG-5).

The side that no longer needs a link asks the peer to close it, and sends no more frames
on it. The peer closes the link, or refuses if it needs the link. After a refusal the
frames that were held back are sent.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.core import constants
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
    from bus.registration import Key

__all__ = ["IdleLinks"]


class IdleLinks:
    """The links that may be idle, by their processes, and since when.

    It provides ``topology.on_use_ended``.

    Invariants:
    I1. an idle link is in ``_new`` or ``_since``: each event that ends a use adds it,
        and it stays while messages are under way on it, since no event tells their end.
    I2. ``_since`` is in the order of its times, so due links are in front.
    I3. a lost process leaves ``_since`` by the next tick.
    """

    __slots__ = (
        "_alarm",
        "_hooks",
        "_links",
        "_new",
        "_outbound_messages",
        "_relays",
        "_since",
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
        self._alarm: Final = topology.timers.alarm(self._on_due)
        self._new: dict[Key, None] = {}
        self._since: Final[dict[Key, float]] = {}
        topology.on_use_ended = self.on_use_ended

    def on_use_ended(self, key: Key) -> None:
        """Note that one use of the link with a process has ended; it may have others.

        The same if the process is lost.
        """
        self._alarm.by(0.0)  # the next tick notes the time
        self._new[key] = None

    def _on_due(self, now: float) -> float | None:
        """Ask to close the links that were idle for long enough.

        Return when to check the next one, in seconds; None for never.
        """
        new, self._new = self._new, {}
        for key in new:
            self._wait(key, now)
        linger_s = constants.LINK_LINGER_S
        waiting = self._since.items()
        due = itertools.takewhile(lambda each: each[1] + linger_s <= now, waiting)
        for key, _ in list(due):
            del self._since[key]
            peer = self._topology.peers.get(key)
            if peer is not None and self._is_unused(peer):
                if peer.busy:
                    self._wait(key, now)
                else:
                    self._ask(peer)
        first = next(iter(self._since.values()), None)
        return None if first is None else first + linger_s

    def _wait(self, key: Key, now: float) -> None:
        self._since.pop(key, None)  # so that it is last
        if key in self._topology.peers:
            self._since[key] = now

    @staticmethod
    def _ask(peer: Peer) -> None:
        """Ask whether the peer needs the link; send nothing more until it answers."""
        peer.closing = True
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
        self.on_use_ended(peer.key)

    def _is_unused(self, peer: Peer) -> bool:
        """Return True if no task here uses a link; messages may be under way on it."""
        if peer.joined or peer.closing or not peer.session.ready:
            return False
        if any(map(self._relays.is_used, peer.relays.values())):
            return False
        return not self._wants(peer)

    def _wants(self, peer: Peer) -> bool:
        """Return True if a process subscribes to any task of this one."""
        return any(each.wants(peer) for each in self._hooks)
