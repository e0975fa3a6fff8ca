"""`IdleRelays`: relays of live tasks that no task here uses (BUS-DEREG-13).

A relay is used by each task here that sends to its task, receives from it, or
subscribes to it. When the last of these deregisters or unsubscribes, or if there never
was one, this process asks the task's process for the release. From then on the task's
process assumes that the task is not known here. It sends its confirmation behind all
messages of the task, and introduces the task anew before the task sends more. If the
relay is used again in between, it stays.

`IdleLinks`: links for messages that neither side needs any more (BUS-DEREG-5).

The side that no longer needs a link asks the peer to close it, and sends no more frames
on it. The peer closes the link, or refuses if it needs the link. After a refusal the
frames that were held back are sent.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.kernel import constants
from bus.kernel.peer.relay import Dismissal
from bus.kernel.wire import Bye, Dismiss, Dismissed, Error, Reason
from bus.model.events import BusReason
from bus.model.registration import Visibility
from bus.model.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.kernel.hooks import Hooks
    from bus.kernel.links.link import Link
    from bus.kernel.messages.outbound_messages import OutboundMessages
    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.relay import Relay
    from bus.kernel.relays import Relays
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.model.registration import Key

__all__ = ["IdleLinks", "IdleRelays"]


class IdleRelays:
    """The relays without a user here, and since when.

    It also notes each end of a use of a relay for the `IdleLinks`.

    Invariants:
    I1. at most one question about a relay is under way. Otherwise the answer to the
        first could be taken for the answer to the second, though a search has
        introduced the task in between.
    I2. a provisional relay is not in ``_since``; once it is confirmed, `on_changed`
        adds it.
    I3. ``_since`` is in the order of its times. So due relays are in front, and an
        event costs only the relays that it adds, however many wait.
    I4. a relay that its peer no longer holds leaves ``_since`` by the next tick.
    """

    __slots__ = ("_alarm", "_new", "_relays", "_since", "_topology")

    def __init__(self, topology: Topology, relays: Relays) -> None:
        self._topology: Final = topology
        self._alarm: Final = topology.timers.alarm(self._on_due)
        self._relays: Final = relays
        relays.on_changed = self.on_changed
        self._new: list[Relay] = []
        self._since: Final[dict[Relay, float]] = {}

    # Events that may end the use of a relay.

    def on_changed(self, relay: Relay) -> None:
        """Note that a relay was confirmed, perhaps without a use, or released."""
        self._consider([relay])

    def on_departure(self, task: Entry) -> None:
        """Note that a task of this process departs; relays still list it as a user."""
        for peer in self._topology.peers.values():
            self._consider(each for each in peer.relays.values() if task in each.users)

    def on_unsubscribed(self, machine: str, pattern: str) -> None:
        """Note that no task here subscribes to a pattern any more."""
        specification = Specification(pattern)
        for peer in self._topology.peers.values():
            if peer.machine == machine:
                self._consider(
                    each
                    for each in peer.relays.values()
                    if specification.matches(each.entry.address.module)
                )

    def _consider(self, relays: Iterable[Relay]) -> None:
        """Collect relays that may be unused; `_on_due` skips those that are used."""
        for relay in relays:
            self._topology.on_use_ended(relay.peer.key)
            if not self._is_kept(relay):
                self._alarm.by(0.0)  # the next tick notes the time
                self._new.append(relay)

    # Time.

    def _review(self, now: float) -> None:
        """Note since when relays may be unused."""
        new, self._new = self._new, []
        for relay in new:
            if relay.peer.relays.get(relay.number) is relay:
                self._wait(relay, now)
            else:
                self._since.pop(relay, None)

    def _wait(self, relay: Relay, now: float) -> None:
        self._since.pop(relay, None)  # so that it is last
        self._since[relay] = now

    def _on_due(self, now: float) -> float | None:
        """Ask for the release of relays that were unused for long enough.

        Return when to check the next one, in seconds; None for never.
        """
        self._review(now)
        linger_s = constants.LINK_LINGER_S
        waiting = self._since.items()
        due = itertools.takewhile(lambda each: each[1] + linger_s <= now, waiting)
        for relay, _ in list(due):
            del self._since[relay]
            if self._relays.is_used(relay):
                continue
            if relay.dismissal is not Dismissal.NONE or not self._may_go(relay):
                self._wait(relay, now)
                continue
            relay.dismissal = Dismissal.ASKED
            relay.peer.session.send_control(Dismiss(relay=relay.number))
        first = next(iter(self._since.values()), None)
        return None if first is None else first + linger_s

    # Frames of other processes.

    @staticmethod
    def on_dismiss(peer: Peer, frame: Dismiss, _: float) -> None:
        """Let a process release the relay of a task here, until the task sends more."""
        peer.announced.discard(frame.relay)
        peer.session.send_control(Dismissed(relay=frame.relay))

    def on_dismissed(self, peer: Peer, frame: Dismissed, _: float) -> None:
        """Release a relay, unless it is used again."""
        relay = peer.relays.get(frame.relay)
        if relay is None or relay.dismissal is Dismissal.NONE:
            return
        revoked = relay.dismissal is Dismissal.REVOKED
        relay.dismissal = Dismissal.NONE
        if revoked or self._relays.is_used(relay) or not self._may_go(relay):
            self._consider([relay])  # its release may have to be requested again
            return
        peer.remove_relay(frame.relay)
        self._relays.release(relay, [], final=False)

    @staticmethod
    def _may_go(relay: Relay) -> bool:
        """Return True if a relay holds no messages, and its process can be asked."""
        return relay.opened and relay.peer.session.ready and not relay.busy

    def _is_kept(self, relay: Relay) -> bool:
        """Return True if an unused relay stays: provisional, or to save a search."""
        eager = self._topology.config.eager_relays
        public = relay.entry.visibility is Visibility.PUBLIC
        return relay.provisional or (eager and public)


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
        "_new",
        "_outbound_messages",
        "_relays",
        "_since",
        "_topology",
    )

    def __init__(
        self,
        topology: Topology,
        relays: Relays,
        outbound_messages: OutboundMessages,
        hooks: Hooks,
    ) -> None:
        self._topology: Final = topology
        self._relays: Final = relays
        self._outbound_messages: Final = outbound_messages
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
        if not peer.closing:
            used = any(map(self._relays.is_used, peer.relays.values()))
            if peer.joined or peer.busy or used or self._wants(peer):
                peer.session.send_control(Error(reason=Reason.BUSY))
                return
            self._topology.send(link.id, Bye())
        peer.parted = BusReason.LEFT
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
        return any(wants(peer) for wants in self._hooks.wants)
