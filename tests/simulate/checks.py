"""`Checks`: the invariants of a simulated world, at each step and at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bus.kernel import constants
from bus.kernel.peer.relay import RelayState
from bus.model.registration import Visibility
from tests.simulate.counters import BrokenPromiseError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bus.kernel.peer.peer import Peer
    from bus.kernel.peer.run_queue import RelayCounters
    from bus.kernel.wire import AddRelay
    from tests.simulate.process import SimProcess
    from tests.simulate.world import World

__all__ = ["Checks", "hold"]


def hold(truth: bool, words: str) -> None:
    """Raise `BrokenPromiseError` unless `truth` is true."""
    if not truth:
        raise BrokenPromiseError(words)


class Checks:
    """The invariants of one simulated world."""

    def __init__(self, world: World) -> None:
        self._world = world

    # At each step.

    def step(self, process: SimProcess) -> None:
        """Check the tables and counters of a process for consistency."""
        remote = process.remote
        config = remote.topology.config
        for peer in remote.topology.peers.values():
            stream = peer.session.outgoing
            if stream.next - stream.floor > constants.STREAM_WINDOW:
                raise BrokenPromiseError("more is outstanding than the stream's window")
            for relay in peer.all_relays():
                counters = relay.counters
                if counters.posted != counters.ended + relay.in_transit:
                    raise BrokenPromiseError(f"a relay of {process.name}: {counters}")
                if relay.busy and relay not in peer.active:
                    raise BrokenPromiseError("a relay that holds a message is idle")
            for relay in peer.relays.values():
                if len(relay.unacked) > config.window:
                    raise BrokenPromiseError("more is unacked than the window")
                under_way = {(each.source, each.id) for _, each in relay.unacked}
                if not relay._unanswered.keys() <= under_way:
                    raise BrokenPromiseError("a question that was taken is under way")
                private = relay.entry.visibility is Visibility.PRIVATE
                if private and relay.state is not RelayState.UNNAMED:
                    raise BrokenPromiseError("a private task's relay has a name")
            self._balance(peer.counters, [peer])
        self._balance(remote.topology.counters, remote.topology.peers.values())
        for name in remote.resolver.own.by_name:
            entry = process.manager.table.find(name)
            if not process.manager.parked.of(name) and not (entry and entry.remote):
                raise BrokenPromiseError(f"{process.name} searches for {name} in vain")

    @staticmethod
    def _balance(counters: RelayCounters, peers: Iterable[Peer]) -> None:
        """Check that each posted message is in a relay or has ended."""
        inside = sum(each.in_transit for peer in peers for each in peer.all_relays())
        if counters.posted != counters.ended + inside:
            raise BrokenPromiseError(f"{inside} in relays, {counters} do not balance")

    def answer(self, process: SimProcess, frame: AddRelay) -> None:
        """Check that only the host of a task answers a search for it (BUS-ROUTE-10)."""
        task = frame.task
        if frame.search is None:
            hold(
                process.key == (task.id.machine, task.id.process),
                f"{process.name} announces a task of another process",
            )
            return
        hold(task.visibility is Visibility.PUBLIC, f"{task.name} is private")
        own = process.key == (task.id.machine, task.id.process)
        passed_on = process is self._world.masters.get(process.key[0])
        hold(
            own or passed_on,
            f"{process.name} answers for {task.name}, which it does not host",
        )

    # At rest.

    def rest(self) -> None:
        """Check that nothing is left over once every message has ended."""
        world = self._world
        world.trace_sink.rest()
        for command in world.counters.open():
            raise BrokenPromiseError(f"nobody knows what became of {command}")
        hold(not world.lost_in_between, "messages opened for nobody")
        tasks = {
            task.id: task
            for process in world.living()
            for task in process.tasks.values()
        }
        for process in world.living():
            self._process_at_rest(process, set(tasks))
            self._watches_at_rest(process)
        for machine, master in world.masters.items():
            public = {
                task.name: process.key
                for process in world.living()
                if process.key[0] == machine
                for task in process.tasks.values()
                if task.entry.visibility is Visibility.PUBLIC
            }
            for process in world.living():
                if process.key[0] == machine:
                    asked = process.remote.name_registry.pending_names.tasks()
                    hold(not asked, f"{process.name} waits for a verdict on {asked}")
            users = master.remote.name_registry.users.owners()
            hold(users == public, f"{machine} has {public}, its master knows {users}")

    def _watches_at_rest(self, process: SimProcess) -> None:
        """Check that each watch has reported exactly the tasks that are present."""
        own = process.key[0]
        for task in process.tasks.values():
            for watch in task.watches:
                meant = watch.specification
                here = {
                    each.entry.address
                    for other in self._world.living()
                    if other.key[0] == (meant.machine or own)
                    for each in other.tasks.values()
                    if each.entry.visibility is Visibility.PUBLIC
                    and meant.matches(each.name)
                }
                seen = task.present[watch]
                hold(
                    seen == here,
                    f"{process.name}: {meant} gets {sorted(map(str, seen))},"
                    f" here are {sorted(map(str, here))}",
                )

    def _process_at_rest(self, process: SimProcess, tasks: set[object]) -> None:
        remote, name = process.remote, process.name
        hold(not len(remote.resolver.ledger), f"{name} keeps a search")
        hold(not len(process.manager.parked), f"{name} has parked messages")
        hold(not process.manager.departures.leaving, f"{name}: somebody does not leave")
        hold(not process.manager.departures.unopened, f"{name}: somebody is not opened")
        hold(
            not remote.idle_relays._since,
            f"{name} keeps a relay for nobody",
        )
        counters = remote.topology.counters
        hold(
            counters.posted == counters.ended,
            f"{name} has messages under way: {counters}",
        )
        for request in process.remote_subscriptions.ledger.all():
            asker = (request.frame.id.machine, request.frame.id.process)
            whose = self._world.processes[asker]
            ours = {each.frame.id for each in whose.remote_subscriptions.own.values()}
            hold(request.frame.id in ours, f"{name} keeps a subscription of nobody")
        for peer in remote.topology.peers.values():
            self._peer_at_rest(name, peer, tasks)
        for entry in process.manager.table:
            hold(entry.id in tasks, f"{name}: {entry.name} is not registered")
        for task in process.tasks.values():
            hold(not task.items or not task.reads, f"{task.name} has unread messages")

    def _peer_at_rest(self, name: str, peer: Peer, tasks: set[object]) -> None:
        whose = self._world.processes.get(peer.key)
        lives = whose is not None and whose.alive
        hold(lives, f"{name}: {peer.key} has ended")
        assert whose is not None
        hold(peer.session.incarnation == whose.life, f"{name}: an old life")
        hold(peer.session.ready, f"{name} has no link to {peer.key}")
        for relay in peer.relays.values():
            hold(
                relay.entry.id in tasks,
                f"{name}: a relay of the dead {relay.entry.name}",
            )
        for relay in peer.all_relays():
            hold(not relay.queue, f"{name}: {relay.number} has a queue")
            hold(not relay.unacked, f"{name}: {relay.number} has unacked messages")
