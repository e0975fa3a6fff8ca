"""`OwnSearches`: the searches for names that messages of this process wait for.

One search for a name is outstanding at a time (BUS-ROUTE-7). It ends if the name is
found, or if no message waits for it any more.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from bus.errors import BusFullError
from bus.kernel import constants
from bus.kernel.hooks import Moves
from bus.kernel.peer.peer import characteristics
from bus.kernel.searches.requests import HOPS, Request
from bus.kernel.wire import NO_DEADLINE, Search
from bus.model.address import ANY_MACHINE, Address
from bus.model.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.errors import BusError
    from bus.kernel.peer.peer import Peer
    from bus.kernel.relays import Relays
    from bus.kernel.searches.requests import Requests
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology
    from bus.kernel.wire import AddRelay, RequestId

__all__ = ["OwnSearches"]

_AGAIN_S: Final = 0.25  # delay before a search whose answer was useless is repeated


class OwnSearches:
    """The searches of one process for the names under which its messages are parked.

    by_name: the outstanding searches. The ledger keeps them, too.
    again: names whose answer was useless, and when to search for each again, in
      seconds (OPEN-9); in the order of these times.
    moves: where departed tasks go on; a feature may fill it.
    """

    __slots__ = (
        "_alarm",
        "_by_sender",
        "_found",
        "_ledger",
        "_manager",
        "_names",
        "_relays",
        "_topology",
        "again",
        "by_name",
        "moves",
    )

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        relays: Relays,
        ledger: Requests[Search],
    ) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._alarm: Final = topology.timers.alarm(self._repeat)
        self._relays: Final = relays
        self._ledger: Final = ledger
        self.by_name: Final[dict[str, Request[Search]]] = {}
        self._names: Final[dict[RequestId, str]] = {}
        # The names sought for each sender, by its relay number. Their searches end when
        # that task deregisters (BUS-DEREG-11).
        self._by_sender: Final[dict[int, dict[str, None]]] = {}
        self.again: Final[dict[str, float]] = {}
        # The names of relays that cannot be reached yet. Their searches continue until
        # they can, even if no message waits.
        self._found: Final[dict[str, None]] = {}
        self.moves: Moves = Moves()

    def seek(self, name: str, now: float) -> None:
        """Search for a name that parked messages wait for, unless a search is open."""
        if name in self.by_name or self._manager.table.find(name) is not None:
            return
        if self.moves.fails(name):
            return
        if self.again.get(name, now) > now:
            return
        self.again.pop(name, None)
        waiting = self._manager.parked.of(name)
        sender_of = self._relays.proxies.sender
        senders = (sender_of(each.message._source) for each in waiting)
        table = self._manager.table
        sender = next((each for each in senders if each in table), None)
        until = max((each.deadline for each in waiting), default=now)
        if sender is None or until <= now:  # if they have expired, they fail soon
            return
        address = Address.parse(name)
        anywhere = address.machine == ANY_MACHINE
        own = self._topology.me.machine
        machine = own if anywhere else address.machine or own
        task = self._relays.with_number(sender)
        frame = Search(
            id=self._topology.new_request(),
            machine=machine,
            name=address.module,
            sender=characteristics(task, self._topology.me.incarnation),
            hops=HOPS,
            milliseconds_left=_milliseconds(until - now),
            anywhere=anywhere,
        )
        request = Request(frame, machine, address.module, None, until)
        self._begin(name, request)

    def _begin(self, name: str, request: Request[Search]) -> None:
        number, sender = request.frame.id, request.frame.sender.relay
        sought = self._by_sender.setdefault(sender, {})
        self._ledger.keep(request)
        # No call between these lines: an interrupt finds all changes or none.
        self.by_name[name] = request
        self._names[number] = name
        sought[name] = None
        self._ledger.spread(request)

    def restart(self, now: float) -> None:
        """Restart all searches: an error may have cut off a decision on one."""
        for name in list(self.by_name):
            with suppress(KeyError):  # as far as that decision came
                self.end(name)
        for name in self._manager.parked.waiting():
            self.seek(name, now)

    def _forget(self, name: str) -> Request[Search]:
        request = self.by_name[name]
        number, sender = request.frame.id, request.frame.sender.relay
        sought = self._by_sender[sender]
        last = len(sought) == 1
        # No call between these lines: an interrupt finds all changes or none.
        del self.by_name[name]
        del self._names[number]
        if last:
            del self._by_sender[sender]
        else:
            del sought[name]
        return request

    def end(self, name: str) -> None:
        """End the open search for a name."""
        self._ledger.end(self._forget(name))

    def name_of(self, request: Request[Search]) -> str:
        """Return the name, as used in this process, that an open search is for."""
        return self._names[request.frame.id]

    # Messages and tasks of this process.

    def end_unneeded(self, name: str) -> None:
        """End the search for a name if no message waits for it (BUS-ROUTE-19)."""
        self._found.pop(name, None)
        if name not in self.by_name or self._manager.parked.of(name):
            return
        entry = self._manager.table.find(name)
        if entry is None or self._is_reached(entry):
            self.end(name)
        else:
            self._found[name] = None

    def end_found(self) -> None:
        """End the searches for found names that a new link reaches."""
        for name in list(self._found):
            self.end_unneeded(name)

    def _repeat(self, now: float) -> float | None:
        """Repeat the searches that are due; return when the next one is."""
        for name, at in list(self.again.items()):
            if at > now:
                return at
            del self.again[name]
            self.seek(name, now)
        return None

    def on_expired(self, requests: Iterable[Request[Search]], now: float) -> None:
        """Remove the searches that the ledger has dropped; restart those needed."""
        for request in requests:
            name = self._names.get(request.frame.id)
            if name is not None:
                self._forget(name)
                self.seek(name, now)  # other messages may wait by now

    def on_departure(self, task: Entry, now: float) -> None:
        """End the searches of a departed sender; restart those that others need."""
        for name in list(self._by_sender.get(task.relay, ())):
            self.end(name)
            self.seek(name, now)

    def on_named(self, entry: Entry) -> None:
        """End the search for a name that is found now and can be reached."""
        self.moves.forget(entry.name)
        if entry.name in self.by_name:
            if self._is_reached(entry):
                self.end(entry.name)
            else:
                self._found[entry.name] = None

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

    # Answers of other processes.

    def on_answer(
        self, peer: Peer, request: Request[Search], frame: AddRelay, now: float
    ) -> None:
        """End an answered search; repeat it later if the answer was useless."""
        name = self.name_of(request)
        self._ledger.end(self._forget(name), answered_by=peer)
        # If the answers of several machines were collected, some time has passed, and
        # the other process may have released its relay of the sender: it is announced.
        collected = request.candidates is not None
        announced = None if collected else request.frame.sender.relay
        self._relays.on_found(peer, frame, announced, now)
        machine, module = frame.task.id.machine, frame.task.name
        here = machine == self._topology.me.machine
        entry = self._manager.table.find(
            module if here else f"ism://{machine}/{module}"
        )
        if entry is None:
            self.again.pop(name, None)  # so that it is last
            self._alarm.by(now + _AGAIN_S)
            self.again[name] = now + _AGAIN_S
        else:
            self._topology.todo += self._manager.any_machine.on_found(name, entry)

    def on_refusal(self, request: Request[Search], *, denied: bool) -> None:
        """Fail the messages of a search that the master has refused (BUS-FLOW-1).

        denied: True if this process may not send commands to the name.
        """
        name = self.name_of(request)
        self.end(name)
        error: BusError = not_granted("command", name)
        if not denied:
            error = BusFullError(
                "the list of searches of another process",
                constants.SEARCHES_PER_PROCESS,
                "searches",
            )
        self._manager.parked.fail(name, error, self._topology.todo)

    # Peers.

    def on_joined(self, peer: Peer) -> None:
        """Restart, for a process that joins again, the searches it had received."""
        for name, request in list(self.by_name.items()):
            if peer.key in request.lost:
                self._renumber(name)

    def on_process_lost(self, peer: Peer) -> None:
        """Note which searches a lost process had received."""
        for request in self.by_name.values():
            if peer.key in request.forwarded_to:
                request.lost.add(peer.key)

    def _renumber(self, name: str) -> None:
        """Restart a search under a number that no process has seen.

        A peer that lost this process has cancelled the search at the processes it
        forwarded the search to, and forwards it to them again. A late answer to the old
        number would end the new search at that peer. No process would then cancel the
        search at the processes that have received it since.
        """
        request = self._forget(name)
        self._ledger.end(request)
        frame = replace(request.frame, id=self._topology.new_request())
        again = Request(frame, request.machine, request.name, None, request.deadline)
        self._begin(name, again)


def _milliseconds(seconds: float) -> int:
    # Clamp first: infinity cannot be rounded.
    return round(min(max(0.0, seconds * 1000), NO_DEADLINE - 1))
