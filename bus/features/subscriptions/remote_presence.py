"""`RemotePresence`: which tasks of other processes are present.

A process learns of remote tasks from its joined peers, and these also announce their
departures: a slave from its master, a master from its slaves and from the masters of
other machines. If such a peer is lost, no process announces these departures any more.
So each of its tasks is in doubt until another peer confirms it, and counts as departed
if none does in time.

A master withdraws such a task of another machine from its slaves (UNEXPORT): they know
it from this master, which is not lost. ELIMINATE would state a certain departure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bus.features.subscriptions.frames import Unexport
from bus.features.subscriptions.interests import Interests
from bus.features.subscriptions.presence import RemoteTasks

if TYPE_CHECKING:
    from bus.kernel.peer.peer import Peer
    from bus.kernel.tasks.routing_table import RoutingTable
    from bus.kernel.topology import Topology
    from bus.kernel.wire import Characteristics, Eliminate
    from bus.model.address import Address
    from bus.model.registration import RegistrationId

__all__ = ["RemotePresence"]


class RemotePresence:
    """The remote tasks that peers have reported here, and those reported to slaves.

    ``_own``: those that its own watches and subscriptions match. ``_passed_on``: those
    of other machines that this master has reported to its slaves.
    """

    __slots__ = ("_alarm", "_own", "_passed_on", "_topology")

    def __init__(
        self, topology: Topology, table: RoutingTable, own: RemoteTasks
    ) -> None:
        self._topology: Final = topology
        self._alarm: Final = topology.timers.alarm(self._on_due)
        self._own: Final = own
        machine = topology.me.machine
        self._passed_on: Final = RemoteTasks(machine, table, Interests(machine))

    def on_answer(
        self, peer: Peer, task: Characteristics, address: Address, now: float
    ) -> None:
        """Record that a peer has answered a watch or a subscription of this process."""
        # A peer that has not joined announces no departure to this process.
        until = None if peer.joined else now + self._topology.config.connect_timeout_s
        self._alarm.by(until)
        self._topology.todo += self._own.on_appeared(
            task.id, address, task.incarnation, until
        )

    def on_passed_on(self, task: Characteristics) -> None:
        """Record that this master forwards an answer to another process."""
        if task.id.machine != self._topology.me.machine:
            address = self._topology.address(task.id.machine, task.name)
            self._passed_on.on_appeared(task.id, address, task.incarnation)

    def on_eliminated(self, frame: Eliminate, *_: object) -> None:
        """Report the departure of a task to the watches of this process."""
        self._topology.todo += self._own.on_disappeared(frame.id)
        self._passed_on.on_disappeared(frame.id)

    def on_unexport(self, peer: Peer, frame: Unexport, _: float) -> None:
        """Report that the master no longer confirms a task of another machine."""
        if peer is self._topology.master():
            self._topology.todo += self._own.on_withdrawn(frame.id)
            self._alarm.by(self._own.due_at)

    def on_process_lost(self, peer: Peer, now: float) -> bool:
        """Report the departure of a lost process's tasks; doubt those it announced.

        Returns True if this process knew any task of the lost one.
        """
        key, incarnation = peer.key, peer.session.incarnation
        gone = self._own.of_process(key, incarnation)
        for number in gone:
            self._topology.todo += self._own.on_disappeared(number)
        if peer.joined:
            self._withdraw(self._passed_on.of_process(key, incarnation))
            self._doubt(peer, now)
        return bool(gone)

    def _doubt(self, peer: Peer, now: float) -> None:
        topology, config = self._topology, self._topology.config
        abroad = peer.machine != topology.me.machine
        if topology.is_master and not abroad:
            return  # no slave announces the tasks of other processes
        # A machine that was silent for the lease has no other master that could join.
        # In this machine silence proves nothing, since a process may be stopped.
        last = peer.received_at if abroad else now
        until = min(now + config.connect_timeout_s, max(now, last + config.lease_s))
        self._alarm.by(until)
        for tasks in (self._own, self._passed_on):
            tasks.doubt(peer.machine if topology.is_master else None, until)

    def _withdraw(self, gone: list[RegistrationId]) -> None:
        """Withdraw tasks of other machines from the slaves of this master."""
        for number in gone:
            self._passed_on.on_disappeared(number)
            for slave in self._topology.slaves():
                slave.session.send_control(Unexport(id=number))

    def _on_due(self, now: float) -> float | None:
        """Drop the tasks in doubt that no process has confirmed in time."""
        again_at = now + self._topology.config.connect_timeout_s
        for number in self._own.overdue(now, again_at):
            self._topology.todo += self._own.on_disappeared(number)
        self._withdraw(self._passed_on.overdue(now, again_at))
        times = self._own.due_at, self._passed_on.due_at
        return min((at for at in times if at is not None), default=None)
