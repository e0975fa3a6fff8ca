"""Generated traffic of a bus, drawn from a seed, as its recorders would record it.

`clean_bus` lets tasks in some processes, one journal each, send one another commands,
notifications and answers, as `bus.journal.bus_recorder` defines them, at random and
without a fault. This module uses neither the bus, the recorder nor a checker.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import attrs

from bus.journal.format import Flag, RecordKind
from bus.model.events import BusReason
from queuebroker.observer import Reason
from tests.journal.deaths import KILLED, death
from tests.journal.history import Entry, History

if TYPE_CHECKING:
    from tests.journal.disk import Condition

__all__ = ["TASKS", "clean_bus", "kill_on_bus", "process", "step", "subscribe", "task"]

TASKS: Final = 3  # per process


def process(journal: int) -> int:
    """Return the number of a journal's process on the bus."""
    return 100 * (1 + journal)


def task(journal: int, place: int = 0) -> int:
    """Return the registration of one of its tasks."""
    return process(journal) + 1 + place


def step(
    kind: RecordKind,
    origin: int,
    mid: int,
    destination: int,
    *,
    journal: int = 0,
    hop: int = 0,
    flags: int = 0,
    reason: BusReason | None = None,
) -> Entry:
    """One record of one message."""
    return Entry(
        kind,
        port=mid,
        size=8,
        reason=reason or Reason.NONE,
        journal=journal,
        origin=origin,
        destination=destination,
        hop=hop,
        flags=flags,
    )


def subscribe(task: int, number: int, pattern: str) -> Entry:
    """The record of a subscription."""
    return Entry(
        RecordKind.SUBSCRIBE,
        port=number,
        task=pattern,
        journal=home(task),
        origin=task,
        destination=task,
    )


@attrs.define
class _Message:
    """One message in transit."""

    origin: int
    flags: int
    mid: int
    destination: int
    hop: int = 0

    def entry(
        self, kind: RecordKind, journal: int, reason: BusReason | None = None
    ) -> Entry:
        who = self.origin, self.mid, self.destination
        where = {"journal": journal, "hop": self.hop}
        return step(kind, *who, **where, flags=self.flags, reason=reason)


