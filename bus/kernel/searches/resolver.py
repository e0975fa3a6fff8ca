"""`Resolver`: searches for names, which are answered, forwarded or kept.

A process that cannot answer a search keeps it until it is answered elsewhere,
cancelled, or expired: a later registration answers it (BUS-ROUTE-18). Only the process
that hosts a public task answers, never a relay (BUS-ROUTE-10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.errors import WireError
from bus.kernel import constants
from bus.kernel.peer.peer import characteristics
from bus.kernel.searches.own_searches import OwnSearches
from bus.kernel.searches.requests import (
    AnswerCollector,
    Request,
    Requests,
    check_passed_on,
)
from bus.kernel.wire import AddRelay, Cancel, Error, Reason, RequestId, Search
from bus.model.registration import Visibility

if TYPE_CHECKING:
    from bus.kernel.name_registry import NameRegistry
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.model.registration import Key

__all__ = ["Resolver"]


class Resolver:
    """The searches that one process has received or sent.

    ledger: all searches. own: those of this process.
    anywhere: those for names of any machine, of which all machines are asked.
    """

    __slots__ = (
        "_manager",
        "_name_registry",
        "_relays",
        "_topology",
        "anywhere",
        "ledger",
        "own",
    )

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        name_registry: NameRegistry,
        relays: Relays,
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._name_registry: Final = name_registry
        self._relays: Final = relays
        self.ledger: Final[Requests[Search]] = Requests(
            topology,
            owner_of=self._owner,
            frame_for=self._frame_for,
            alarm=topology.timers.alarm(self._expire),
        )
        self.own: Final = OwnSearches(topology, manager, relays, self.ledger)
        collector = manager.any_machine.collector or AnswerCollector
        self.anywhere: Final[AnswerCollector] = collector(
            topology, name_registry, relays, self.ledger, self._conclude
        )

    def _expire(self, now: float) -> float | None:
        """End the searches that are late; restart those that a message waits for."""
        self.own.on_expired(self.ledger.expire(now), now)
        return self.ledger.next_deadline()

    # Tasks of this process.

    def on_registered(self, task: Entry, now: float) -> None:
        """Answer the searches that arrived before a public task (BUS-ROUTE-18)."""
        machine = self._topology.me.machine
        for request in self.ledger.of(machine, task.name):
            if request.origin is not None:
                self._answer(request, task, now)

    # Searches, and the frames that end them.

    def on_search(self, peer: Peer, frame: Search, now: float) -> None:
        """Answer a search, or keep and forward it."""
        left = frame.milliseconds_left
        until = None if left is None else now + left / 1000
        if frame.anywhere and not peer.rights.whole:
            frame = replace(frame, anywhere=False)  # a guest reaches no other machine
        if not self._may_ask(peer, frame):
            peer.session.send_control(Error(reason=Reason.ACCESS, request=frame.id))
            return
        request = Request(frame, frame.machine, frame.name, peer, until)
        known = self.ledger.get(frame.id)
        if known is not None:
            request.forwarded_to = known.forwarded_to
            request.refused_by = known.refused_by
            request.candidates = known.candidates
        if frame.machine == self._topology.me.machine:
            task = self._manager.table.find(frame.name)
            if task is not None and not task.remote:
                self.ledger.keep(request)
                self._answer(request, task, now)
                return
            if self.own.moves.answers(peer, frame):
                return
        most, in_all = constants.SEARCHES_PER_PROCESS, constants.SEARCHES_IN_ALL
        if not self.ledger.has_room(frame.id, most, in_all):
            self._refuse(peer, frame.id)
            return
        self.ledger.keep(request)
        self.ledger.spread(request)
        self.anywhere.review_one(request, now)

    def _may_ask(self, peer: Peer, frame: Search) -> bool:
        """Return True if a peer may send commands to the name it seeks (BUS-SEC-1).

        A search that it forwards for another process always passes.
        """
        rights = peer.rights
        if rights.whole or (frame.id.machine, frame.id.process) != peer.key:
            return True
        here = frame.machine == self._topology.me.machine
        return here and rights.may_command(frame.name)

    def on_refusal(self, peer: Peer, error: Error, now: float) -> None:
        """Continue without a process that keeps no more searches (BUS-FLOW-1).

        Or, if access is denied: this process may not send commands to the name.

        A slave that registers the name later exports it, and then receives the search
        again. A process that asked a master has no other route, so its waiting messages
        fail.
        """
        request = self.ledger.get(error.request)
        if request is None or peer.key not in request.forwarded_to:
            return
        slave = peer in self._topology.slaves()
        if self.anywhere.is_collected(request) and not slave:
            self.anywhere.on_absent(peer, error, now)
            return
        del request.forwarded_to[peer.key]
        if slave:
            request.refused_by.add(peer.key)
            return
        if request.origin is not None:
            self._refuse(request.origin, request.frame.id)
            self.ledger.end(request)
            return
        self.own.on_refusal(request, denied=error.reason is Reason.ACCESS)

    @staticmethod
    def _refuse(peer: Peer, number: RequestId) -> None:
        peer.session.send_control(Error(reason=Reason.BUSY, request=number))

    def on_cancel(self, peer: Peer, frame: Cancel, _: float) -> None:
        """Drop a search that its asker cancels."""
        request = self.ledger.get(frame.id)
        if request is not None and request.origin is peer:
            self.ledger.end(request)

    def on_answer(self, peer: Peer, frame: AddRelay, now: float) -> bool:
        """Handle an answer, or forward it; False if its search is unknown."""
        assert frame.search is not None
        request = self.ledger.get(frame.search)
        if request is None:
            return False
        machine = frame.task.id.machine if request.anywhere else request.machine
        if (frame.task.id.machine, frame.task.name) != (machine, request.name):
            raise WireError(f"{frame.task.name!r} is not an answer to {request.name!r}")
        if request.origin is not None:
            check_passed_on(frame, request.origin)
        if self.anywhere.is_collected(request):
            self.anywhere.on_answer(peer, request, frame, now)
        else:
            self._conclude(peer, request, frame, now)
        return True

    def _conclude(
        self, peer: Peer, request: Request[Search], frame: AddRelay, now: float
    ) -> None:
        """End a search with its answer, here or at the process that forwarded it."""
        if request.origin is None:
            self.own.on_answer(peer, request, frame, now)
            return
        request.origin.session.send_control(frame)
        self.ledger.end(request, answered_by=peer)

    def _frame_for(self, frame: Search, peer: Peer) -> Search:
        """Return a search as it is forwarded: another machine seeks its own name.

        Of a search for a name of any machine, the other master seeks the name of its
        own machine (BUS-ROUTE-21).
        """
        if not frame.anywhere or not self._topology.is_master:
            return frame
        machine = peer.machine
        return replace(
            frame, machine=machine, anywhere=machine != self._topology.me.machine
        )

    # Peers.

    def on_joined(self, peer: Peer, now: float) -> None:
        """Send a newly joined peer the searches that it has not received."""
        self.own.on_joined(peer)
        self.ledger.offer(peer)
        self.anywhere.review(now)

    def on_export(self, peer: Peer, name: str) -> None:
        """Forward the searches for a name to the slave that has exported it.

        Also if it refused them before: it answers, and need not keep any.
        """
        self.own.moves.forget(name)
        for request in self.ledger.of(self._topology.me.machine, name):
            self.ledger.forward(request, [peer])

    def on_process_lost(self, peer: Peer) -> None:
        """Drop the searches that came from a lost process, and its answers."""
        self.own.on_process_lost(peer)
        self.anywhere.on_process_lost(peer)
        self.ledger.lose(peer)

    def _owner(self, request: Request[Search]) -> Key | None:
        """Return the process that is known to have a name of this machine, or None."""
        here = request.machine == self._topology.me.machine
        user = self._name_registry.users.find(request.name) if here else None
        return None if user is None else user.owner

    def _answer(self, request: Request[Search], task: Entry, now: float) -> None:
        frame, origin = request.frame, request.origin
        assert origin is not None
        self.ledger.end(request)
        asker = request.asker
        if task.visibility is not Visibility.PUBLIC:
            return
        if not self._relays.add_sender(asker, frame.sender, now, way=origin):
            return
        known = self._relays.with_number(task)
        answer = AddRelay(
            task=characteristics(known, self._topology.me.incarnation),
            search=frame.id,
            addresses=self._topology.addresses_for(asker, origin),
        )
        if origin.key == asker:
            origin.announced.add(known.relay)  # announced by the answer
        origin.session.send_control(answer)
