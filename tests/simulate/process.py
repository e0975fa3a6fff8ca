"""`SimProcess`: one process as an object, driven as threads and sockets would drive it.

It decides nothing: it performs the actions of the manager and its remote manager, and
reports events to them. A task reads one message at a time, some time after its arrival.
"""

from __future__ import annotations

import itertools
import math
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bus.errors import BusFullError, NameTakenError
from bus.features import FEATURES
from bus.features.machines.any_machine import AnyMachineNames
from bus.features.machines.machine_dialler import MachineDialler
from bus.features.moving.new_addresses import NewAddresses
from bus.features.subscriptions.local_subscriptions import (
    LocalSubscriptions,
    subscriptions_of,
)
from bus.features.subscriptions.remote_subscriptions import RemoteSubscriptions
from bus.kernel.remote_manager import RemoteManager
from bus.kernel.tasks.process_manager import ProcessManager
from bus.kernel.topology import Topology
from bus.kernel.trace import Tracer
from bus.kernel.wire import Bodies, Identity, Role, decode
from bus.model.config import BusConfig
from bus.model.events import BusOperation
from bus.model.message import Incoming, Kind
from bus.model.registration import Visibility
from bus.model.specification import Specification
from tests.simulate.counters import Command
from tests.simulate.fast_paths import FastPaths
from tests.simulate.performer import Performer
from tests.simulate.task import Asked, SimTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.kernel.tasks.actions import Action
    from bus.kernel.tasks.routing_table import Entry
    from bus.kernel.trace import Trace
    from tests.simulate.world import World

__all__ = ["SimProcess", "SimTask"]

# No keep-alive PINGs: they would be most of the traffic.
CONFIG = BusConfig(
    window=4, task_fifo_messages=64, keep_alive_s=math.inf, lease_s=math.inf
)
STREAM_WINDOW = 16
PARKED = 64


