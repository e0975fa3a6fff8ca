"""`Resolver`: searches for names, of this process and of others.

One search for a name is outstanding at a time (BUS-ROUTE-7). A process that cannot
answer a search keeps it until it is answered elsewhere, cancelled, or expired: a later
registration answers it (BUS-ROUTE-18). Only the process that hosts a public task
answers, never a relay (BUS-ROUTE-10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.address import Address
from bus.core.local.actions import Fail
from bus.core.peer.peer import characteristics
from bus.core.remote.requests import HOPS, Request, Requests, check_passed_on
from bus.core.wire import (
    NO_DEADLINE,
    AddRelay,
    Error,
    Reason,
    RequestId,
    Search,
)
from bus.errors import BusFullError, MovedError, WireError
from bus.registration import Visibility
from bus.rights import not_granted

if TYPE_CHECKING:
    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.remote.name_registry import NameRegistry
    from bus.core.remote.relays import Relays
    from bus.core.remote.topology import Topology
    from bus.errors import BusError
    from bus.registration import Key

__all__ = ["Resolver"]

_MOVED_MAX: Final = 1024  # new addresses of departed tasks that a master keeps
_AGAIN_S: Final = 0.25  # delay before a search whose answer was useless is repeated


class Resolver:
    """The searches that one process has received or sent.

    ledger: all searches.
    own: those of this process, by the name under which messages are parked.
    """

    __slots__ = (
        "_again",
        "_deferred_new_addresses",
        "_manager",
        "_name_registry",
        "_new_addresses",
        "_relays",
        "_senders",
        "_topology",
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
        self.ledger: Final[Requests[Search]] = Requests(topology, owner_of=self._owner)
        self.own: Final[dict[str, Request[Search]]] = {}
        # The sender behind each own search, which ends when that task deregisters
        # (BUS-DEREG-11).
        self._senders: Final[dict[str, Entry]] = {}
        # Names whose answer was useless, and when to search for each again (OPEN-9).
        self._again: Final[dict[str, float]] = {}
        # In the master: names of its machine whose tasks go on at another one, each
        # with the address there, and until when senders are told (BUS-MOVE-9).
        self._new_addresses: Final[dict[str, tuple[str, float]]] = {}
        # New addresses told by a master, of names whose former holders still return
        # their unread messages. These go first.
        self._deferred_new_addresses: Final[dict[str, str]] = {}

    # Searches of this process.

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for, unless a search is open."""
        if name in self.own or self._manager.table.find(name) is not None:
            return
        if (new := self._new_address(name)) is not None:
            self._fail_moved(name, new)
            return
        if self._again.get(name, now) > now:
            return
        self._again.pop(name, None)
        waiting = self._manager.parked.of(name)
        senders = (each.message._source for each in waiting)
        table = self._manager.table
        sender = next((each for each in senders if each in table), None)
        if sender is None:
            return
        address = Address.parse(name)
        machine = address.machine or self._topology.me.machine
        until = max(each.deadline for each in waiting)
        task = self._relays.with_number(sender)
        frame = Search(
            id=self._topology.new_request(),
            machine=machine,
            name=address.module,
            sender=characteristics(task, self._topology.me.incarnation),
            hops=HOPS,
            milliseconds_left=_milliseconds(until - now),
        )
        request = Request(frame, machine, address.module, None, until)
        self.own[name] = request
        self._senders[name] = sender
        self.ledger.keep(request)
        self.ledger.spread(request)

    def review(self, now: float) -> None:
        """End the searches that no message waits for any more (BUS-ROUTE-19)."""
        for name in list(self.own):
            entry = self._manager.table.find(name)
            if entry is not None and not self._is_reached(entry):
                continue
            if not self._manager.parked.of(name):
                self._end_own(name)
        for name, at in list(self._again.items()):
            if at <= now:
                del self._again[name]
                self.seek(name, now)
        for name, (_, until) in list(self._new_addresses.items()):
            if until <= now:
                del self._new_addresses[name]
        late = {id(each) for each in self.ledger.expire(now)}
        for name, request in list(self.own.items()):
            if id(request) in late:
                del self.own[name], self._senders[name]
                self.seek(name, now)  # other messages may wait by now

    def next_deadline(self) -> float | None:
        """Return when `review` has work to do, in seconds; None for never."""
        deadlines = [each.deadline for each in self.ledger.all()]
        deadlines += self._again.values()
        deadlines += [until for _, until in self._new_addresses.values()]
        return min((each for each in deadlines if each is not None), default=None)

    def on_departure(self, task: Entry, now: float) -> None:
        """End the searches of a departed sender; restart those that others need."""
        for name, sender in list(self._senders.items()):
            if sender is task:
                self._end_own(name)
                self.seek(name, now)

    def on_named(self, entry: Entry) -> None:
        """End the search for a name that is found now and can be reached."""
        self._deferred_new_addresses.pop(entry.name, None)
        if entry.name in self.own and self._is_reached(entry):
            self._end_own(entry.name)

    @staticmethod
    def _is_reached(entry: Entry) -> bool:
        """Return True if messages may go to an entry before its search is answered.

        If two processes search for one another, each already has the other's task from
        these searches. But each would wait for the other to dial.
        """
        if not entry.remote:
            return True
        peer: Peer = entry.mailbox.peer
        return peer.session.link is not None or peer.dialling

    def on_registered(self, task: Entry, now: float) -> None:
        """Answer the searches that arrived before a public task (BUS-ROUTE-18)."""
        self._new_addresses.pop(task.name, None)
        machine = self._topology.me.machine
        for request in self.ledger.of(machine, task.name):
            if request.origin is not None:
                self._answer(request, task, now)

    def own_name(self, frame: AddRelay) -> str | None:
        """Return the name whose own search an answer belongs to, or None."""
        for name, request in self.own.items():
            if request.frame.id == frame.search:
                return name
        return None

    # Searches of other processes.

    def on_search(self, peer: Peer, frame: Search, now: float) -> None:
        """Answer a search, or keep and forward it."""
        left = frame.milliseconds_left
        until = None if left is None else now + left / 1000
        if not self._may_ask(peer, frame):
            peer.session.send_control(Error(reason=Reason.ACCESS, request=frame.id))
            return
        request = Request(frame, frame.machine, frame.name, peer, until)
        known = self.ledger.get(frame.id)
        if known is not None:
            request.forwarded_to = known.forwarded_to
        if frame.machine == self._topology.me.machine:
            task = self._manager.table.find(frame.name)
            if task is not None and not task.remote:
                self.ledger.keep(request)
                self._answer(request, task, now)
                return
            if frame.name in self._new_addresses:
                self._send_moved(peer, frame.id, self._new_addresses[frame.name][0])
                return
        limits = self._topology.limits
        most, in_all = limits.searches_per_process, limits.searches_in_all
        if not self.ledger.has_room(frame.id, most, in_all):
            self._refuse(peer, frame.id)
            return
        self.ledger.keep(request)
        self.ledger.spread(request)

    def _may_ask(self, peer: Peer, frame: Search) -> bool:
        """Return True if a peer may send commands to the name it seeks (BUS-SEC-1).

        A search that it forwards for another process always passes.
        """
        rights = peer.rights
        if rights.whole or (frame.id.machine, frame.id.process) != peer.key:
            return True
        here = frame.machine == self._topology.me.machine
        return here and rights.may_command(frame.name)

    def on_refusal(
        self, peer: Peer, number: RequestId, *, denied: bool = False
    ) -> None:
        """Continue without a process that keeps no more searches (BUS-FLOW-1).

        denied: True if this process may not send commands to the name.

        A slave that registers the name later exports it, and then receives the search
        again. A process that asked a master has no other route, so its waiting messages
        fail.
        """
        request = self.ledger.get(number)
        if request is None or request.forwarded_to.pop(peer.key, None) is None:
            return
        if peer in self._topology.slaves():
            return
        if request.origin is not None:
            self._refuse(request.origin, number)
            self.ledger.end(request)
            return
        name = next(each for each, own in self.own.items() if own is request)
        self._end_own(name)
        error: BusError = not_granted("command", name)
        if not denied:
            error = BusFullError(
                "the list of searches of another process",
                self._topology.limits.searches_per_process,
                "searches",
            )
        self._fail_parked(name, error)

    def _fail_parked(self, name: str, error: BusError) -> None:
        self._topology.todo += [
            Fail(each, error) for each in self._manager.parked.take(name)
        ]

    @staticmethod
    def _refuse(peer: Peer, number: RequestId) -> None:
        peer.session.send_control(Error(reason=Reason.BUSY, request=number))

    # Tasks that go on at another machine (BUS-MOVE-9).

    def on_moved(self, name: str, address: str, now: float) -> None:
        """Tell the senders of a departed task where it goes on, if this is the master.

        They are told when they search for it, as long as a message would wait for it.
        Senders that have searched already are told now.
        """
        if not self._topology.is_master:
            return
        if self._name_registry.users.find(name) is not None:
            return  # registered again
        self._new_addresses.pop(name, None)
        self._new_addresses[name] = (address, now + self._manager.resolve_timeout_s)
        if len(self._new_addresses) > _MOVED_MAX:
            del self._new_addresses[next(iter(self._new_addresses))]
        for request in self.ledger.of(self._topology.me.machine, name):
            if request.origin is not None:
                self._send_moved(request.origin, request.frame.id, address)
                self.ledger.end(request)
        if name in self.own:
            self._end_own(name)
            self._fail_moved(name, address)

    def on_own_task_moved(self, name: str, address: str) -> None:
        """Fail the messages parked in this process for its own moved task.

        Its unread messages are parked by now, before those sent since.
        """
        if self._manager.table.find(name) is None:
            if name in self.own:
                self._end_own(name)
            self._fail_moved(name, address)

    def _new_address(self, name: str) -> str | None:
        """Return where the task of a name goes on, as far as this process knows."""
        address = Address.parse(name)
        moved = self._new_addresses.get(address.module)
        if moved is not None and address.machine in {None, self._topology.me.machine}:
            return moved[0]
        return self._deferred_new_addresses.get(name)

    def _fail_moved(self, name: str, address: str) -> None:
        """Fail the messages parked for a name with `MovedError`.

        If a former holder still returns unread messages, this is deferred until then.
        """
        if self._manager.is_leaving(name):
            # `TaskAnnouncer.on_emptied` searches for the name again.
            self._deferred_new_addresses[name] = address
            return
        self._deferred_new_addresses.pop(name, None)
        self._fail_parked(name, MovedError(name, address))

    def on_moved_answer(self, peer: Peer, number: RequestId, address: str) -> None:
        """Handle or forward the answer of a master that a task goes on elsewhere.

        Raises:
            WireError: the new address is on the machine where it was searched for.
        """
        request = self.ledger.get(number)
        if request is None or peer in self._topology.slaves():
            return
        if request.forwarded_to.pop(peer.key, None) is None:
            return
        if Address.parse(address).machine == request.machine:
            raise WireError(f"ERROR has a new address on the same machine: {address!r}")
        if request.origin is not None:
            self._send_moved(request.origin, number, address)
            self.ledger.end(request)
            return
        name = next(each for each, own in self.own.items() if own is request)
        self._end_own(name)
        self._fail_moved(name, address)

    @staticmethod
    def _send_moved(peer: Peer, number: RequestId, address: str) -> None:
        frame = Error(reason=Reason.MOVED, text=address, request=number)
        peer.session.send_control(frame)

    def on_cancel(self, peer: Peer, number: RequestId) -> None:
        """Drop a search that its asker cancels."""
        request = self.ledger.get(number)
        if request is not None and request.origin is peer:
            self.ledger.end(request)

    def on_answer(self, peer: Peer, frame: AddRelay, now: float) -> bool:
        """Handle an answer, or forward it; False if its search is unknown."""
        assert frame.search is not None
        request = self.ledger.get(frame.search)
        if request is None:
            return False
        origin = request.origin
        if (frame.task.id.machine, frame.task.name) != (request.machine, request.name):
            raise WireError(f"{frame.task.name!r} is not an answer to {request.name!r}")
        if origin is not None:
            check_passed_on(frame, origin)
            origin.session.send_control(frame)
            self.ledger.end(request, answered_by=peer)
            return True
        name = self.own_name(frame)
        assert name is not None
        del self.own[name], self._senders[name]
        self.ledger.end(request, answered_by=peer)
        self._relays.on_found(peer, frame, request.frame.sender.relay, now)
        if self._manager.table.find(name) is None:
            self._again[name] = now + _AGAIN_S
        return True

    # Peers.

    def on_joined(self, peer: Peer) -> None:
        """Send a newly joined peer the searches that it has not received."""
        for name, mine in list(self.own.items()):
            if peer.key in mine.lost:
                self._renumber(name)
        self.ledger.offer(peer)

    def on_export(self, peer: Peer, name: str) -> None:
        """Forward the searches for a name to the slave that has exported it."""
        self._new_addresses.pop(name, None)
        for request in self.ledger.of(self._topology.me.machine, name):
            self.ledger.forward(request, [peer])

    def on_process_lost(self, peer: Peer) -> None:
        """Drop the searches that came from a lost process."""
        for mine in self.own.values():
            if peer.key in mine.forwarded_to:
                mine.lost.add(peer.key)
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

    def _renumber(self, name: str) -> None:
        """Restart a search under a number that no process has seen.

        A peer that lost this process has cancelled the search at the processes it
        forwarded the search to, and forwards it to them again. A late answer to the old
        number would end the new search at that peer. No process would then cancel the
        search at the processes that have received it since.
        """
        request = self.own[name]
        self.ledger.end(request)
        frame = replace(request.frame, id=self._topology.new_request())
        again = Request(frame, request.machine, request.name, None, request.deadline)
        self.own[name] = again
        self.ledger.keep(again)
        self.ledger.spread(again)

    def _end_own(self, name: str) -> None:
        request = self.own.pop(name)
        del self._senders[name]
        self.ledger.end(request)


def _milliseconds(seconds: float) -> int:
    # Clamp first: infinity cannot be rounded.
    return round(min(max(0.0, seconds * 1000), NO_DEADLINE - 1))
