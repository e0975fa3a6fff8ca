"""`NameRegistry`: the public names of the machine, and their announcement.

Slaves announce their public tasks to their master, which keeps the `UserRoutingTable`
and decides on the holder of each name (OPEN-3). The departure of a task is announced to
all processes (BUS-DEREG-6).

A process that becomes master does not know the names that the previous master granted.
So it grants none until the other processes have joined it and announced their tasks, or
until they have had the time to. Until then it keeps the requested names, and defers the
PONGs that would grant them.

`PendingNames` has the names of this process that no master has granted yet (OPEN-3). In
a slave each EXPORT is followed by a PING. A link keeps the order of its frames, so the
master's refusal of a name arrives before the PONG. The PONG grants the name. Rejected:
an answer to each EXPORT. A master that receives all exports again would send as many
answers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from bus.errors import NameTakenError, WireError
from bus.kernel import constants
from bus.kernel.tasks.actions import Confirm, Evict
from bus.kernel.wire import Eliminate, Error, Export, Ping, Pong, Reason
from bus.model.registration import Key, RegistrationId, Visibility
from bus.model.rights import not_granted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.process_manager import ProcessManager
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.topology import Topology

__all__ = ["NameRegistry", "PendingNames", "User", "UserRoutingTable"]


class User(Struct, frozen=True):
    """One public task.

    owner: the process that hosts it.
    granted: True once a master has granted it the name (OPEN-3).
    """

    id: RegistrationId
    name: str
    owner: Key
    registered_ns: int
    granted: bool

    def goes_before(self, other: User) -> bool:
        """Return True if this task has the name rather than the other one.

        A task that was granted the name precedes one that requests it (OPEN-3). Of two
        of the same kind, the earlier registration precedes (BUS-MOVE-7).
        """
        if self.granted is not other.granted:
            return self.granted
        mine = (self.registered_ns, self.owner, self.id.number)
        return mine < (other.registered_ns, other.owner, other.id.number)


class UserRoutingTable:
    """The user routing table: the holder of each name on a machine.

    Invariant: names are unique. Of the tasks that claim a name, the one that precedes
    all others holds it; see `User.goes_before`.
    """

    __slots__ = ("_by_name", "_by_owner")

    def __init__(self) -> None:
        self._by_name: Final[dict[str, User]] = {}
        self._by_owner: Final[dict[Key, dict[RegistrationId, User]]] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    def owners(self) -> dict[str, Key]:
        """Return the process that hosts each name."""
        return {name: user.owner for name, user in self._by_name.items()}

    def find(self, name: str) -> User | None:
        """Return the holder of a name, or None."""
        return self._by_name.get(name)

    def claim(self, user: User) -> User | None:
        """Claim a name for a task; return the loser, this task or another, or None."""
        present = self._by_name.get(user.name)
        if present is None:
            self._put(user)
            return None
        if present.id != user.id and not user.goes_before(present):
            return user
        self.remove(present.id, present.name)
        self._put(user)
        return None if present.id == user.id else present

    def grant(self, *names: str) -> None:
        """Grant names to the tasks that hold them."""
        for name in names:
            self._by_name[name] = replace(self._by_name[name], granted=True)

    def _put(self, user: User) -> None:
        own = self._by_owner.setdefault(user.owner, {})
        # No call between these lines: an interrupt finds both changes or none.
        self._by_name[user.name] = user
        own[user.id] = user

    def remove(self, number: RegistrationId, name: str) -> bool:
        """Remove a registration, but no newer one of its name (BUS-DEREG-7)."""
        present = self._by_name.get(name)
        if present is None or present.id != number:
            return False
        own = self._by_owner[present.owner]
        last = len(own) == 1
        # No call between these lines: an interrupt finds all changes or none.
        del self._by_name[name]
        if last:
            del self._by_owner[present.owner]
        else:
            del own[number]
        return True

    def count(self, owner: Key) -> int:
        """Return the number of tasks of one process."""
        return len(self.of(owner))

    def of(self, owner: Key) -> Mapping[RegistrationId, User]:
        """Return the tasks of one process, by id."""
        return self._by_owner.get(owner, {})

    def clear(self) -> None:
        """Remove all tasks."""
        self._by_name.clear()
        self._by_owner.clear()


class PendingNames:
    """Public tasks of this process that wait for the master's verdict.

    Invariant: if this process has a link with a master, that master was sent the EXPORT
    of each of these tasks, followed by its PING.
    """

    __slots__ = ("_asked", "_topology")

    def __init__(self, topology: Topology) -> None:
        self._topology: Final = topology
        # The number of the PING that followed the EXPORT of each task, in rising order;
        # 0 before the first one.
        self._asked: Final[dict[Entry, int]] = {}

    def is_pending(self, task: Entry) -> bool:
        """Return True if the master has yet to grant the name of a task."""
        return task in self._asked

    def tasks(self) -> list[Entry]:
        """Return the tasks whose names the master has yet to grant."""
        return list(self._asked)

    def add(self, task: Entry) -> None:
        """Add a task that was just registered, before its EXPORT."""
        self._asked[task] = 0

    def ask(self, master: Peer, task: Entry) -> None:
        """Ask for the verdict on a task that was just exported to the master."""
        self._asked[task] = self._ping(master)

    def on_link_open(self, master: Peer) -> None:
        """Ask again, over a new link or of another master."""
        if self._asked:
            number = self._ping(master)
            for task in self._asked:
                self._asked[task] = number

    def _ping(self, master: Peer) -> int:
        number = self._topology.new_ping()
        master.session.send_link_frame(Ping(number=number))
        return number

    def on_pong(self, number: int) -> None:
        """Confirm the tasks that the master has not refused before this PONG.

        The number must be that of their PING: a new master defers these PONGs, and may
        send later ones, about other things, before them.
        """
        # The numbers rise, so the scan ends with the first higher one.
        asked = itertools.takewhile(lambda each: each[1] <= number, self._asked.items())
        for task in [each for each, of_ping in asked if of_ping == number]:
            self._confirm(task)

    def confirm_all(self) -> None:
        """Confirm all tasks: no other process decides from now on."""
        for task in self.tasks():
            self._confirm(task)

    def _confirm(self, task: Entry) -> None:
        self.forget(task)
        self._topology.todo.append(Confirm(task))

    def forget(self, task: Entry) -> None:
        """Stop waiting for a task: it was confirmed or refused, or has deregistered."""
        self._asked.pop(task, None)


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
