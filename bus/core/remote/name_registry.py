"""`NameRegistry`: the public names of the machine, and their announcement.

Slaves announce their public tasks to their master, which keeps the `UserRoutingTable`
and decides on the holder of each name (OPEN-3). The departure of a task is announced to
all processes (BUS-DEREG-6).

A process that becomes master does not know the names that the previous master granted.
So it grants none until the other processes have joined it and announced their tasks, or
until they have had the time to. Until then it keeps the requested names, and
defers the PONGs that would grant them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core import constants
from bus.core.local.actions import Evict
from bus.core.remote.pending_names import PendingNames
from bus.core.remote.user_routing_table import User, UserRoutingTable
from bus.core.wire import Eliminate, Error, Export, Ping, Pong, Reason
from bus.errors import NameTakenError, WireError
from bus.registration import Visibility
from bus.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.remote.topology import Topology
    from bus.registration import Key, RegistrationId

__all__ = ["NameRegistry"]

# The time for other processes to join a new master. Each of them dials a master at
# least once a second until it has one.
_JOIN_S: Final = 1.0
# How long a slave without a master expects one, so that a verdict is worth waiting for.
_MASTER_S: Final = 2.0


class NameRegistry:
    """The public names of a machine, as far as this process needs them.

    users: the user routing table of the master; empty in a slave.
    pending_names: the names of this process that the master has yet to grant.
    """

    __slots__ = (
        "_alarm",
        "_awaited",
        "_claimants",
        "_decides_at",
        "_deferred_pongs",
        "_expects_until",
        "_manager",
        "_since_ns",
        "_topology",
        "pending_names",
        "users",
    )

    def __init__(self, topology: Topology, manager: ProcessManager) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self.users: Final = UserRoutingTable()
        self.pending_names: Final = PendingNames(topology)
        self._alarm: Final = topology.timers.alarm(self._on_due)
        self._since_ns: Final[dict[RegistrationId, int]] = {}
        # In a new master: when to decide on the requested names, in seconds; None if
        # each is decided at once. `_awaited`: the addresses of the processes that have
        # not announced their tasks. `_claimants`: the processes that request names.
        self._decides_at: float | None = None
        self._awaited: Final[set[str]] = set()
        self._claimants: Final[set[Key]] = set()
        self._deferred_pongs: list[tuple[Peer, int]] = []
        # In a slave without a master: until when it expects one, in seconds.
        self._expects_until = 0.0

    def check(self, name: str) -> None:
        """Check that a name is free, as far as this process knows.

        Raises:
            NameTakenError: another process holds the name.
        """
        user = self.users.find(name)
        if user is not None and user.owner != self._topology.key:
            raise NameTakenError(name)

    def on_registered(self, task: Entry, now: float) -> None:
        """Announce a public task of this process to the master (BUS-INIT-11)."""
        self._since_ns[task.id] = int(now * 1e9)
        is_master = self._topology.is_master
        if not is_master or self._decides_at is not None:
            self.pending_names.add(task)
        if is_master:
            self.users.claim(self._user(task))
        elif (master := self._topology.master()) is not None:
            master.session.send_control(self._export(task))
            self.pending_names.ask(master, task)

    def awaits_verdict(self, task: Entry) -> bool:
        """Return True if the verdict on the name of a new task will come soon."""
        if not self.pending_names.is_pending(task):
            return False
        topology = self._topology
        return (
            topology.is_master
            or topology.master() is not None
            or self._since_ns[task.id] < self._expects_until * 1e9
        )

    def on_departure(self, task: Entry, *, final: bool) -> None:
        """Announce the departure of a public task of this process (BUS-DEREG-2)."""
        self._since_ns.pop(task.id, None)
        self.pending_names.forget(task)
        self.users.remove(task.id, task.name)
        frame = Eliminate(
            id=task.id, name=task.name, final=final, moved_to=task.moved_to
        )
        self._eliminate(frame, None)

    def on_joined(self, peer: Peer) -> None:
        """Announce all public tasks to a new master (BUS-INIT-15)."""
        if peer is self._topology.master():
            for task in self.own():
                peer.session.send_control(self._export(task))

    def begin(self, now: float, others: Iterable[str]) -> None:
        """Start to decide as master, or to expect one; see `RemoteManager.begin`."""
        if self._topology.is_master:
            self._await(others, now)
        else:
            self._expects_until = now + _MASTER_S

    def on_process_lost(self, peer: Peer) -> None:
        """Announce the departure of the tasks of a lost process (BUS-DEREG-9)."""
        if not self._topology.is_master:
            self._expects_until = peer.since + _MASTER_S
        self._on_announced(peer)
        for user in list(self.users.of(peer.key).values()):
            self.users.remove(user.id, user.name)
            self.on_eliminate(Eliminate(id=user.id, name=user.name), peer)

    def become_master(self, now: float, others: Iterable[str]) -> None:
        """Keep the user routing table from now on, beginning with own tasks.

        others: as for `RemoteManager.become_master`.
        """
        self.users.clear()
        for task in self.own():
            self.users.claim(self._user(task))
        self._await(others, now)

    # The decisions of a new master.

    def _await(self, others: Iterable[str], now: float) -> None:
        """Decide on names once other processes have announced theirs, or in time."""
        self._awaited.update(others)
        self._awaited.difference_update(self._topology.addresses)
        if self._awaited:
            self._alarm.by(now + _JOIN_S)
            self._decides_at = now + _JOIN_S
        else:
            self._decide()

    def _on_announced(self, peer: Peer) -> None:
        """Note that a process has announced all its tasks, or is lost."""
        self._awaited.discard(peer.inside_address)
        if self._decides_at is not None and not self._awaited:
            self._alarm.by(0.0)  # with the next tick
            self._decides_at = 0.0

    def _decide(self) -> None:
        """Grant each name to the task that has it; from now on decide at once."""
        self._decides_at = None
        self._awaited.clear()
        self._claimants.clear()
        self.users.grant(*self.users.owners())
        self.pending_names.confirm_all()
        pongs, self._deferred_pongs = self._deferred_pongs, []
        for peer, number in pongs:
            peer.session.send_link_frame(Pong(number=number))

    def _on_due(self, now: float) -> float | None:
        """Decide on names as a new master, once it is time."""
        if self._decides_at is not None and self._decides_at <= now:
            self._decide()
        return self._decides_at

    # Frames of other processes.

    def on_link_open(self, peer: Peer) -> None:
        """Ask a master again, on a new link, for the outstanding verdicts.

        A new master asks a slave for a PONG, which follows its announcements.
        """
        if peer is self._topology.master():
            self.pending_names.on_link_open(peer)
        elif peer.inside_address in self._awaited:
            peer.session.send_link_frame(Ping(number=self._topology.new_ping()))

    def on_ping(self, peer: Peer, frame: Ping, _: float) -> None:
        """Answer a PING; in a new master only once it decides on names."""
        if peer.key in self._claimants:
            self._deferred_pongs.append((peer, frame.number))
        else:
            peer.session.send_link_frame(Pong(number=frame.number))

    def on_pong(self, peer: Peer, number: int) -> None:
        """Note that a process has received all frames that were sent before a PING."""
        if peer is self._topology.master():
            self.pending_names.on_pong(number)
        self._on_announced(peer)

    def on_export(self, peer: Peer, frame: Export, now: float) -> bool:
        """Record the name of a slave's task; return whether the slave holds it now.

        Raises:
            WireError: the slave has as many names as it may have (BUS-FLOW-1).
        """
        if not self._topology.is_master:
            return False
        if not peer.rights.may_register(frame.name, peer.key[1]):
            self._topology.complain(
                f"{peer.name} may not register {frame.name!r}: access is denied"
            )
            peer.session.send_control(Error(reason=Reason.ACCESS, id=frame.id))
            return False
        most = constants.PUBLIC_TASKS_PER_PROCESS
        present = self.users.find(frame.name)
        more = present is None or present.owner != peer.key
        if more and self.users.count(peer.key) >= most:
            raise WireError(f"more than {most} tasks are exported")
        # The registration time is the slave's own claim, and a guest's claim is not
        # trusted. Nor is it trusted that a master has granted it the name.
        whole = peer.rights.whole
        since_ns = frame.registered_ns if whole else int(now * 1e9)
        user = User(
            *(frame.id, frame.name, peer.key, since_ns),
            granted=whole and not frame.asks,
        )
        loser = self.users.claim(user)
        if loser is not None:
            self._give_up(loser)
        if self._decides_at is not None:
            self._claimants.add(peer.key)
        else:
            self.users.grant(frame.name)
        return loser is not user

    def on_refusal(self, peer: Peer, error: Error, _: float) -> None:
        """Evict a task of this process whose name the master gave to another task.

        Or, if access is denied: the master gives it to no task of this process.
        Refusals by other processes than the master are ignored (BUS-SEC-7).
        """
        if error.id is not None and peer is self._topology.master():
            self._evict(error.id, denied=error.reason is Reason.ACCESS)

    def _evict(self, number: RegistrationId, *, denied: bool = False) -> None:
        task = self._manager.table.by_id(number)
        if task is not None:
            self._since_ns.pop(number, None)
            self.pending_names.forget(task)
            name = task.name
            error = not_granted("register", name) if denied else NameTakenError(name)
            self._topology.todo.append(Evict(task, error))

    def on_eliminate(self, frame: Eliminate, origin: Peer) -> bool:
        """Forward the departure of a task.

        `ControlFrames` has checked that the origin may end the task (BUS-SEC-7).

        Return True if the task held its name, as far as this process knows.
        """
        held = self.users.remove(frame.id, frame.name)
        self._eliminate(frame, origin)
        return held

    def may_have(self, peer: Peer, name: str) -> bool:
        """Return True if a process may hold a name without another known holder."""
        if not peer.rights.may_register(name, peer.key[1]):
            return False
        user = self.users.find(name) if peer in self._topology.slaves() else None
        return user is None or user.owner == peer.key

    def _eliminate(self, frame: Eliminate, origin: Peer | None) -> None:
        for each in self._topology.others(origin):
            each.session.send_control(frame)

    def _give_up(self, user: User) -> None:
        """Notify the owner of a name that it belongs to another task."""
        if user.owner == self._topology.key:
            self._evict(user.id)
        elif (peer := self._topology.peers.get(user.owner)) is not None:
            peer.session.send_control(Error(reason=Reason.NAME_TAKEN, id=user.id))

    def own(self) -> list[Entry]:
        """Return the public tasks of this process."""
        return [
            task
            for task in self._manager.table
            if not task.remote and task.visibility is Visibility.PUBLIC
        ]

    def _export(self, task: Entry) -> Export:
        return Export(
            id=task.id,
            name=task.name,
            registered_ns=self._since_ns[task.id],
            asks=self.pending_names.is_pending(task),
        )

    def _user(self, task: Entry) -> User:
        return User(
            *(task.id, task.name, self._topology.key, self._since_ns[task.id]),
            granted=not self.pending_names.is_pending(task),
        )
