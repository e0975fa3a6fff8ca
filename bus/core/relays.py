"""`Relays`: what stands here for tasks of other processes, and who of them has a name.

A relay is made when a task is searched for, or asks, or is spoken of by its process. It
is found by its name until that belongs to somebody else, or its task has left; then
what it still has goes to whoever is next, before all that was sent since.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from bus.core.actions import Dial, Vacate
from bus.core.relay import AUDIENCE, Relay, RelayState
from bus.core.routing_table import Entry, Visibility
from bus.core.wire import LinkKind
from bus.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bus.address import Address
    from bus.core.neighbours import Neighbours
    from bus.core.peer import Key, Peer
    from bus.core.process_manager import ProcessManager
    from bus.core.routing_table import Audience
    from bus.core.wire import AddRelay, Characteristics
    from bus.message import Incoming

__all__ = ["Relays"]


class Relays:
    """The relays of one process, and the numbers by which its own tasks are known.

    place: what hosts relays, for whoever posts to them; stand_in: makes what each is
      to these.
    """

    __slots__ = (
        "_changed",
        "_manager",
        "_neighbours",
        "_numbers",
        "_place",
        "_stand_in",
        "_tasks",
    )

    def __init__(
        self,
        neighbours: Neighbours,
        manager: ProcessManager,
        place: object,
        stand_in: Callable[[Characteristics], object],
    ) -> None:
        self._neighbours: Final = neighbours
        self._manager: Final = manager
        self._place: Final = place
        self._stand_in: Final = stand_in
        self._numbers = itertools.count(AUDIENCE + 1)
        # Tasks of this process that others may know, by their relay numbers.
        self._tasks: Final[dict[int, Entry]] = {}
        # Those of which their processes have just spoken, and those just released.
        self._changed: list[Relay] = []

    # Tasks of this process.

    def new_number(self) -> int:
        """Return a number by which nobody was ever known."""
        return next(self._numbers)

    def task(self, relay: int) -> Entry | None:
        """Return who is known by a number."""
        return self._tasks.get(relay)

    def forget_task(self, task: Entry) -> None:
        """Let nobody be known by the number of a task that has left."""
        self._tasks.pop(task.relay, None)

    def known(self, task: Entry) -> Entry:
        """Give a task of this process the number by which others know it."""
        if not task.relay:
            task.relay = self.new_number()
            self._tasks[task.relay] = task
        return task

    # Tasks of others.

    def peer_for(
        self, key: Key, incarnation: int, now: float, user: int | None = None
    ) -> Peer | None:
        """Return a life of another process; None for one that is over.

        user: whose it is, as the master says; a guest that has taken its place goes.
        """
        peer = self._neighbours.peers.get(key)
        if peer is not None and peer.is_told_to_be_other(user):
            self._neighbours.lose(peer, now)
            peer = None
        if peer is not None:
            if peer.session.incarnation == incarnation:
                return peer
            if peer.session.incarnation > incarnation:
                return None
            self._neighbours.lose(peer, now)
        peer = self._neighbours.meet(key, incarnation, now)
        peer.user = user
        return peer

    def sender_known(
        self, key: Key, task: Characteristics, now: float, *, way: Peer
    ) -> bool:
        """Let a task that searches be answered (BUS-ROUTE-9); False if it has left."""
        peer = self.peer_for(key, task.incarnation, now, task.user)
        if peer is None:
            return False
        relay = self.add_relay(peer, task, now, hearsay=way is not peer)
        if relay is None:
            return False
        relay.promise()  # who searches counts on it by the answer
        return True

    def add_relay(
        self, peer: Peer, task: Characteristics, now: float, *, hearsay: bool = False
    ) -> Relay | None:
        """Let something stand for a task here, once (BUS-RELAY-3); None if it left.

        hearsay: it was not its own process that said so, on a link to this one; then
          there is none either if that has as many as it may (BUS-FLOW-1).

        Raises:
            WireError: it was, and has.
        """
        relay = peer.relays.get(task.relay)
        news = not hearsay and (relay is None or relay.provisional)
        if relay is None:
            if peer.has_departed(task.relay):
                return None
            limits = self._neighbours.limits
            if len(peer.relays) >= (most := limits.relays_per_process):
                if hearsay:
                    return None
                raise WireError(f"more than {most} tasks are to have relays")
            relay = Relay(peer, task, now, limits=limits)
            machine, own = task.id.machine, self._neighbours.me.machine
            address = self._neighbours.address(machine, task.name)
            relay.entry = Entry(
                id=task.id,
                name=task.name if machine == own else f"ism://{machine}/{task.name}",
                visibility=task.visibility,
                address=address,
                place=self._place,
                box=relay,
                remote=True,
                overflow=task.overflow,
            )
            relay.client = self._stand_in(task)
            relay.provisional = hearsay
            peer.relays[task.relay] = relay
        elif not hearsay:
            relay.provisional = False
        if news:
            self._changed.append(relay)
        private = Visibility.PRIVATE in {task.visibility, relay.entry.visibility}
        if not (private or task.closed):
            self._name(relay)
        return relay

    def _name(self, relay: Relay) -> None:
        """Let it be found by its name, in the place of another relay that was."""
        entry = relay.entry
        if self._manager.table.by_id(entry.id) not in {None, entry}:
            return  # its process gives one registration two numbers: the first counts
        present = self._manager.table.find(entry.name)
        if present is entry or (present is not None and not present.remote):
            return
        if present is not None:
            if _is_newer(present, entry):
                return
            self.supersede(present)
        if relay.state is RelayState.UNNAMED:
            relay.state = RelayState.NAMED
        relay.opened = False
        entry.place = self._place
        self._neighbours.todo += self._manager.add_relay(entry)

    def supersede(self, entry: Entry) -> None:
        """Let a relay be found no more, since another one has its name."""
        relay: Relay = entry.box
        if not relay.opened:  # what was sent before all that is posted to it
            first = self._manager.parked.take(entry.name)
            relay.withdrawn += first
            relay.books.post(len(first))
        self._neighbours.todo += self._manager.leave(entry)
        entry.place = None
        if relay.state is RelayState.SUPERSEDED:
            # For the second time, and what it had the first time is still under way:
            # each time that it leaves is to end.
            self._vacate(entry, [], final=False)
        relay.state = RelayState.SUPERSEDED
        relay.opened = True
        relay.withdraw()
        self.drained(relay)

    def drained(self, relay: Relay) -> None:
        """Let those go on who wait behind a relay, if nothing of it is under way."""
        if relay.state is not RelayState.SUPERSEDED:
            return
        if any(parcel.is_command for _, parcel in relay.unacked):
            return
        found = self._manager.table.find(relay.entry.name)
        back = found is relay.entry
        relay.state = RelayState.NAMED if back else RelayState.UNNAMED
        self._vacate(relay.entry, relay.take_withdrawn(), final=False)

    def found(
        self, way: Peer, frame: AddRelay, announced: int | None, now: float
    ) -> None:
        """Take an answer to a search of this process (BUS-ROUTE-6, BUS-ROUTE-9)."""
        task = frame.task
        key = (task.id.machine, task.id.process)
        if not frame.addresses and key != way.key:
            raise WireError(f"ADD_RELAY of {key} has no address, and came by another")
        peer = self.peer_for(key, task.incarnation, now, task.user)
        if peer is None:
            return
        if frame.addresses:
            peer.addresses = frame.addresses
        elif announced is not None:
            peer.announced.add(announced)  # by the search, on this very link
        self.add_relay(peer, task, now, hearsay=way is not peer)
        self.dial(peer)

    def dial(self, peer: Peer) -> None:
        """Make a link for messages, if there is none and it is known where to."""
        if peer.session.link is None and peer.addresses and not peer.dialling:
            peer.dialling = True
            self._neighbours.todo.append(Dial(peer.key, LinkKind.DATA, peer.addresses))

    def audience(self, relay: Relay) -> tuple[Audience, ...]:
        """Return who hears a task of another process, here; nobody a private one."""
        if relay.entry.visibility is Visibility.PRIVATE:
            return ()
        address: Address = relay.entry.address
        return self._manager.subscriptions.audience(address.module, address.machine)

    def is_used(self, relay: Relay) -> bool:
        """Whether a task here wrote to its task, or got anything of it; or hears it."""
        return bool(relay.users or self.audience(relay))

    def take_changed(self) -> list[Relay]:
        """Take out those made, confirmed by their own processes, or released since."""
        changed, self._changed = self._changed, []
        return changed

    # Departures.

    def eliminated(self, registration: object) -> None:
        """Release the relay of a task that is gone, if it was known by hearsay.

        Otherwise, and where anything is under way to it, its own process says what it
        took; and what it has sent may still be on its way.
        """
        for peer in self._neighbours.peers.values():
            for relay in list(peer.relays.values()):
                if (
                    relay.entry.id == registration
                    and relay.provisional
                    and not relay.unacked
                ):
                    del peer.relays[relay.number]
                    self.release(relay, relay.take_unsent(), final=False)

    def release(self, relay: Relay, again: list[Incoming], *, final: bool) -> None:
        """Let a relay stand for nobody any more; what it has left goes elsewhere."""
        self._changed.append(relay)
        entry: Entry = relay.entry
        present = self._manager.table.find(entry.name)
        state, relay.state = relay.state, RelayState.UNNAMED
        entry.place = None
        if state is RelayState.SUPERSEDED:  # it left before
            self._vacate(entry, again, final=final)
            again = []
        if present is entry:
            self._neighbours.todo += self._manager.leave(entry)
            self._vacate(entry, again, final=final)

    def _vacate(self, entry: Entry, messages: list[Incoming], *, final: bool) -> None:
        self._neighbours.todo.append(Vacate(entry, tuple(messages), final))

    def forgotten_at(self, relay: Relay) -> float | None:
        """Return when a relay known by hearsay goes, in seconds; None for never.

        Unless its own process confirms it by then: its task may have left in between,
        and nobody was there to say so.
        """
        if not relay.provisional or relay.busy or not relay.opened:
            return None
        return relay.since + self._neighbours.limits.connect_timeout_s


def _is_newer(entry: Entry, than: Entry) -> bool:
    """Whether of two tasks of one process this one registered later."""
    mine, other = entry.id, than.id
    same = (mine.machine, mine.process) == (other.machine, other.process)
    return same and mine.number > other.number
