"""`ProcessLoss`: the end of other processes, as seen from this one.

A process is lost if no link with it is made in time. If it lives and neither side needs
a link, this process drops it, too. In both cases this process drops all state kept for
it: a later process of its name is another peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel import constants

if TYPE_CHECKING:
    from bus.kernel.hooks import Hooks
    from bus.kernel.links.link_table import LinkTable
    from bus.kernel.messages.inbound_messages import InboundMessages
    from bus.kernel.messages.outbound_messages import UndeliveredMessages
    from bus.kernel.name_registry import NameRegistry
    from bus.kernel.peer.peer import Peer
    from bus.kernel.searches.resolver import Resolver
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Identity

__all__ = ["ProcessLoss"]


class ProcessLoss:
    """The loss of processes, and the search for their successors.

    It provides ``topology.lose`` and ``topology.drop_peer``, since it reaches the whole
    state that is kept for a process.
    """

    __slots__ = (
        "_hooks",
        "_inbound_messages",
        "_links",
        "_loss_alarm",
        "_name_registry",
        "_resolver",
        "_topology",
        "_undelivered_messages",
    )

    def __init__(
        self,
        topology: Topology,
        hooks: Hooks,
        name_registry: NameRegistry,
        undelivered_messages: UndeliveredMessages,
        inbound_messages: InboundMessages,
        resolver: Resolver,
        links: LinkTable,
    ) -> None:
        self._topology: Final = topology
        self._hooks: Final = hooks
        self._name_registry: Final = name_registry
        self._undelivered_messages: Final = undelivered_messages
        self._inbound_messages: Final = inbound_messages
        self._resolver: Final = resolver
        self._links: Final = links
        # When the first process without a link counts as lost.
        self._loss_alarm: Final = topology.timers.alarm(self._on_due)
        topology.lose = self.lose
        topology.drop_peer = self.drop_peer
        topology.await_link = self.await_link

    def await_link(self, peer: Peer) -> None:
        """Note that a process has no link; in time it counts as lost."""
        self._loss_alarm.by(self._lost_at(peer))

    def _lost_at(self, peer: Peer) -> float:
        """Return when a process without a link counts as lost, in seconds."""
        connect_s = self._topology.config.connect_timeout_s
        return peer.since + (constants.RELINK_TIMEOUT_S if peer.bound else connect_s)

    def lose(self, peer: Peer, now: float) -> None:
        """Declare a process lost: a later process of its name is another peer."""
        # If there was no link so far, only the master knows whether the process lives.
        if peer.bound:
            for on_process_lost in self._hooks.on_process_lost:
                on_process_lost(peer, now)
        self.drop_peer(peer, now)

    def drop_peer(self, peer: Peer, now: float) -> None:
        """Drop a process that is lost, or whose link is idle.

        If its link is idle, the tasks that the master has announced stay known.
        """
        link = self._links.by_number.get(peer.session.link or 0)
        if link is not None:
            self._links.hang_up(link)
        master = peer.joined
        self._forget(peer, now)
        self._topology.remove_peer(peer)
        self._topology.on_use_ended(peer.key)
        # Not before: no search is sent to the lost process again.
        self._resolver.anywhere.review(now)
        if master and not self._topology.is_master:
            self._links.dialler.redial_lost(now)

    def on_new_epoch(self, peer: Peer, identity: Identity, now: float) -> None:
        """Drop all state of a peer, as the peer has, and keep the peer itself.

        The peer had declared this process lost.
        """
        for on_new_epoch in self._hooks.on_new_epoch:
            on_new_epoch(peer, now)
        self._forget(peer, now)
        peer.session.reset()
        self._links.on_process_up(peer, identity)

    def on_master(self, peer: Peer, now: float) -> None:
        """Drop the previous master of a machine once another process is its master."""
        here = self._topology.is_master
        slave = here and peer.machine == self._topology.me.machine
        for other in self._topology.joined():
            if other.machine == peer.machine and not slave:
                self.lose(other, now)

    def _forget(self, peer: Peer, now: float) -> None:
        if peer.joined:
            self._name_registry.on_process_lost(peer)
        self._resolver.on_process_lost(peer)
        for on_peer_lost in self._hooks.on_peer_lost:  # before its relays are dropped
            on_peer_lost(peer, now)
        self._inbound_messages.on_process_lost(peer, now)
        self._undelivered_messages.lose(peer)
        self._links.on_process_down(peer)

    # Time.

    def _on_due(self, now: float) -> float | None:
        """Declare the processes lost that had no link for too long."""
        for peer in self._unlinked():
            if self._lost_at(peer) <= now:
                self.lose(peer, now)
        return min(map(self._lost_at, self._unlinked()), default=None)

    def _unlinked(self) -> list[Peer]:
        peers = self._topology.peers.values()
        return [each for each in peers if each.session.link is None]
