"""`Matches`: the tasks of this process that match subscriptions of other processes.

This process answers a match with the task, along the route of the subscription. From
then on, it sends each notification of the task to the process that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.peer.peer import characteristics
from bus.core.wire import AddRelay
from bus.registration import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.remote.relays import Relays
    from bus.core.remote.requests import Request, Requests
    from bus.core.remote.topology import Topology
    from bus.core.wire import Subscribe
    from bus.registration import Key

__all__ = ["Matches"]


class Matches:
    """The matches between tasks of this process and the kept subscriptions.

    They are looked up in the routing table and in the ledger at each call: nothing is
    stored here.
    """

    __slots__ = ("_ledger", "_manager", "_relays", "_topology")

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        relays: Relays,
        ledger: Requests[Subscribe],
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._relays: Final = relays
        self._ledger: Final = ledger

    def subscribed_peers(self, task: Entry) -> list[Peer]:
        """Return the processes with a subscriber to a task, each once."""
        found: dict[Key, Peer] = {}
        for request in self._ledger.all():
            if request.frame.presence or request.origin is None:
                continue
            if not self.is_match(request, task):
                continue
            peer = self._topology.peers.get(request.asker)
            if peer is not None and peer.rights.may_subscribe(task.name):
                found[request.asker] = peer
        return list(found.values())

    def is_subscriber(self, peer: Peer) -> bool:
        """Return True if another process subscribes to any task of this one."""
        return any(True for _ in self.subscribed_tasks(peer))

    def subscribed_tasks(self, peer: Peer) -> Iterator[Entry]:
        """Yield the tasks of this process to which another one subscribes."""
        asked = [
            request
            for request in self._ledger.all()
            if request.asker == peer.key and not request.frame.presence
        ]
        if asked:
            for task in self._manager.table.public():
                if (
                    not task.remote
                    and peer.rights.may_subscribe(task.name)
                    and any(self.is_match(each, task) for each in asked)
                ):
                    yield task

    def is_match(self, request: Request[Subscribe], task: Entry) -> bool:
        """Return True if a task of this process matches a request."""
        if request.machine != self._topology.me.machine:
            return False
        return request.specification.matches(task.name)

    def task_of(self, request: Request[Subscribe], asker: Peer) -> Entry | None:
        """Return a task that matches a request and may notify the asker, or None."""
        return next(
            (
                task
                for task in self._manager.table.public()
                if not task.remote
                and self.is_match(request, task)
                and asker.rights.may_subscribe(task.name)
            ),
            None,
        )

    def answer(self, request: Request[Subscribe], task: Entry, now: float) -> None:
        """Answer a request with a task of this process, unless rights forbid it."""
        frame, origin = request.frame, request.origin
        assert origin is not None
        asker = request.asker
        if task.visibility is not Visibility.PUBLIC:
            return
        incarnation = frame.subscriber.incarnation
        user = frame.subscriber.user
        peer: Peer | None
        if frame.presence:
            # No messages go to a watch, so its process dials no link. Waiting for a
            # link would end with the loss of that process and of its tasks.
            peer = self._topology.peers.get(asker)
            if peer is not None and peer.is_reported_as_other(user):
                peer = None
        else:
            peer = self._relays.peer_for(asker, incarnation, now, user)
            if peer is None:
                return
        if peer is not None and not peer.rights.may_subscribe(task.name):
            return
        known = self._relays.with_number(task)
        about = characteristics(known, self._topology.me.incarnation)
        if peer is not None:
            about = peer.about(known)
            if not frame.presence:
                if origin is peer:
                    peer.announced.add(known.relay)  # announced by the answer
                elif peer.session.ready:
                    peer.announce(known, known.relay)
        origin.session.send_control(
            AddRelay(
                task=about,
                search=frame.id,
                addresses=self._topology.addresses_for(asker, origin),
            )
        )