class _Bus:
    """Mailboxes, links between all processes, and the records."""

    def __init__(self, history: History, rng: Random) -> None:
        self.history, self.rng = history, rng
        self.tasks = [
            task(journal, place)
            for journal in range(history.journals)
            for place in range(TASKS)
        ]
        self.last_mid = dict.fromkeys(self.tasks, 0)
        self.boxes: dict[int, list[_Message]] = {each: [] for each in self.tasks}
        self.links: dict[tuple[int, int], list[_Message]] = {}
        self.questions: list[tuple[int, _Message]] = []
        for journal in range(history.journals):
            self._register(process(journal), "")
        for each in self.tasks:
            self._register(each, f"task-{each}")
        # The numbers of their subscriptions.
        self.subscribed: dict[int, int] = {}
        for each in self.tasks:
            self.subscribe(each)

    def subscribe(self, task: int) -> None:
        number = len(self.history.entries)
        self.subscribed[task] = number
        pattern = self.rng.choice(["*", "**"])
        self.history.entries.append(subscribe(task, number, pattern))

    def change(self) -> None:
        """A task ends its subscription, or subscribes again."""
        if not self.tasks:
            return
        each = self.rng.choice(self.tasks)
        if (number := self.subscribed.pop(each, None)) is None:
            self.subscribe(each)
            return
        ended = subscribe(each, number, "")
        ended.kind = RecordKind.UNSUBSCRIBE
        self.history.entries.append(ended)

    def _register(self, registration: int, name: str) -> None:
        entry = Entry(
            RecordKind.REGISTER,
            task=name,
            journal=home(registration),
            origin=registration,
            destination=registration,
        )
        self.history.entries.append(entry)

    def act(self) -> None:
        acts = [self.command, self.notify, self.answer, self.read, self.cross]
        act = self.rng.choices(
            [*acts, self.drop, self.change, self.leave], [6, 3, 3, 12, 8, 1, 1, 0.3]
        )[0]
        act()

    def command(self) -> None:
        if self.tasks:
            sender = self.rng.choice(self.tasks)
            self.last_mid[sender] += 1
            mid, to = self.last_mid[sender], self.rng.choice(self.tasks)
            self._accept(RecordKind.COMMAND, _Message(sender, 0, mid, to))

    def notify(self) -> None:
        if not self.tasks:
            return
        sender = self.rng.choice(self.tasks)
        self.last_mid[sender] += 1
        mid, flags = self.last_mid[sender], int(Flag.NOTIFICATION)
        hearers = [each for each in self.subscribed if self.rng.random() < 0.5]
        here = home(sender)
        for each in hearers:
            if home(each) == here:
                self._accept(RecordKind.NOTIFY, _Message(sender, flags, mid, each))
        for there in sorted({home(each) for each in hearers} - {here}):
            self._accept(
                RecordKind.NOTIFY, _Message(sender, flags, mid, process(there))
            )

    def answer(self) -> None:
        if self.questions:
            at = self.rng.randrange(len(self.questions))
            responder, question = self.questions.pop(at)
            if responder in self.tasks and question.origin in self.tasks:
                flags = question.flags | int(Flag.ANSWER)
                who = responder, flags, question.mid, question.origin
                self._accept(RecordKind.RESPOND, _Message(*who))

    def read(self) -> None:
        full = [each for each in self.tasks if self.boxes[each]]
        if full:
            reader = self.rng.choice(full)
            message = self.boxes[reader].pop(0)
            here = home(reader)
            self._note(message, RecordKind.EXTRACT, here)
            notified = message.flags == Flag.NOTIFICATION
            if notified and reader not in self.subscribed:
                self._note(message, RecordKind.DISCARD, here, BusReason.UNWANTED)
                return
            self._note(message, RecordKind.DELIVER, here)
            if not message.flags & Flag.ANSWER:
                self.questions.append((reader, message))

    def cross(self) -> None:
        busy = [link for link, under_way in self.links.items() if under_way]
        if not busy:
            return
        link = self.rng.choice(busy)
        message = self.links[link].pop(0)
        _, there = link
        fate = self.rng.random()
        if fate < 0.05:
            self._note(message, RecordKind.IN_DOUBT, home(message.origin))
            return
        self._note(message, RecordKind.RELAY_IN, there)
        if message.destination != process(there):
            self._post(message)
            return
        self._note(message, RecordKind.DELIVER, there)
        for each in self.subscribed:
            if home(each) == there and self.rng.random() < 0.6:
                self._accept(RecordKind.NOTIFY, attrs.evolve(message, destination=each))

    def drop(self) -> None:
        full = [each for each in self.tasks if self.boxes[each]]
        if full:
            reader = self.rng.choice(full)
            message = self.boxes[reader].pop(0)
            self._note(message, RecordKind.DISCARD, home(reader), BusReason.OLDEST)

    def leave(self) -> None:
        if not self.tasks:
            return
        leaver = self.rng.choice(self.tasks)
        if any(m.destination == leaver for link in self.links.values() for m in link):
            return
        self.tasks.remove(leaver)
        self.subscribed.pop(leaver, None)
        for message in self.boxes[leaver]:
            kind = self.rng.choice([RecordKind.UNDELIVERED, RecordKind.DISCARD])
            self._note(message, kind, home(leaver), BusReason.ADDRESSEE_GONE)
        self.history.entries.append(
            Entry(
                RecordKind.DEREGISTER,
                journal=home(leaver),
                origin=leaver,
                destination=leaver,
            )
        )

    def _accept(self, kind: RecordKind, message: _Message) -> None:
        here = home(message.origin) if not message.hop else home(message.destination)
        self._note(message, kind, here)
        there = home(message.destination)
        if there == here:
            self._post(message)
            return
        message.hop += 1
        self._note(message, RecordKind.RELAY_OUT, here)
        self.links.setdefault((here, there), []).append(message)

    def _post(self, message: _Message) -> None:
        if message.destination in self.tasks:
            self.boxes[message.destination].append(message)
        else:
            where, why = home(message.destination), BusReason.ADDRESSEE_GONE
            self._note(message, RecordKind.UNDELIVERED, where, why)

    def _note(
        self,
        message: _Message,
        kind: RecordKind,
        journal: int,
        reason: BusReason | None = None,
    ) -> None:
        self.history.entries.append(message.entry(kind, journal, reason))


def home(registration: int) -> int:
    """Return the journal of a registration's process."""
    return registration // 100 - 1


def clean_bus(seed: int, *, journals: int = 2, steps: int = 200) -> History:
    """Return a bus history without violations; some messages are under way."""
    rng = Random(seed)
    history = History(journals=journals)
    bus = _Bus(history, rng)
    for _ in range(steps):
        bus.act()
    history.number()
    return history


def kill_on_bus(
    history: History, dead: int, at: int, *, unrecorded: bool = False
) -> dict[int, Condition]:
    """Kill the process of journal ``dead`` of two after ``at`` records of messages.

    Its later steps, and their consequences, do not happen; the other process records
    the death. Returns the conditions in which the journals are found.

    unrecorded: True if its last step is not on record.
    """
    first = sum(entry.kind is RecordKind.REGISTER for entry in history.entries) + at
    before, after = history.entries[:first], history.entries[first:]
    last = [entry for entry in before if entry.journal == dead][-1]
    if unrecorded and last.kind is not RecordKind.REGISTER:
        before.remove(last)
    survives = []
    stopped = set()
    for entry in after:
        if entry.journal == dead:
            stopped.add(_message_of(entry))
        elif _message_of(entry) not in stopped:
            survives.append(entry)
    history.entries = [*before, *survives, death(dead, 1 - dead)]
    history.number()
    return {dead: KILLED}


def _message_of(entry: Entry) -> tuple[int, ...]:
    return entry.origin, entry.flags, entry.port, entry.destination
