"""`NewAddresses`: where departed tasks go on at another machine (BUS-MOVE-9).

The master of the former machine tells the processes that search for the name. In each
of these, the messages that wait for the name fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.errors import MovedError, WireError
from bus.kernel.hooks import Hooks, Moves, Row
from bus.kernel.wire import Error, Reason
from bus.model.address import Address

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.remote_manager import RemoteManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.wire import Eliminate, RequestId, Search

__all__ = ["NewAddresses"]

_NAMES_MAX: Final = 1024


class NewAddresses(Moves):
    """The new addresses of moved tasks, as far as one process knows them.

    by_name: in a master, each new address of a task of its machine, and until when
      senders receive it, in seconds; at most `_NAMES_MAX`, the latest last.
    deferred: those told by a master, of names whose former holders still return their
      unread messages. These go first.
    """

    __slots__ = ("_alarm", "_remote", "by_name", "deferred")

    def __init__(self, remote: RemoteManager) -> None:
        self._remote: Final = remote
        timers = remote.topology.timers
        self._alarm: Final = timers.alarm(self._expire)
        self.by_name: Final[dict[str, tuple[str, float]]] = {}
        self.deferred: Final[dict[str, str]] = {}

    def begin(self) -> Hooks:
        """Answer searches from now on; return what the remote manager calls."""
        self._remote.resolver.own.moves = self
        return Hooks(
            frames=(Row(Reason.MOVED, self.on_answer),),
            on_emptied=(self.on_emptied,),
            on_eliminated=(self.on_eliminated,),
        )

    def _expire(self, now: float) -> float | None:
        """Drop the new addresses that no message can wait for any more."""
        for name, (_, until) in list(self.by_name.items()):
            if until > now:
                return until
            del self.by_name[name]
        return None

    # As slot of the resolver.

    def answers(self, peer: Peer, frame: Search) -> bool:
        # The machine where the task goes on gets a search for any machine, too.
        if frame.name not in self.by_name or frame.anywhere:
            return False
        self._send(peer, frame.id, self.by_name[frame.name][0])
        return True

    def fails(self, name: str) -> bool:
        address = self._address(name)
        if address is not None:
            self._fail(name, address)
        return address is not None

    def forget(self, name: str) -> None:
        self.by_name.pop(name, None)
        self.deferred.pop(name, None)

    # Departures.

    def on_eliminated(self, frame: Eliminate, held: bool, now: float) -> None:
        """Record where a task of another process of this machine goes on."""
        # A task may state where its own name goes on, and no other. A slave gets the
        # departures of other machines' tasks, too.
        here = frame.id.machine == self._remote.topology.me.machine
        if held and frame.moved_to and here:
            self._record(frame.name, frame.moved_to, now)

    def on_emptied(self, entry: Entry, now: float) -> None:
        """Record where a task of this process goes on.

        Its unread messages are parked by now, before those sent since.
        """
        if entry.moved_to:
            self._record(entry.name, entry.moved_to, now)
            if self._remote.manager.table.find(entry.name) is None:
                self._fail(entry.name, entry.moved_to)

    def _record(self, name: str, address: str, now: float) -> None:
        """Tell the senders of a departed task where it goes on, if this is the master.

        They are told when they search for it, as long as a message would wait for it.
        Senders that have searched already are told now.
        """
        topology, resolver = self._remote.topology, self._remote.resolver
        if not topology.is_master:
            return
        if self._remote.name_registry.users.find(name) is not None:
            return  # registered again
        self._keep(name, address, now + self._remote.manager.resolve_timeout_s)
        for request in resolver.ledger.of(topology.me.machine, name):
            if request.origin is not None and not request.anywhere:
                self._send(request.origin, request.frame.id, address)
                resolver.ledger.end(request)
        if name in resolver.own.by_name:
            self._fail(name, address)

    def _keep(self, name: str, address: str, until: float) -> None:
        """Keep a new address as the latest; if there are too many, drop the oldest."""
        self.by_name.pop(name, None)
        self._alarm.by(until)
        self.by_name[name] = (address, until)
        if len(self.by_name) > _NAMES_MAX:
            del self.by_name[next(iter(self.by_name))]

    # Searches.

    def on_answer(self, peer: Peer, error: Error, _: float) -> None:
        """Handle or forward the answer of a master that a task goes on elsewhere.

        Raises:
            WireError: the new address is on the machine where it was searched for.
        """
        topology, resolver = self._remote.topology, self._remote.resolver
        request, address = resolver.ledger.get(error.request), error.text
        if request is None or peer in topology.slaves():
            return
        if request.anywhere:
            return  # the machine where the task goes on is asked, too
        if request.forwarded_to.pop(peer.key, None) is None:
            return
        if Address.parse(address).machine == request.machine:
            raise WireError(f"ERROR has a new address on the same machine: {address!r}")
        if request.origin is not None:
            self._send(request.origin, request.frame.id, address)
            resolver.ledger.end(request)
            return
        self._fail(resolver.own.name_of(request), address)

    @staticmethod
    def _send(peer: Peer, number: RequestId, address: str) -> None:
        frame = Error(reason=Reason.MOVED, text=address, request=number)
        peer.session.send_control(frame)

    def _address(self, name: str) -> str | None:
        """Return where the task of a name goes on, as far as this process knows."""
        address = Address.parse(name)
        if address.machine in {None, self._remote.topology.me.machine}:
            found = self.by_name.get(address.module)
            if found is not None:
                return found[0]
        return self.deferred.get(name)

    def _fail(self, name: str, address: str) -> None:
        """End the search for a name, and fail the messages parked for it.

        If a former holder still returns unread messages, they fail only then.
        """
        topology, manager = self._remote.topology, self._remote.manager
        own = self._remote.resolver.own
        if name in own.by_name:
            own.end(name)
        if manager.departures.is_leaving(name):
            # `TaskAnnouncer.on_emptied` searches for the name again.
            self.deferred[name] = address
            return
        self.deferred.pop(name, None)
        error = MovedError(name, address, topology.me.bus)
        manager.parked.fail(name, error, topology.todo)
