"""`Performer`: performs the actions that the managers of a process decide on."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bus.features.machines.any_machine import AnyMachineNames, Bind
from bus.features.subscriptions.presence import PresenceReport
from bus.kernel.tasks.actions import (
    Action,
    Answer,
    Confirm,
    Dial,
    Evict,
    Fail,
    HangUp,
    Open,
    Post,
    Send,
    Settled,
    Vacate,
)
from bus.kernel.tasks.runs import InboundRun
from bus.kernel.wire import AddRelay, encode
from bus.model.events import BusReason
from bus.model.message import Incoming, Kind
from tests.simulate.counters import BrokenPromiseError
from tests.simulate.task import Asked
from tests.simulate.words import words

if TYPE_CHECKING:
    from bus.kernel.tasks.routing_table import Entry
    from bus.model.message import Presence
    from tests.simulate.process import SimProcess
    from tests.simulate.task import SimTask

__all__ = ["Performer"]


class Performer:
    """It puts frames on links and messages in mailboxes, and counts the outcomes."""

    def __init__(self, process: SimProcess) -> None:
        self._process = process

    def perform(self, actions: list[Action]) -> None:
        """Perform actions, in order."""
        todo = deque(actions)
        while todo:
            todo.extend(self.act(todo.popleft()))

    def act(self, action: Action) -> list[Action]:
        """Perform one action; return those that follow from it."""
        world, process = self._process.world, self._process
        match action:
            case Send(link, frame):
                process.say(lambda: f"--> {self._other(link)} {words(frame)}")
                if world.frames is not None:
                    to = world.network.other(link)
                    world.frames.append((process, to, frame))
                if isinstance(frame, AddRelay):
                    world.checks.answer(process, frame)
                world.trace_sink.sent(process, frame)
                world.network.send(link, encode(frame))
            case Post(entry, posted):
                task = process.task_of(entry)
                for each in posted:
                    run = each.rest() if isinstance(each, InboundRun) else [each]
                    for message in map(_read, run):
                        if task is not None and message.kind is Kind.NOTIFICATION:
                            task.ways[message.payload] = self._way(message)
                        if task is not None:
                            task.put(message)
            case Answer(entry, number, _, _, error, _, trace):
                process.say(lambda: f"answer to {number}: {error}")
                here = process.task_of(entry) is not None
                if trace is not None and here:
                    trace.record_delivered()
                elif trace is not None:
                    trace.record_discarded(BusReason.UNWANTED)
                if here and error is not None:
                    world.counters.reported(number, error)
                elif here:
                    world.counters.answered(number)
            case Fail(message, error):
                _read(message)
                if message._trace is not None:
                    asker = process.task_of(message._source)
                    reported = asker is not None or not message.wants_reply
                    message._trace.record_failed(error, told=reported)
                process.say(lambda: f"failed {message.payload}: {error}")
                world.counters.reported(message.payload, error)
            case Bind(_, entry, bound):
                while bound:
                    process.send_bound(bound.popleft(), entry)
                assert isinstance(process.manager.any_machine, AnyMachineNames)
                return process.manager.any_machine.on_bound(action, world.now)
            case Open(entry, messages):
                return self._open(entry, list(messages))
            case Vacate(entry, messages, final):
                process.sought(map(_read, messages))
                actions: list[Action] = []
                process.manager.on_emptied(
                    entry, list(messages), world.now, actions, final=final
                )
                return actions
            case Dial(key, kind, addresses):
                world.network.dial(process, kind, key, addresses[0])
            case HangUp(link):
                process.say(lambda: f"hangs up {link}")
                world.network.hang_up(link)
            case Confirm(entry):
                task = process.task_of(entry)
                if task is not None:
                    task.confirmed = True
            case Evict(entry, error):
                process.say(lambda: f"evicted: {error}")
                task = process.task_of(entry)
                if task is not None:
                    return process.leave(task, final=False)
            case Settled(tell):
                tell()
            case PresenceReport(entry, Asked() as watch, presence):
                task = process.task_of(entry)
                if task is not None:
                    self._seen(task, watch, presence)
        return []

    def _seen(self, task: SimTask, watch: Asked, presence: Presence) -> None:
        """Record a presence; the reports on an address must alternate."""
        self._process.say(lambda: f"{task.name} sees {presence}")
        present = task.present.get(watch)
        if present is None:
            return  # the watch was cancelled
        if presence.here == (presence.address in present):
            raise BrokenPromiseError(f"{task.name} is reported twice: {presence}")
        if presence.here:
            present.add(presence.address)
        else:
            present.remove(presence.address)

    def _way(self, message: Incoming) -> object:
        """Return a value that changes when notifications between two tasks may be lost.

        It depends on the session of the two processes, on the subscriptions of the
        receiver, and on those of its process that the notification was sent to: between
        the last notification of one subscription and the first of the next one, others
        may have been sent to neither.
        """
        world = self._process.world
        source, target = message._source, self._process.task_of(message._to)
        assert target is not None
        if not source.remote:
            return target.changes
        session = source.mailbox.peer.session
        requests = frozenset(
            each
            for each in world.counters.requests.get(message.payload, ())
            if (each.machine, each.process) == self._process.key
        )
        return target.changes, session.epoch, session.their_epoch, requests

    def _other(self, link: int) -> str:
        other = self._process.world.network.other(link)
        return f"{'nobody' if other is None else other.name} by {link}:"

    def _open(self, entry: Entry, messages: list[Incoming]) -> list[Action]:
        task = None if entry.remote else self._process.task_of(entry)
        if task is None and not entry.remote:  # deregistered before it was opened
            self._process.world.lost_in_between += messages
            return []
        if entry.remote and entry.host is None:  # stays closed, as in `RelayOutbox`
            assert not messages
            return []
        for message in messages:
            message._to = entry
            if message._trace is not None:
                message._trace.record_accepted(entry.id.number)
        if task is None:
            self._process.remote.outbound_messages.open(entry, messages)
            return []
        task.items.extendleft(reversed(messages))
        task.held = False
        task.review()
        return []


def _read(message: Incoming) -> Incoming:
    """Turn a payload sent as bytes back into a number."""
    if isinstance(message.payload, bytes):
        message.payload = int.from_bytes(message.payload)
    return message
