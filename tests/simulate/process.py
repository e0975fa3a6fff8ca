"""`SimProcess`: one process as an object, driven as threads and sockets would drive it.

It decides nothing: it performs the actions of the manager and its remote manager, and
reports events to them. A task reads one message at a time, some time after its arrival.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs

from bus.config import BusConfig
from bus.core.local.actions import (
    Action,
    Confirm,
    Dial,
    Evict,
    Fail,
    HangUp,
    Open,
    Post,
    Reply,
    Send,
    Settled,
    Tell,
    Vacate,
)
from bus.core.local.command_run import CommandRun
from bus.core.local.process_manager import ProcessManager
from bus.core.local.trace import Tracer
from bus.core.peer.limits import Limits
from bus.core.remote.fast_path import FastPath
from bus.core.remote.remote_manager import RemoteManager
from bus.core.wire import AddRelay, Identity, Role, decode, encode
from bus.errors import BusFullError, ExpiredError, NameTakenError
from bus.events import BusReason
from bus.message import Incoming, Kind
from bus.registration import Visibility
from bus.specification import Specification
from tests.simulate.counters import BrokenPromiseError, Letter
from tests.simulate.task import Asked, SimTask
from tests.simulate.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bus.core.local.routing_table import Entry
    from bus.core.local.trace import Trace
    from bus.core.peer.peer import Peer
    from bus.message import Presence
    from bus.registration import RegistrationId
    from tests.simulate.world import World

__all__ = ["SimProcess", "SimTask"]

# No keep-alive PINGs: they would be most of the traffic.
LIMITS = attrs.evolve(
    Limits.of(BusConfig(window=4, stream_window=16, task_fifo_messages=64)),
    keep_alive_s=math.inf,
    lease_s=math.inf,
)
PARKED = 64


class SimProcess:
    """A process: its manager, its tasks, and the events deferred while it is frozen.

    life: its incarnation. guest: True if it belongs to another user.
    trace_sink: the trace sink for its messages; None if nothing is recorded.
    fast_paths: the fast paths to other processes, by process. The world draws how often
      a question takes one.
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
        self.remote = RemoteManager(
            me,
            self.manager,
            host="relays",
            limits=world.limits,
            nonce=lambda: world.random.getrandbits(64),
            addresses=(address, address),
            master=(f"{machine}/Master",),
            trace_sink=self.trace_sink,
        )
        self.tasks: dict[str, SimTask] = {}
        self._backlog: list[Callable[[], list[Action]]] = []
        self._flushing = False
        self._wake_at: float | None = None
        # Commands for one remote addressee that were not posted yet. Successive
        # commands are posted together, as a comm thread does.
        self._posted: list[Incoming] = []
        self.fast_paths: dict[Peer, FastPath] = {}
        # The way (see `_way`) of each notification waiting in a task's mailbox.
        self._ways: dict[tuple[int, RegistrationId], object] = {}

    @property
    def name(self) -> str:
        """The name of the process, for people."""
        return "/".join(self.key)

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
                self.remote.post(to, messages)
            else:
                payloads = [each.payload.to_bytes(8) for each in messages]
                source, deadline = about
                size = sum(map(len, payloads))
                self.remote.post_alike(to, source, payloads, size, deadline)

    def received(self, number: int, data: bytes) -> None:
        """Receive bytes from a link."""
        if self.alive and not self.frozen and self.world.short():
            link = self.remote.links.by_number.get(number)
            short = None if link is None else self._fast_path(link.peer)
            todo = deque[Action]()
            if short is not None and short.receive(data, self.world.now, todo):
                self.do(list(todo))
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
        def flush() -> list[Action]:
            self._flushing = False
            return self.remote.flush(self.world.now)

        if not self.alive:
            return
        if self.frozen:
            self._backlog.append(flush)
            return
        self._pass_on()
        self.do(flush())
        due = [
            self.remote.next_deadline(self.world.now),
            self.manager.parked.next_deadline(),
        ]
        at = min((each for each in due if each is not None), default=None)
        if at is not None and (self._wake_at is None or at < self._wake_at):
            self._wake_at = at
            self.world.at(max(0.0, at - self.world.now) + 1e-6, self._wake)

    def _wake(self) -> None:
        self._wake_at = None

        def tick() -> list[Action]:
            now = self.world.now
            return self.manager.expire(now) + self.remote.tick(now)

        self.event(tick)

    # Actions.

    def do(self, actions: list[Action]) -> None:
        """Perform actions, in order."""
        todo = deque(actions)
        while todo:
            todo.extend(self._do(todo.popleft()))

    def _do(self, action: Action) -> list[Action]:
        world = self.world
        match action:
            case Send(link, frame):
                self.say(lambda: f"--> {self._other(link)} {words(frame)}")
                if world.frames is not None:
                    to = world.network.other(link)
                    world.frames.append((self, to, frame))
                if isinstance(frame, AddRelay):
                    world.checks.answer(self, frame)
                world.trace_sink.sent(self, frame)
                world.network.send(link, encode(frame))
            case Post(entry, posted):
                task = self._task(entry)
                for each in posted:
                    run = each.rest() if isinstance(each, CommandRun) else [each]
                    for message in run:
                        if task is not None and message.kind is Kind.NOTIFICATION:
                            self._ways[message.payload, task.id] = self._way(message)
                        if task is not None:
                            task.put(_read(message))
            case Reply(entry, number, _, _, error, _, trace):
                self.say(lambda: f"answer to {number}: {error}")
                here = self._task(entry) is not None
                if trace is not None and here:
                    trace.record_delivered()
                elif trace is not None:
                    trace.record_discarded(BusReason.UNWANTED)
                if here and error is not None:
                    world.counters.told(number, error)
                elif here:
                    world.counters.answered(number)
            case Fail(message, error):
                _read(message)
                if message._trace is not None:
                    asker = self._task(message._source)
                    told = asker is not None or not message.wants_reply
                    message._trace.record_failed(error, told=told)
                self.say(lambda: f"told of {message.payload}: {error}")
                world.counters.told(message.payload, error)
            case Open(entry, messages):
                return self._open(entry, list(messages))
            case Vacate(entry, messages, final):
                self._sought(map(_read, messages))
                return self.manager.on_emptied(entry, messages, world.now, final=final)
            case Dial(key, kind, addresses):
                world.network.dial(self, kind, key, addresses[0])
            case HangUp(link):
                self.say(lambda: f"hangs up {link}")
                world.network.hang_up(link)
            case Confirm(entry):
                task = self._task(entry)
                if task is not None:
                    task.confirmed = True
            case Evict(entry, error):
                self.say(lambda: f"evicted: {error}")
                task = self._task(entry)
                if task is not None:
                    return self._leave(task, final=False)
            case Settled(tell):
                tell()
            case Tell(entry, Asked() as watch, presence):
                task = self._task(entry)
                if task is not None:
                    self._seen(task, watch, presence)
        return []

    def _seen(self, task: SimTask, watch: Asked, presence: Presence) -> None:
        """Record a presence; the reports on an address must alternate."""
        self.say(lambda: f"{task.name} sees {presence}")
        present = task.present.get(watch)
        if present is None:
            return  # the watch was cancelled
        if presence.here == (presence.address in present):
            raise BrokenPromiseError(f"{task.name} is told twice: {presence}")
        if presence.here:
            present.add(presence.address)
        else:
            present.remove(presence.address)

    def _way(self, message: Incoming) -> object:
        """Return a value that changes when notifications between two tasks may be lost.

        It depends on the session of the two processes, and on the subscriptions of the
        receiver.
        """
        source, target = message._source, self._task(message._to)
        assert target is not None
        if not source.remote:
            return target.changes
        session = source.mailbox.peer.session
        return target.changes, session.epoch, session.their_epoch

    def _other(self, link: int) -> str:
        other = self.world.network.other(link)
        return f"{'nobody' if other is None else other.name} by {link}:"

    def _task(self, entry: Entry) -> SimTask | None:
        task = self.tasks.get(entry.name)
        return task if task is not None and task.entry is entry else None

    def _open(self, entry: Entry, messages: list[Incoming]) -> list[Action]:
        task = None if entry.remote else self._task(entry)
        if task is None and not entry.remote:  # deregistered before it was opened
            self.world.lost_in_between += messages
            return []
        for message in messages:
            message._to = entry
            if message._trace is not None:
                message._trace.record_accepted(entry.id.number)
        if task is None:
            self.remote.open(entry, messages)
            return []
        task.items.extendleft(reversed(messages))
        task.held = False
        task.review()
        return []

    # Operations of tasks.

    def register(self, name: str, *, private: bool = False) -> SimTask | None:
        """Register a task; return None if the name is taken."""
        self._pass_on()
        task = SimTask(self, name)
        visibility = Visibility.PRIVATE if private else Visibility.PUBLIC
        try:
            task.entry, actions = self.manager.register(
                name, visibility, "bus1", "here", task, self.world.now
            )
        except NameTakenError:
            return None
        if self.trace_sink is not None:
            self.trace_sink.on_registered(task.id.number, name)
            task.tracer = Tracer(self.trace_sink, task.id.number, itertools.count(1))
        self.say(lambda: f"registers {name} as {task.id.number}")
        self.tasks[name] = task
        self.do(actions)
        self.settle()
        return task

    def deregister(self, task: SimTask, *, final: bool = False) -> None:
        """Deregister a task."""
        self._pass_on()
        self.say(lambda: f"deregisters {task.name}, final: {final}")
        self.do(self._leave(task, final=final))
        self.settle()

    def _leave(self, task: SimTask, *, final: bool) -> list[Action]:
        actions = self.manager.leave(task.entry, final=final)
        self.do(actions)  # the actions may open the task
        del self.tasks[task.name]
        unread = list(task.items)
        self._sought(each for each in unread if each.kind is Kind.COMMAND)
        actions = self.manager.on_emptied(
            task.entry, unread, self.world.now, final=final
        )
        if self.trace_sink is not None:
            self.trace_sink.on_deregistered(task.id.number)
        return actions

    def command(
        self,
        task: SimTask,
        to: str,
        *,
        asks: bool = False,
        timeout: float | None = None,
    ) -> Letter:
        """Send a command."""
        number = self.world.number()
        now = self.world.now
        letter = Letter(number, task.id, self.life, to, asks)
        self.world.counters.sent(letter)
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
            self.world.counters.told(number, error)
        self.settle()
        return letter

    def _send(self, message: Incoming, to: str) -> None:
        entry = self.manager.table.find(to)
        if entry is None:
            self.manager.revision += 1
            self._sought([message])
            entry = self.manager.park(to, message, self.world.now)
        if entry is None:
            if message._trace is not None:
                message._trace.number()
            return
        message._to = entry
        if entry.remote:
            if self._goes_at_once(
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

    def _fast_path(self, peer: Peer | None) -> FastPath | None:
        if peer is None or peer.session.link is None:
            return None
        short = self.fast_paths.get(peer)
        if short is None or not short.is_current:
            short = FastPath(self.remote, peer, peer.session.link)
            self.fast_paths[peer] = short
        return short

    def _goes_at_once(
        self, peer: Peer, frame_of: Callable[[FastPath], bytes | None]
    ) -> bool:
        """Whether a message was put on its link by the fast path.

        Now and then the sender is interrupted there, and only records that; then the
        link is dropped.
        """
        if self._posted or not self.world.short():
            return False
        short = self._fast_path(peer)
        frame = None if short is None else frame_of(short)
        if short is None or frame is None:
            return False
        self.world.went_short += 1
        network = self.world.network
        if self.world.interrupted():
            self.say(lambda: f"is struck, and gives {short.link} up")
            network.cut(network.wires[short.link][0])
        else:
            network.send(short.link, frame)
        return True

    def _sought(self, messages: Iterable[Incoming]) -> None:
        for message in messages:
            self.world.counters.letters[message.payload].sought = True

    def read(self, task: SimTask, message: Incoming) -> None:
        """Run a callback, unless the message has expired."""
        world, number = self.world, message.payload
        trace: Trace | None = message._trace
        if trace is not None:
            trace.record_extracted()
        if message._receipt is not None:
            taken = (message._receipt, message._number, 1, message._size)
            self.remote.on_extracted([taken], world.now)
        if message.kind is Kind.NOTIFICATION:
            if any(each in task.subscriptions for each in message.subscriptions):
                self.say(lambda: f"{task.name} hears {number}")
                if trace is not None:
                    trace.record_delivered()
                task.gaps.append(message.gap)
                way = self._ways.pop((number, task.id), None)
                source = message._source.id
                world.counters.notified(number, source, task.id, message.gap, way)
            elif trace is not None:
                trace.record_discarded(BusReason.UNWANTED)
            return
        if message._deadline is not None and message._deadline <= world.now:
            if trace is not None:
                told = not (message.wants_reply or message._source.remote)
                trace.record_failed(ExpiredError(task.name), told=told)
            world.counters.expired(number)
            return
        self.say(lambda: f"{task.name} takes {number}")
        if trace is not None:
            trace.record_delivered()
        world.counters.taken(number, task.id, task.name)
        if message.wants_reply:
            if world.random.random() < 0.7:
                self.answer(message)
            else:
                task.kept.append(message)

    def answer(self, message: Incoming) -> None:
        """Answer a question, local or remote."""
        self._pass_on()
        source: Entry = message._source
        if source.remote:
            if not self._goes_at_once(
                source.mailbox.peer, lambda way: way.answer(message, message.payload)
            ):
                self.remote.answer(message, message.payload)
        elif self._task(source) is not None:
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
        self.world.counters.notifies(number, task.id)
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
        self.remote.notify(task.entry, number, trace=trace)
        self.settle()
        return number

    def subscribe(self, task: SimTask, specification: str) -> None:
        """Subscribe a task to others."""
        self._pass_on()
        self.say(lambda: f"{task.name} subscribes to {specification}")
        asked = Asked(task.entry, Specification.parse(specification))
        task.subscriptions.append(asked)
        task.changes += 1
        self.manager.subscribe(asked)
        self.settle()

    def watch(self, task: SimTask, specification: str) -> None:
        """Start a watch of a task."""
        self._pass_on()
        self.say(lambda: f"{task.name} watches {specification}")
        watch = Asked(task.entry, Specification.parse(specification))
        task.watches.append(watch)
        task.present[watch] = set()
        self.do(self.manager.watch(watch))
        self.settle()

    def unwatch(self, task: SimTask) -> None:
        """End all watches of a task."""
        self._pass_on()
        for watch in task.watches:
            self.manager.unwatch(watch)
        task.watches.clear()
        task.present.clear()
        self.settle()

    def unsubscribe(self, task: SimTask) -> None:
        """End all subscriptions of a task."""
        self._pass_on()
        self.say(lambda: f"{task.name} unsubscribes")
        for asked in task.subscriptions:
            self.manager.unsubscribe(asked)
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


def _read(message: Incoming) -> Incoming:
    """Turn a payload sent as bytes back into a number."""
    if isinstance(message.payload, bytes):
        message.payload = int.from_bytes(message.payload)
    return message
