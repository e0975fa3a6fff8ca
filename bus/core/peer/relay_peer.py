"""`RelayPeer`: the interface of a peer to the relays of its tasks.

`bus.core.peer.peer.Peer` implements it. A peer has relays, and each relay calls its
peer; this interface keeps `relay` from importing `peer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from bus.core.local.routing_table import Entry
    from bus.core.peer.answer_backlog import AnswerBacklog
    from bus.core.peer.outbound_run import OutboundRun
    from bus.core.peer.relay_counters import RelayCounters
    from bus.core.peer.session import Session
    from bus.core.timers import Alarm
    from bus.registration import Key

__all__ = ["RelayPeer"]


class RelayPeer(Protocol):
    """The process behind a relay; `Peer` describes each member.

    A relay calls the methods under the exchange's lock, which guards both.
    """

    message_bytes_max: int
    flooded: bool
    active: dict[Any, None]

    @property
    def key(self) -> Key:
        """Its machine and its name."""

    @property
    def session(self) -> Session:
        """The traffic to and from it."""

    @property
    def counters(self) -> RelayCounters:
        """Counters of all messages for its tasks."""

    @property
    def message_alarm(self) -> Alarm:
        """The alarm that is set for each deadline of a message in a relay."""

    @property
    def notifications(self) -> RelayCounters:
        """Counters of notifications only."""

    @property
    def relays(self) -> MutableMapping[int, Any]:
        """The relays of its tasks here, by the numbers it assigned."""

    @property
    def answers(self) -> AnswerBacklog:
        """The bound on the answers queued for it."""

    @property
    def notifying(self) -> bool:
        """True if a notification waits for the link; it may delay other messages."""

    def announce(self, task: Entry, relay: int) -> None:
        """Introduce a task to the peer, unless the peer knows it."""

    def number_of_departed(self, task: Entry, new: Callable[[], int]) -> int:
        """Return the relay number of a deregistered task with messages for the peer."""

    def is_leaving(self, relay: int) -> bool:
        """Return True if messages of a deregistered task still wait for the link."""

    def report_departure(self, relay: int, *, final: bool) -> None:
        """Report a local task's deregistration and last extraction (BUS-DEREG-4)."""

    def notified(self, relay: int) -> int:
        """Return how many notifications of a local task wait for the link."""

    def holds_back(self, relay: object, outbound_run: OutboundRun) -> bool:
        """Return True if an earlier message of the same sender waits elsewhere."""

    def count_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Count messages like `outbound_run` that now wait for the link."""

    def uncount_queued(self, outbound_run: OutboundRun, count: int = 1) -> None:
        """Uncount messages that no longer wait."""

    def count_dropped(self, oldest: OutboundRun) -> None:
        """Count dropped notifications, their task's oldest ones (BUS-FLOW-3)."""

    def send_gap(self, notification: OutboundRun) -> None:
        """Send a GAP before a task's next notification if any was dropped before it."""
