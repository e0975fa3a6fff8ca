"""`Relays`: the relays of tasks of other processes, and their claims to names.

A relay is created when its task is searched for, sends a request, or is introduced by
its process. A look-up by name finds it until another task takes the name or its task
deregisters. Its remaining messages then go to the next holder of the name, before all
messages sent since.

`Proxies` are tasks of another bus that exchange messages with processes of this one. In
a process that has joined two buses, a task of one bus may exchange messages with tasks
of the other (BUS-NAME-5). Other processes identify a task by a number of the common
bus, and a task of another bus has none there. It therefore gets a proxy: a registration
on this bus that no look-up finds. The process sends the messages of the task in the
name of its proxy, and delivers answers to the proxy to the task.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, Final

from bus.errors import WireError
from bus.kernel import constants
from bus.kernel.peer.relay import AUDIENCE, Relay, RelayState
from bus.kernel.tasks.actions import Dial, Vacate
from bus.kernel.tasks.routing_table import Entry
from bus.kernel.wire import LinkKind
from bus.model.address import Address
from bus.model.registration import Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Audience
    from bus.kernel.topology import Topology
    from bus.kernel.wire import AddRelay, Characteristics
    from bus.model.message import Incoming
    from bus.model.registration import Key

__all__ = ["Proxies", "Proxy", "Relays"]


class Proxy(Entry, eq=False, kw_only=True):
    """The registration of a task of another bus on this one.

    It has no host, so no message is posted to it. No look-up finds it, although its
    ``table`` is set: a proxy counts as registered, so that it can send.

    task: the task's own registration.
    """

    task: Entry


class Proxies:
    """The proxies in one process, by the registration of their tasks.

    The lock of the exchange guards them. A task has a proxy from its first message to
    another process of this bus until `end`, which follows its deregistration from its
    own bus.
    """

    __slots__ = ("_by_task", "_manager", "_topology")

    def __init__(self, topology: Topology, manager: ProcessManager) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self._by_task: Final[dict[Entry, Proxy]] = {}

    def __len__(self) -> int:
        return len(self._by_task)

    def sender(self, task: Entry) -> Entry:
        """Return the registration in whose name a task of this process sends here.

        That is the registration of the task itself, or its proxy, which this call
        creates if necessary. If the task has deregistered from its bus, its `end` may
        precede this call. Then the new proxy is not kept and has no table, like a task
        of this bus that has deregistered.
        """
        if task.address.bus == self._topology.me.bus:
            return task
        proxy = self._by_task.get(task)
        if proxy is None:
            machine, bus = self._topology.me.machine, self._topology.me.bus
            proxy = Proxy(
                id=self._manager.new_id(),
                name=task.name,
                visibility=Visibility.PRIVATE,
                address=Address(task.name, machine=machine, bus=bus),
                host=None,
                mailbox=None,
                task=task,
            )
            if task.table is not None:
                proxy.table = self._manager.table
                self._by_task[task] = proxy
        return proxy

    def end(self, task: Entry) -> Proxy | None:
        """Remove and return the proxy of a task; None if it has none."""
        return self._by_task.pop(task, None)


class Relays:
    """The relays in this process, and the relay numbers of its own tasks.

    host: the host of relays, for their senders; relay_account: creates the account of
      each relay, which those senders use.
    proxies: the proxies of tasks of other buses, which use relays of this one.
    on_changed: called for each relay just released, or confirmed by its own process.
      The `IdleRelays` provide it.
    """

    __slots__ = (
        "_alarm",
        "_host",
        "_manager",
        "_numbers",
        "_relay_account",
        "_superseding",
        "_tasks",
        "_topology",
        "_unconfirmed",
        "on_changed",
        "proxies",
    )

    def __init__(
        self,
        topology: Topology,
        manager: ProcessManager,
        host: object,
        relay_account: Callable[[Characteristics], object],
    ) -> None:
        self._topology: Final = topology
        self._alarm: Final = topology.timers.alarm(self._expire)
        # The relay that `supersede` hides, or hid when an interrupt came.
        self._superseding: Entry | None = None
        self._manager: Final = manager
        self._host: Final = host
        self._relay_account: Final = relay_account
        self.proxies: Final = Proxies(topology, manager)
        self._numbers = itertools.count(AUDIENCE + 1)
        # Local tasks that other processes may know, by relay number.
        self._tasks: Final[dict[int, Entry]] = {}
        self.on_changed: Callable[[Relay], None]
        # The provisional relays, in the order of their creation. Those that were
        # confirmed or released since leave it in `_drop_settled`.
        self._unconfirmed: Final[deque[Relay]] = deque()

    # Local tasks.

    def new_number(self) -> int:
        """Return an unused relay number."""
        return next(self._numbers)

    def task(self, relay: int) -> Entry | None:
        """Return the local task with a relay number; None if there is none."""
        return self._tasks.get(relay)

    def forget_task(self, task: Entry) -> None:
        """Drop the relay number of a deregistered task."""
        self._tasks.pop(task.relay, None)

    def with_number(self, task: Entry) -> Entry:
        """Assign a local task its relay number, unless it has one; return the task.

        A task of another bus has a relay number of that bus, so it must not come here:
        see `Proxies.sender`.
        """
        assert task.address.bus == self._topology.me.bus
        if not task.relay:
            task.relay = self.new_number()
            self._tasks[task.relay] = task
        return task

    def introduce(self, tasks: Iterable[Entry]) -> None:
        """Introduce public tasks to the master now, if ``eager_relays`` is set."""
        master = self._topology.master()
        if master is not None and self._topology.config.eager_relays:
            for task in tasks:
                master.announce(self.with_number(task), task.relay)

    # Remote tasks.

    def peer_for(
        self, key: Key, incarnation: int, now: float, user: int | None = None
    ) -> Peer | None:
        """Return the peer for an incarnation of a process; None for an older one.

        user: the owner of the process, as the master reports; a guest that has taken
          the process's place is dropped.
        """
        peer = self._topology.peers.get(key)
        if peer is not None and peer.is_reported_as_other(user):
            self._topology.lose(peer, now)
            peer = None
        if peer is not None:
            if peer.session.incarnation == incarnation:
                return peer
            if peer.session.incarnation > incarnation:
                return None
            self._topology.lose(peer, now)
        peer = self._topology.add_peer(key, incarnation, now)
        peer.user = user
        return peer

    def add_sender(
        self, key: Key, task: Characteristics, now: float, *, way: Peer
    ) -> bool:
        """Create the relay for the answer to a searching task (BUS-ROUTE-9).

        Returns False if there is none: the task has deregistered, or its process
        already has the maximum number of relays.
        """
        peer = self.peer_for(key, task.incarnation, now, task.user)
        if peer is None:
            return False
        relay = self.add_relay(peer, task, now, provisional=way is not peer)
        if relay is None:
            return False
        relay.revoke_dismissal()  # because of the answer, the searching process uses it
        return True

    def add_relay(
        self,
        peer: Peer,
        task: Characteristics,
        now: float,
        *,
        provisional: bool = False,
        address: Address | None = None,
    ) -> Relay | None:
        """Create a task's relay, once (BUS-RELAY-3); None if it has deregistered.

        address: that of the task, if the caller has made it.

        provisional: True if a third party reported the task, not its own process on a
          link to this one. The result is then also None if that process already has
          the maximum number of relays (BUS-FLOW-1).

        Raises:
            WireError: the process itself introduced the task, beyond that maximum.
        """
        relay = peer.relays.get(task.relay)
        news = not provisional and (relay is None or relay.provisional)
        if relay is None:
            if peer.has_departed(task.relay):
                return None
            if len(peer.relays) >= (most := constants.RELAYS_PER_PROCESS):
                if provisional:
                    return None
                raise WireError(f"more than {most} tasks need relays")
            relay = Relay(peer, task, now, config=self._topology.config)
            machine, own = task.id.machine, self._topology.me.machine
            address = address or self._topology.address(machine, task.name)
            relay.entry = Entry(
                id=task.id,
                name=task.name if machine == own else f"ism://{machine}/{task.name}",
                visibility=task.visibility,
                address=address,
                host=self._host,
                mailbox=relay,
                remote=True,
                overflow=task.overflow,
            )
            relay.client = self._relay_account(task)
            relay.provisional = provisional
            if provisional:
                self._alarm.by(self._expires_at(relay))
            peer.relays[task.relay] = relay
            if provisional:
                self._unconfirmed.append(relay)
        elif not provisional:
            relay.provisional = False
        if news:
            self.on_changed(relay)
        private = Visibility.PRIVATE in {task.visibility, relay.entry.visibility}
        if not (private or task.closed):
            self._name(relay)
        return relay

    def _name(self, relay: Relay) -> None:
        """Let look-ups by name find a relay, in place of an earlier one."""
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
        entry.host = self._host
        self._topology.todo += self._manager.add_relay(entry)

    def supersede(self, entry: Entry) -> None:
        """Hide a relay from look-ups, since another relay has its name.

        After an interrupt, `restore` continues.
        """
        relay: Relay = entry.mailbox
        # Superseded a second time while messages from the first time are still under
        # way: each departure must be concluded.
        again = relay.state is RelayState.SUPERSEDED
        concluded = (Vacate(entry, (), False),) if again else ()
        self._superseding = entry
        self._manager.leave(entry, self._topology.todo)
        # No call between the end of that one and these lines: an interrupt finds all
        # changes or none.
        self._topology.todo += concluded
        entry.host = None
        relay.state = RelayState.SUPERSEDED
        relay.opened = True
        self._end_superseding(relay)

    def _end_superseding(self, relay: Relay) -> None:
        relay.withdraw()
        self.release_drained(relay)
        self._superseding = None

    def restore(self) -> None:
        """Continue `supersede` after an interrupt; does nothing if there was none.

        Otherwise the later holders of the name would wait for this one without end.
        """
        entry = self._superseding
        if entry is None:
            return
        relay: Relay = entry.mailbox
        if self._manager.departures.is_begun(entry):
            self.supersede(entry)
        elif relay.state is RelayState.SUPERSEDED:
            self._end_superseding(relay)
        else:  # nothing is changed
            self._superseding = None

    def release_drained(self, relay: Relay) -> None:
        """Let later messages pass a superseded relay with no command under way."""
        if relay.state is not RelayState.SUPERSEDED:
            return
        if any(outbound_run.is_command for _, outbound_run in relay.unacked):
            return
        entry = relay.entry
        back = self._manager.table.find(entry.name) is entry
        withdrawn = tuple(relay.withdrawn)
        vacate = (Vacate(entry, withdrawn, False),)
        # No call between these lines: an interrupt finds all changes or none.
        relay.state = RelayState.NAMED if back else RelayState.UNNAMED
        relay.withdrawn = []
        self._topology.todo += vacate
        relay.counters.end("returned", len(withdrawn))

    def on_found(
        self,
        way: Peer,
        frame: AddRelay,
        announced: int | None,
        now: float,
        address: Address | None = None,
    ) -> None:
        """Handle the answer to a search of this process (BUS-ROUTE-6, BUS-ROUTE-9).

        announced, address: the sender's relay number that the search announced, and
          the address of the task, if there are any.
        """
        task = frame.task
        key = (task.id.machine, task.id.process)
        if not frame.addresses and key != way.key:
            raise WireError(f"ADD_RELAY of {key} has no address, but was forwarded")
        peer = self.peer_for(key, task.incarnation, now, task.user)
        if peer is None:
            return
        if frame.addresses:
            peer.addresses = frame.addresses
        elif announced is not None:
            peer.announced.add(announced)  # the search introduced it, on this link
        self.add_relay(peer, task, now, provisional=way is not peer, address=address)
        self.dial(peer)

    def dial(self, peer: Peer) -> None:
        """Dial the peer for a data link if it has none and its address is known."""
        if peer.session.link is None and peer.addresses and not peer.dialling:
            peer.dialling = True
            self._topology.todo.append(Dial(peer.key, LinkKind.DATA, peer.addresses))

    def audience(self, relay: Relay) -> tuple[Audience, ...]:
        """Return the local subscribers of a remote task; none if it is private."""
        if relay.entry.visibility is Visibility.PRIVATE:
            return ()
        address: Address = relay.entry.address
        return self._manager.audiences.here(address.module, address.machine)

    def is_used(self, relay: Relay) -> bool:
        """Return True if a local task uses the relay or subscribes to its task."""
        return bool(relay.users or self.audience(relay))

    # Departures.

    def on_eliminate(self, registration: object) -> None:
        """Release the relay of a deregistered task if only third parties reported it.

        Otherwise, and if any message to it is under way, its own process reports the
        last extraction. Messages from the task may also still be on their way.
        """
        for relay in self._unconfirmed:
            if (
                relay.entry.id == registration
                and _is_provisional(relay)
                and not relay.unacked
            ):
                self._forget(relay, relay.take_unsent())

    def release(self, relay: Relay, again: list[Incoming], *, final: bool) -> None:
        """Release a relay; its remaining commands go elsewhere."""
        self.on_changed(relay)
        entry: Entry = relay.entry
        present = self._manager.table.find(entry.name)
        state, relay.state = relay.state, RelayState.UNNAMED
        entry.host = None
        if state is RelayState.SUPERSEDED:  # conclude its earlier departure
            self._vacate(entry, again, final=final)
            again = []
        if present is entry:
            self._manager.leave(entry, self._topology.todo)
            self._vacate(entry, again, final=final)

    def _vacate(self, entry: Entry, messages: list[Incoming], *, final: bool) -> None:
        self._topology.todo.append(Vacate(entry, tuple(messages), final))

    def _forget(self, relay: Relay, again: list[Incoming]) -> None:
        """Release a relay that only third parties have reported."""
        relay.peer.remove_relay(relay.number)
        self.release(relay, again, final=False)

    # Time. An unconfirmed relay expires unless its own process confirms it in time: the
    # task may have deregistered in between, when no peer was left to report that.

    def _expire(self, now: float) -> float | None:
        """Release the unconfirmed relays whose time has passed.

        Return when the next one expires, in seconds; None for never.
        """
        self._drop_settled()
        again_at = math.inf
        for relay in self._unconfirmed:
            if self._expires_at(relay) > now:  # and that of all later ones
                return min(again_at, self._expires_at(relay))
            if self.may_expire(relay):
                self._forget(relay, [])
            elif _is_provisional(relay):  # its last message ends without a call here
                again_at = now + constants.LINK_LINGER_S
        return None if again_at == math.inf else again_at

    @staticmethod
    def may_expire(relay: Relay) -> bool:
        """Return True if a relay is unconfirmed, and holds no message."""
        return _is_provisional(relay) and relay.opened and not relay.busy

    def _expires_at(self, relay: Relay) -> float:
        return relay.since + self._topology.config.connect_timeout_s

    def _drop_settled(self) -> None:
        """Drop the first relays that are confirmed or released.

        Only these: others cost nothing until they are first.
        """
        unconfirmed = self._unconfirmed
        while unconfirmed and not _is_provisional(unconfirmed[0]):
            unconfirmed.popleft()


def _is_provisional(relay: Relay) -> bool:
    """Return True if a relay exists, and its process has not confirmed it."""
    return relay.provisional and relay.peer.relays.get(relay.number) is relay


def _is_newer(entry: Entry, than: Entry) -> bool:
    """Return True if both are of one process and `entry` was registered later."""
    mine, other = entry.id, than.id
    same = (mine.machine, mine.process) == (other.machine, other.process)
    return same and mine.number > other.number
