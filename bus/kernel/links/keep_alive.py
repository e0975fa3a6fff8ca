"""`KeepAlive`: PINGs on silent links (OPEN-2).

A process that has received nothing for a while sends a PING, and the peer answers; both
have then received a frame. If a process of this machine does not answer, it is reported
and kept: the operating system would report its end, and a process that a debugger has
stopped is alive. A process of another machine may vanish without notice, so its link is
dropped.

A process that did not run for a while, or whose machine slept, could not receive. Such
a pause shows as a late alarm, and no peer is silent during it. Otherwise two machines
that pause one after the other would lose their link.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel.wire import Ping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.kernel.links.link_table import LinkTable
    from bus.kernel.peer.peer import Peer
    from bus.kernel.topology import Topology

__all__ = ["KeepAlive"]

_PAUSE_S: Final = 0.1  # a shorter delay of the alarm is no pause


class KeepAlive:
    """The silence on the links of one process, and the reaction to it.

    A frame does not set the alarm back: it rings once for each span of silence that a
    link is allowed, and is then set by the times of the last frames.
    """

    __slots__ = ("_alarm", "_links", "_topology")

    def __init__(self, topology: Topology, links: LinkTable) -> None:
        self._topology: Final = topology
        self._links: Final = links
        self._alarm: Final = topology.timers.alarm(self._on_due)

    def on_frame(self, peer: Peer, now: float) -> None:
        """Note that a frame, of any kind, arrived from a process."""
        # The first frame of a link, and one that ends its closing, set the alarm.
        self._alarm.by(now + self._topology.config.keep_alive_s)
        peer.received_at = now
        if peer.unresponsive:
            peer.unresponsive = False
            self._topology.complain(f"process {peer.name} responds again")

    def on_link_open(self, peer: Peer, now: float) -> None:
        """Measure the round trip to the master of another machine (BUS-DISC-13)."""
        if peer.joined and peer.machine != self._topology.me.machine:
            self._ping(peer, now)

    def on_pong(self, peer: Peer, number: int, now: float) -> None:
        """Note the round trip if this answers the last PING of a silent link."""
        if number == peer.ping:
            peer.ping, peer.round_trip_s = 0, now - peer.pinged_at

    def _ping(self, peer: Peer, now: float) -> None:
        peer.ping = self._topology.new_ping()
        peer.pinged_at = now
        peer.session.send_link_frame(Ping(number=peer.ping))

    def _on_due(self, now: float) -> float | None:
        """Send a PING on each silent link; handle peers that were silent too long."""
        config = self._topology.config
        if now - self._alarm.at > _PAUSE_S:
            self._on_pause(now - self._alarm.at, now)
        for peer in list(self._linked()):
            if now >= peer.received_at + config.lease_s and not peer.unresponsive:
                self._too_long(peer, now)
            elif now >= _active_at(peer) + config.keep_alive_s:
                self._ping(peer, now)
        return min(map(self._due_at, self._linked()), default=None)

    def _due_at(self, peer: Peer) -> float:
        """Return when the silence of a peer has a consequence, in seconds."""
        config = self._topology.config
        ping_at = _active_at(peer) + config.keep_alive_s
        if peer.unresponsive:
            return ping_at
        return min(ping_at, peer.received_at + config.lease_s)

    def _on_pause(self, pause_s: float, now: float) -> None:
        """Count the silence of all peers as shorter by a pause of this process."""
        for peer in self._linked():
            peer.received_at = min(now, peer.received_at + pause_s)

    def _too_long(self, peer: Peer, now: float) -> None:
        silent_s = now - peer.received_at
        self._topology.complain(
            f"process {peer.name} has not responded for {silent_s:.0f} s"
        )
        if peer.machine == self._topology.me.machine:
            peer.unresponsive = True
            return
        link = self._links.by_number.get(peer.session.link or 0)
        if link is not None:
            self._links.drop(link, now)

    def _linked(self) -> Iterator[Peer]:
        """Iterate over the peers with an open link that is not about to close."""
        for peer in self._topology.peers.values():
            if peer.session.ready and not peer.closing:
                yield peer


def _active_at(peer: Peer) -> float:
    """Return when a peer last sent a frame, or was last sent a PING."""
    return max(peer.received_at, peer.pinged_at)