class SimProcess:
    """A process: its manager, its tasks, and the events deferred while it is frozen.

    life: its incarnation. guest: True if it belongs to another user.
    trace_sink: the trace sink for its messages; None if nothing is recorded.
    performer, do: perform actions, in order. fast_paths: those to other processes.
    """

    def __init__(
        self, world: World, machine: str, name: str, *, master: bool, life: int
    ) -> None:
        self.world = world
        self.key = (machine, name)
        self.life = life
        self.alive = True
        self.frozen = False
        self.guest = False
        recorded = world.recorded
        self.trace_sink = None if recorded is None else recorded.begin(self)
        self.manager = ProcessManager(
            machine,
            name,
            parked_per_name=PARKED,
            parked_in_all=4 * PARKED,
            resolve_timeout_s=5.0,
            incarnation=life,
        )
        self.manager.any_machine = AnyMachineNames(self.manager)
        me = Identity(
            bus="bus1",
            machine=machine,
            machine_id=machine,
            process=name,
            process_id=life,
            incarnation=life,
            role=Role.MASTER if master else Role.SLAVE,
        )
        address = (f"{machine}/{name}",)
        topology = Topology(
            me,
            config=world.config,
            nonces=iter(lambda: world.random.getrandbits(64), None),
            addresses=address,
            outside=lambda: address,
            trace_sink=self.trace_sink,
        )
        self.remote = RemoteManager(
            topology,
            self.manager,
            host="relays",
            master=(f"{machine}/Master",),
            static=(),
            features=[each.on_begin for each in FEATURES if each.on_begin],
        )
        self.tasks: dict[str, SimTask] = {}
        self._backlog: list[Callable[[], list[Action]]] = []
        self._flushing = False
        self._wake_at: float | None = None
        # Commands for one remote addressee that were not posted yet. Successive
        # commands are posted together, as a comm thread does.
        self._posted: list[Incoming] = []
        self.fast_paths = FastPaths(self)
        self.performer = Performer(self)
        self.do = self.performer.perform

    @property
    def name(self) -> str:
        """The name of the process, for people."""
        return "/".join(self.key)

    @property
    def subscriptions(self) -> LocalSubscriptions:
        """The subscriptions and watches of its tasks."""
        return subscriptions_of(self.manager)

    @property
    def remote_subscriptions(self) -> RemoteSubscriptions:
        """Those that it has received or sent."""
        remote = self.subscriptions.remote
        assert isinstance(remote, RemoteSubscriptions)
        return remote

    @property
    def machines(self) -> MachineDialler:
        """The masters of other machines, as far as it knows."""
        masters = self.remote.links.masters
        assert isinstance(masters, MachineDialler)
        return masters

    @property
    def new_addresses(self) -> NewAddresses:
        """Where departed tasks go on, as far as it knows."""
        moves = self.remote.resolver.own.moves
        assert isinstance(moves, NewAddresses)
        return moves

    def say(self, what: Callable[[], str]) -> None:
        """Add a line to the story."""
        self.world.story.tell(self.world.now, self.name, what)

    # Events.

    def event(self, act: Callable[[], list[Action]]) -> None:
        """Handle an event, now or as soon as the process runs again."""
        if not self.alive:
            return
        if self.frozen:
            self._backlog.append(act)
            return
        self._pass_on()
        self.do(act())
        self.settle()

    def _pass_on(self) -> None:
        self.manager.revision += 1
        posted, self._posted = self._posted, []
        for about, some in groupby(posted, _alike):
            messages = list(some)
            to = messages[0]._to
            if about is None:
                self.remote.outbound_messages.post(to, messages)
            else:
                payloads = [each.payload.to_bytes(8) for each in messages]
                source, deadline = about
                size = sum(map(len, payloads))
                self.remote.outbound_messages.post_alike(
                    to, source, payloads, size, deadline
                )

    def received(self, number: int, data: bytes) -> None:
        """Receive bytes from a link."""
        if self.alive and not self.frozen:
            todo = self.fast_paths.receive(number, data)
            if todo is not None:
                self.do(todo)
                self.settle()
                return
        self.event(lambda: self.world.trace_sink.hears(self, number, decode(data)))

    def thaw(self) -> None:
        """Run again; handle the deferred events first."""
        self.frozen = False
        backlog, self._backlog = self._backlog, []
        for act in backlog:
            self.event(act)

    def settle(self) -> None:
        """Schedule a flush soon, and a tick when the next deadline passes."""
        self.world.check(self)
        if not self._flushing:
            self._flushing = True
            self.world.at(self.world.random.random() * 0.001, self._flush)

    def _flush(self) -> None:
        if not self.alive:
            return
        if self.frozen:
            self._backlog.append(self._end_round)
            return
        self._pass_on()
        self.do(self._end_round())
        at = self.remote.topology.timers.next()
        if at is not None and (self._wake_at is None or at < self._wake_at):
            self._wake_at = at
            self.world.at(max(0.0, at - self.world.now) + 1e-6, self._wake)

    def _end_round(self) -> list[Action]:
        """Handle expired timers, and flush, as `Rounds` do."""
        self._flushing = False
        actions = self.remote.tick(self.world.now)
        return actions + self.remote.flush(self.world.now)

    def _wake(self) -> None:
        self._wake_at = None
        self.event(lambda: self.remote.tick(self.world.now))

    def task_of(self, entry: Entry) -> SimTask | None:
        """Return the task that an entry stands for, unless it has deregistered."""
        task = self.tasks.get(entry.name)
        return task if task is not None and task.entry is entry else None

    # Operations of tasks.

    def register(self, name: str, *, private: bool = False) -> SimTask | None:
        """Register a task; return None if the name is taken."""
        self._pass_on()
        task = SimTask(self, name)
        visibility = Visibility.PRIVATE if private else Visibility.PUBLIC
        todo: list[Action] = []
        sink = self.trace_sink
        record = None if sink is None else sink.on_registered
        try:
            self.manager.claim(name, visibility, todo)
            task.entry, actions = self.manager.register(
                name, visibility, "bus1", "here", task, self.world.now, record=record
            )
        except NameTakenError:
            return None
        if sink is not None:
            task.tracer = Tracer(sink, task.id.number, itertools.count(1))
        self.say(lambda: f"registers {name} as {task.id.number}")
        self.tasks[name] = task
        self.do(todo + actions)
        self.settle()
        return task

    def deregister(
        self, task: SimTask, *, final: bool = False, moved_to: str = ""
    ) -> None:
        """Deregister a task; it may tell its address at another machine."""
        self._pass_on()
        task.entry.moved_to = moved_to
        self.say(lambda: f"deregisters {task.name}, final: {final}")
        self.do(self.leave(task, final=final))
        self.settle()

    def leave(self, task: SimTask, *, final: bool) -> list[Action]:
        """Let a task leave; return the actions that follow."""
        actions: list[Action] = []
        self.manager.leave(task.entry, actions, final=final)
        self.do(actions)  # the actions may open the task
        del self.tasks[task.name]
        unread = list(task.items)
        self.sought(each for each in unread if each.kind is Kind.COMMAND)
        actions = []
        self.manager.on_emptied(
            task.entry, unread, self.world.now, actions, final=final
        )
        if self.trace_sink is not None:
            self.trace_sink.on_task_event(BusOperation.DEREGISTER, task.id.number)
        return actions

    def command(
        self,
        task: SimTask,
        to: str,
        *,
        asks: bool = False,
        timeout: float | None = None,
    ) -> Command:
        """Send a command."""
        number = self.world.number()
        now = self.world.now
        sent_command = Command(number, task.id, self.life, to, asks)
        self.world.counters.sent(sent_command)
        self.say(lambda: f"{task.name} sends {number} to {to}")
        message = Incoming(
            kind=Kind.COMMAND,
            payload=number,
            wants_reply=asks,
            _source=task.entry,
            _id=number,
            _name=to,
            _deadline=None if timeout is None else now + timeout,
            _trace=None if task.tracer is None else task.tracer.command(0),
        )
        try:
            self._send(message, to)
        except BusFullError as error:
            self.world.counters.reported(number, error)
        self.settle()
        return sent_command

    def _send(self, message: Incoming, to: str) -> None:
        entry = self.manager.table.find(to)
        if entry is None:
            self.manager.revision += 1
            self.sought([message])
            entry = self.manager.park(to, message, self.world.now)
        if entry is None:
            if message._trace is not None:
                message._trace.number()
            return
        message._to = entry
        if entry.remote:
            if not self._posted and self.fast_paths.send(
                entry.mailbox.peer, lambda way: way.command(message, self.world.now)
            ):
                return
            if self._posted and self._posted[0]._to is not entry:
                self._pass_on()
            if message._trace is not None:
                message._trace.record_accepted(entry.id.number)
            self._posted.append(message)
        else:
            task: Any = entry.mailbox
            task.put(message)

    def send_bound(self, message: Incoming, entry: Entry) -> None:
        """Send a command that waited for a name of any machine to the task found."""
        message._name = entry.name
        try:
            self._send(message, entry.name)
        except BusFullError as error:
            self.world.counters.reported(message.payload, error)

    def sought(self, messages: Iterable[Incoming]) -> None:
        """Note that messages wait for a holder of their name."""
        for message in messages:
            self.world.counters.commands[message.payload].sought = True

    def answer(self, message: Incoming) -> None:
        """Answer a question, local or remote."""
        self._pass_on()
        source: Entry = message._source
        if source.remote:
            if self._posted or not self.fast_paths.send(
                source.mailbox.peer, lambda way: way.answer(message, message.payload)
            ):
                self.remote.outbound_messages.answer(message, message.payload)
        elif self.task_of(source) is not None:
            if message._trace is not None:
                trace: Trace = message._trace.answer(message._to.id.number, 0)
                trace.record_accepted(source.id.number)
                trace.record_delivered()
            self.world.counters.answered(message.payload)

    def notify(self, task: SimTask) -> int:
        """Send a notification to all subscribers of a task."""
        self._pass_on()
        number = self.world.number()
        self.say(lambda: f"{task.name} notifies {number}")
        self._count(task, number)
        tracer = task.tracer
        for each in task.entry.audience:
            hearer: Any = each.entry.mailbox
            hearer.put(
                Incoming(
                    kind=Kind.NOTIFICATION,
                    payload=number,
                    subscriptions=each.subscriptions,
                    _source=task.entry,
                    _id=0,
                    _to=each.entry,
                    _trace=None if tracer is None else tracer.notification(0),
                )
            )
        trace = None
        if tracer is not None:
            trace = tracer.remote_notification(0)
            trace.number()
        if trace is not None or not self.fast_paths.notify(task.entry, number):
            self.remote.notify(task.entry, number, trace=trace)
        self.settle()
        return number

    def notify_together(self, task: SimTask, count: int) -> None:
        """Send notifications that the comm thread takes together."""
        if task.entry.audience or task.tracer is not None:
            for _ in range(count):  # then each is sent by itself
                self.notify(task)
            return
        self._pass_on()
        numbers = [self.world.number() for _ in range(count)]
        self.say(lambda: f"{task.name} notifies {numbers}")
        for number in numbers:
            self._count(task, number)
        payloads = Bodies([number.to_bytes(3) for number in numbers])
        self.remote.notify_alike(task.entry, payloads, 3 * count, 0)
        self.settle()

    def _count(self, task: SimTask, number: int) -> None:
        """Count a notification, with the subscriptions of others that it is sent to."""
        subscriptions = self.remote_subscriptions
        requests = (
            request.frame.id
            for request in subscriptions.ledger.all()
            if request.origin is not None
            and not request.frame.presence
            and subscriptions.matches.is_match(request, task.entry)
        )
        self.world.counters.notifies(number, task.id, frozenset(requests))

    def subscribe(
        self,
        task: SimTask,
        specification: str,
        settled: Callable[[], object] | None = None,
    ) -> None:
        """Subscribe a task to others; settled: called on the confirmation."""
        self._pass_on()
        self.say(lambda: f"{task.name} subscribes to {specification}")
        asked = Asked(task.entry, Specification.parse(specification))
        task.subscriptions.append(asked)
        if self.trace_sink is not None:
            number, pattern = id(asked), asked.specification.pattern
            self.trace_sink.on_task_event(
                BusOperation.SUBSCRIBE, task.entry.id.number, number, pattern
            )
        task.changes += 1
        self.do(self.subscriptions.subscribe(asked, settled))
        self.settle()

    def watch(self, task: SimTask, specification: str) -> None:
        """Start a watch of a task."""
        self._pass_on()
        self.say(lambda: f"{task.name} watches {specification}")
        watch = Asked(task.entry, Specification.parse(specification))
        task.watches.append(watch)
        task.present[watch] = set()
        self.do(self.subscriptions.watch(watch))
        self.settle()

    def unwatch(self, task: SimTask) -> None:
        """End all watches of a task."""
        self._pass_on()
        for watch in task.watches:
            self.subscriptions.unwatch(watch)
        task.watches.clear()
        task.present.clear()
        self.settle()

    def unsubscribe(self, task: SimTask) -> None:
        """End all subscriptions of a task."""
        self._pass_on()
        self.say(lambda: f"{task.name} unsubscribes")
        for asked in task.subscriptions:
            self.subscriptions.unsubscribe(asked)
            if self.trace_sink is not None:
                self.trace_sink.on_task_event(
                    BusOperation.UNSUBSCRIBE, task.entry.id.number, id(asked)
                )
        task.subscriptions.clear()
        task.changes += 1
        self.settle()

    def die(self) -> None:
        """Die at once."""
        self.say(lambda: "dies")
        self.alive = False
        self.world.network.die(self)
        self.world.counters.ended(self.life)
        self.world.trace_sink.ended(self)


def _alike(message: Incoming) -> tuple[Entry, float | None] | None:
    """Return the fields that commands sent as one run share; None if sent alone.

    Most commands that want no answer share a run, but not all, so that both cases
    occur. A recorded command is always sent alone.
    """
    asks, recorded = message.wants_reply, message._trace is not None
    if asks or recorded or message.payload % 4 == 0:
        return None
    return message._source, message._deadline
