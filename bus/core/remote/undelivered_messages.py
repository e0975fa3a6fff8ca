"""`UndeliveredMessages`: outbound messages whose relay ends before they are extracted.

If its relay is released, a message never put on a link is sent elsewhere. A message put
on a link and not extracted is sent elsewhere if its addressee deregistered cleanly and
reported its last extraction (BUS-DEREG-4). It is in doubt if the addressee's process is
lost (BUS-MOVE-8). It fails if that process refuses it (BUS-MSG-20).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.wire import Reason
from bus.errors import (
    ExpiredError,
    InDoubtError,
    MessageTooLargeError,
    PeerLostError,
    UnreachableError,
)

if TYPE_CHECKING:
    from bus.core.local.process_manager import ProcessManager
    from bus.core.peer.peer import Peer
    from bus.core.remote.relays import Relays
    from bus.core.remote.topology import Topology
    from bus.core.wire import Error, Unrelay
    from bus.errors import BusError

__all__ = ["UndeliveredMessages"]


class UndeliveredMessages:
    """The messages for relays that end: each is sent elsewhere, fails, or is in doubt.

    It keeps no state: the relays hold the messages until then.
    """

    __slots__ = ("_manager", "_relays", "_topology")

    def __init__(
        self, topology: Topology, manager: ProcessManager, relays: Relays
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._relays: Final = relays
        topology.message_alarm = topology.timers.alarm(self._expire)

    def on_unrelay(self, peer: Peer, frame: Unrelay, _: float) -> None:
        """Release the relay of a task that deregistered cleanly (BUS-DEREG-4).

        If messages of the task are still to come, they need the relay for a while.
        """
        depart = peer.relays.get if frame.more else peer.depart
        relay = depart(frame.relay)
        if relay is None:
            return
        self._topology.todo += self._manager.audiences.on_disappeared(relay.entry.id)
        relay.on_extracted(frame.extracted)
        again = [*relay.take_unacked(), *relay.take_unsent()]
        self._relays.release(relay, again, final=frame.final)

    def on_refused(self, peer: Peer, frame: Error) -> None:
        """Fail a message that the process of its addressee refused (BUS-MSG-20)."""
        for relay in list(peer.relays.values()):
            refused = relay.take_refused(frame.message)
            if refused is None:
                continue
            error: BusError = UnreachableError(relay.entry.name, frame.text)
            if frame.reason is Reason.BUSY:
                limit = peer.message_bytes_max
                error = MessageTooLargeError(refused.size, limit, frame.text)
            self._topology.fail(refused.commands(), error)
            self._relays.release_drained(relay)
            return

    def lose(self, peer: Peer) -> None:
        """Fail or return the messages of a lost or restarted process (BUS-MOVE-8)."""
        for relay in list(peer.relays.values()):
            name = relay.entry.name
            doubtful = relay.take_unacked(lost=True)
            asked = list(relay.asked.values())
            self._topology.fail(doubtful, InDoubtError(name))
            self._topology.fail(asked, PeerLostError(name))
            relay.asked.clear()
            self._relays.release(relay, relay.take_unsent(), final=False)
        peer.forget()

    def fail_unreachable(self, peer: Peer) -> None:
        """Fail the unsent commands for a process that no link can reach."""
        for relay in peer.relays.values():
            unsent = relay.take_unsent("failed")
            error = UnreachableError(relay.entry.name, "no process answers")
            self._topology.fail(unsent, error)

    def close(self, peer: Peer) -> None:
        """Release the relays of a peer together with its unused link (BUS-DEREG-5)."""
        for relay in list(peer.relays.values()):
            self._relays.release(relay, relay.take_unsent(), final=False)
        peer.forget()

    # Time.

    def _expire(self, now: float) -> float | None:
        """Fail the commands that expired in a relay.

        Return when the next one expires, in seconds; None for never.
        """
        times = []
        for peer in self._topology.peers.values():
            for relay in peer.active_relays():
                if relay is not peer.audience:
                    error = ExpiredError(relay.entry.name)
                    self._topology.fail(relay.expire(now), error)
                    times.append(relay.next_deadline())
        return min([at for at in times if at is not None], default=None)
