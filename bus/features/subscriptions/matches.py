"""`Matches`: the tasks of this process that match subscriptions of other processes.

This process answers a match with the task, along the route of the subscription. From
then on, it sends each notification of the task to the process that asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.kernel.peer.peer import characteristics
from bus.kernel.wire import AddRelay
from bus.model.registration import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bus.features.subscriptions.frames import Subscribe
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.searches.requests import Request, Requests
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.model.registration import Key

__all__ = ["Matches"]

_NAMES_MAX: Final = 4096


class Matches:
    """The matches between tasks of this process and the kept subscriptions.

    The requests that match a name are remembered until the ledger changes, so that a
    notification does not cost more if there are many other subscriptions.
    """

    __slots__ = (
        "_by_name",
        "_ledger",
        "_manager",
        "_relays",
        "_revision",
        "_topology",
    )

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
        # The requests that match a name, as of the revision of the ledger.
        self._by_name: dict[str, list[Request[Subscribe]]] = {}
        self._revision: int = ledger.revision

    def subscribed_peers(self, task: Entry) -> list[Peer]:
        """Return the processes with a subscriber to a task, each once."""
        found: dict[Key, Peer] = {}
        for request in self._of(task.name):
            if request.frame.presence or request.origin is None:
                continue
            peer = self._topology.peers.get(request.asker)
            if peer is not None and peer.rights.may_subscribe(task.name):
                found[request.asker] = peer
        return list(found.values())

    def _of(self, name: str) -> list[Request[Subscribe]]:
        """Return the requests that match a task of this process, by its name."""
        if self._revision != self._ledger.revision or len(self._by_name) >= _NAMES_MAX:
            self._by_name = {}
            self._revision = self._ledger.revision
        found = self._by_name.get(name)
        if found is None:
            machine = self._topology.me.machine
            found = self._by_name[name] = [
                each
                for each in self._ledger.all()
                if each.machine == machine and each.specification.matches(name)
            ]
        return found

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
        if peer is None:
            about = characteristics(known, self._topology.me.incarnation)
        else:
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
