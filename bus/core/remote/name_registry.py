"""`NameRegistry`: the public names of the machine, and their announcement.

Slaves announce their public tasks to their master, which keeps the `UserRoutingTable`
and decides on the holder of each name (OPEN-3). The departure of a task is announced to
all processes (BUS-DEREG-6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.core.local.actions import Evict
from bus.core.remote.pending_names import PendingNames
from bus.core.remote.user_routing_table import User, UserRoutingTable
from bus.core.wire import Eliminate, Error, Export, Reason, Unexport
from bus.errors import NameTakenError, WireError
from bus.registration import Visibility
from bus.rights import not_granted

if TYPE_CHECKING:
    from bus.core.local.process_manager import ProcessManager
    from bus.core.local.routing_table import Entry
    from bus.core.peer.peer import Peer
    from bus.core.remote.topology import Topology
    from bus.registration import RegistrationId

__all__ = ["NameRegistry"]


class NameRegistry:
    """The public names of a machine, as far as this process needs them.

    users: the user routing table of the master; empty in a slave.
    pending_names: the names that the master of this slave has yet to confirm.
    """

    __slots__ = (
        "_manager",
        "_since_ns",
        "_sweep_at",
        "_sweeps",
        "_topology",
        "pending_names",
        "users",
    )

    def __init__(self, topology: Topology, manager: ProcessManager) -> None:
        self._topology: Final = topology
        self._manager: Final = manager
        self.users: Final = UserRoutingTable()
        self.pending_names: Final = PendingNames(topology)
        self._since_ns: Final[dict[RegistrationId, int]] = {}
        # `_sweeps`: True once there is a new master to which the others announce their
        # tasks. `_sweep_at`: when to drop tasks that were not announced, in seconds.
        self._sweeps = False
        self._sweep_at: float | None = None

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
        if self._topology.is_master:
            self.users.claim(self._user(task))
        elif (master := self._topology.master()) is not None:
            master.session.send_control(self._export(task))
            self.pending_names.ask(master, task)

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
            self._sweeps = True
        elif peer.machine != self._topology.me.machine:
            self._sweeps = True

    def on_process_lost(self, peer: Peer) -> None:
        """Announce the departure of the tasks of a lost process (BUS-DEREG-9).

        A lost master, also that of another machine, can no longer announce departures,
        so the tasks that it announced are in doubt.
        """
        abroad = peer.machine != self._topology.me.machine
        if abroad or not self._topology.is_master:
            here = self._topology.is_master
            self._manager.remote_tasks.doubt(peer.machine if here else None)
            self._sweeps, self._sweep_at = False, None
        for user in list(self.users.of(peer.key).values()):
            self.users.remove(user.id, user.name)
            self.on_eliminate(Eliminate(id=user.id, name=user.name), peer)

    def become_master(self) -> None:
        """Keep the user routing table from now on, beginning with own tasks."""
        self.users.clear()
        for task in self.own():
            self.users.claim(self._user(task))
        self.pending_names.become_master()
        self._sweeps = True

    # Time.

    def review(self, now: float) -> None:
        """Set the time by which a new master must confirm the tasks in doubt."""
        if self._sweeps:
            self._sweeps = False
            if self._manager.remote_tasks.doubtful:
                self._sweep_at = now + self._topology.limits.connect_timeout_s

    def next_deadline(self) -> float | None:
        """Return when tasks in doubt are dropped, in seconds; None for never."""
        return self._sweep_at

    def tick(self, now: float) -> None:
        """Drop the tasks that were not confirmed in time (BUS-DEREG-2)."""
        self.review(now)
        if self._sweep_at is None or self._sweep_at > now:
            return
        self._sweep_at = None
        topology = self._topology
        topology.todo += self._manager.remote_tasks.sweep(
            lambda machine: (
                not topology.is_master
                or machine == topology.me.machine
                or topology.master_of(machine) is not None
            )
        )

    # Frames of other processes.

    def on_link_open(self, peer: Peer) -> None:
        """Ask a master again, on a new link, for the outstanding verdicts."""
        if peer is self._topology.master():
            self.pending_names.on_link_open(peer)

    def on_pong(self, peer: Peer, number: int) -> None:
        """Note that a process has received all frames that were sent before a PING."""
        if peer is self._topology.master():
            self.pending_names.on_pong(number)

    def on_export(self, peer: Peer, frame: Export) -> bool:
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
        most = self._topology.limits.exports_per_process
        present = self.users.find(frame.name)
        more = present is None or present.owner != peer.key
        if present is not None and more and not peer.rights.whole:
            # The registration time is the slave's own claim, and a guest's claim is not
            # trusted.
            peer.session.send_control(Error(reason=Reason.NAME_TAKEN, id=frame.id))
            return False
        if more and self.users.count(peer.key) >= most:
            raise WireError(f"more than {most} tasks are exported")
        user = User(frame.id, frame.name, peer.key, frame.registered_ns)
        loser = self.users.claim(user)
        if loser is not None:
            self._give_up(loser)
        return loser is not user

    def on_unexport(self, peer: Peer, frame: Unexport) -> str | None:
        """Note that a name of a slave is no longer public; return the name."""
        user = self.users.of(peer.key).get(frame.id)
        if user is None:
            return None
        self.users.remove(user.id, user.name)
        return user.name

    def on_refusal(
        self, peer: Peer, number: RegistrationId, *, denied: bool = False
    ) -> None:
        """Evict a task of this process whose name the master gave to another task.

        denied: True if the master gives the name to no task of this process. Refusals
          of names by other processes than the master are ignored (BUS-SEC-7).
        """
        if peer is self._topology.master():
            self._evict(number, denied=denied)

    def _evict(self, number: RegistrationId, *, denied: bool = False) -> None:
        task = self._manager.table.by_id(number)
        if task is not None:
            self._since_ns.pop(number, None)
            self.pending_names.forget(task)
            name = task.name
            error = not_granted("register", name) if denied else NameTakenError(name)
            self._topology.todo.append(Evict(task, error))

    def on_eliminate(self, frame: Eliminate, origin: Peer) -> None:
        """Forward the departure of a task, and report it to this process's watches.

        `ControlFrames` has checked that the origin may end the task (BUS-SEC-7).
        """
        self.users.remove(frame.id, frame.name)
        self._eliminate(frame, origin)
        self._topology.todo += self._manager.remote_tasks.on_disappeared(frame.id)

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
        since = self._since_ns[task.id]
        return Export(id=task.id, name=task.name, registered_ns=since)

    def _user(self, task: Entry) -> User:
        since = self._since_ns[task.id]
        return User(task.id, task.name, self._topology.key, since)
