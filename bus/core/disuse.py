"""`Disuse`: relays of living tasks that nobody here uses (BUS-DEREG-13).

A relay serves those here who write to its task, get something from it, or hear it. When
the last of them has left, or hears it no more, or when there never was any, the task's
process is asked whether the relay may go. That process takes it from then on that its
task is not known here: it says so, behind all that the task has sent, and introduces
the task anew before it sends more. A relay that has come to use in between stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.relay import Dismissal
from bus.core.routing_table import Visibility
from bus.core.wire import Dismiss, Dismissed
from bus.specification import Specification

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.core.neighbours import Neighbours
    from bus.core.peer import Peer
    from bus.core.relay import Relay
    from bus.core.relays import Relays
    from bus.core.routing_table import Entry

__all__ = ["Disuse"]


class Disuse:
    """Which relays have no user here, and since when.

    Invariants:
    I1. of one relay one question is under way at most. Else the answer to the first
        could be taken for that to the second, though a search has introduced its task
        in between.
    I2. what is known by hearsay is not in ``_since``; once it is confirmed it comes
        there by `Relays.take_changed`.
    I3. ``_since`` is in the order of its times. So what is due is in front, and however
        many wait, an event costs what it adds.
    I4. what its peer knows no more is in ``_since`` no longer than to the end of that
        event.
    """

    __slots__ = ("_neighbours", "_new", "_relays", "_since")

    def __init__(self, neighbours: Neighbours, relays: Relays) -> None:
        self._neighbours: Final = neighbours
        self._relays: Final = relays
        self._new: list[Relay] = []
        self._since: Final[dict[Relay, float]] = {}

    # What may have been the last use of a relay.

    def left(self, task: Entry) -> None:
        """Note that a task of this process has left; relays know it as a user still."""
        for peer in self._neighbours.peers.values():
            self._consider(each for each in peer.relays.values() if task in each.users)

    def unheard(self, machine: str, pattern: str) -> None:
        """Note that nobody here hears any more what a pattern means."""
        specification = Specification(pattern)
        for peer in self._neighbours.peers.values():
            if peer.machine == machine:
                self._consider(
                    each
                    for each in peer.relays.values()
                    if specification.matches(each.entry.address.module)
                )

    def _consider(self, relays: Iterable[Relay]) -> None:
        """Look after relays that may have no use; `tick` passes over the others."""
        self._new += [relay for relay in relays if not self._is_kept(relay)]

    # Time.

    def review(self, now: float) -> None:
        """Note since when relays may not be used."""
        self._consider(self._relays.take_changed())
        new, self._new = self._new, []
        for relay in new:
            if relay.peer.relays.get(relay.number) is relay:
                self._wait(relay, now)
            else:
                self._since.pop(relay, None)

    def _wait(self, relay: Relay, now: float) -> None:
        self._since.pop(relay, None)  # to be the last
        self._since[relay] = now

    def next_deadline(self) -> float | None:
        """Return when it is to be seen whether one may go, in seconds; None: never."""
        first = next(iter(self._since.values()), None)
        return None if first is None else first + self._neighbours.limits.linger_s

    def tick(self, now: float) -> None:
        """Ask whether relays may go that have not been used for long enough."""
        self.review(now)
        linger_s = self._neighbours.limits.linger_s
        for relay, since in list(self._since.items()):
            if since + linger_s > now:
                break
            del self._since[relay]
            if self._relays.is_used(relay):
                continue
            if relay.dismissal is not Dismissal.NONE or not self._may_go(relay):
                self._wait(relay, now)
                continue
            relay.dismissal = Dismissal.ASKED
            relay.peer.session.tell(Dismiss(relay=relay.number))

    # Others.

    @staticmethod
    def asked(peer: Peer, number: int) -> None:
        """Let a process forget one of this process's tasks, until that sends more."""
        peer.announced.discard(number)
        peer.session.tell(Dismissed(relay=number))

    def dismissed(self, peer: Peer, number: int) -> None:
        """Release a relay, unless it is used again."""
        relay = peer.relays.get(number)
        if relay is None or relay.dismissal is Dismissal.NONE:
            return
        revoked = relay.dismissal is Dismissal.REVOKED
        relay.dismissal = Dismissal.NONE
        if revoked or self._relays.is_used(relay) or not self._may_go(relay):
            self._consider([relay])  # it may be to ask again
            return
        del peer.relays[number]
        self._relays.release(relay, [], final=False)

    @staticmethod
    def _may_go(relay: Relay) -> bool:
        """Whether nothing of it waits or is under way, and its process can be asked."""
        return relay.opened and relay.peer.session.ready and not relay.busy

    def _is_kept(self, relay: Relay) -> bool:
        """Whether it stays though nobody uses it: by hearsay, or to need no search."""
        eager = self._neighbours.limits.eager_relays
        public = relay.entry.visibility is Visibility.PUBLIC
        return relay.provisional or (eager and public)
