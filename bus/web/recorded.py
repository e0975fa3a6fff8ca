"""`Recording`: the history of a bus from the journals of its processes.

The time of the recording is divided into steps, at most `_STEPS`. Each journal is one
process. Its records change the rows of its tasks, and at the end of each step with a
change the view of the process is kept. So the whole is read once, and the memory
depends on the number of changes, not of records.

A journal has each message that was lost, so each row about a loss names one message;
`Recording.way` finds all records of it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.journal.format import Flag, RecordKind
from bus.journal.messages import task_names
from bus.journal.reader import open_journals
from bus.journal.wording import INSPECTOR, PID, PROCESS
from bus.model.address import is_system
from bus.model.events import BusReason
from bus.web.losses import Loss, from_reason, process_lost
from bus.web.picture import (
    COLUMNS,
    Change,
    History,
    Picture,
    Round,
    Row,
    View,
    key_of,
    totals_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from bus.journal.format import Record
    from bus.journal.reader import StoredJournal

__all__ = ["Recording"]

_STEPS: Final = 600
_STEP_NS_MIN: Final = 10**7
_DELAYS_MAX: Final = 200_000
_STEPS_OF_WAY_MAX: Final = 500
_ANSWER, _NOTIFICATION = int(Flag.ANSWER), int(Flag.NOTIFICATION)
_SORTS: Final = {
    0: "command",
    _NOTIFICATION: "notification",
    _ANSWER: "answer",
    _ANSWER | _NOTIFICATION: "answer to a notification",
}
_LOSSES: Final = {RecordKind.DISCARD, RecordKind.UNDELIVERED, RecordKind.IN_DOUBT}
_ENDS: Final = {BusReason.LEFT: "left"}

# What a record says about a message.
_STEPS_OF_WAY: Final = {
    RecordKind.COMMAND: "accepted for {to}",
    RecordKind.RESPOND: "accepted for {to}",
    RecordKind.NOTIFY: "accepted for {to}",
    RecordKind.RELAY_OUT: "put on a link, hop {hop}",
    RecordKind.RELAY_IN: "read from a link, hop {hop}",
    RecordKind.EXTRACT: "taken out of the queue of {to}",
    RecordKind.DELIVER: "handed to {to}",
    RecordKind.DISCARD: "will not be delivered to {to}, and its sender is not told:",
    RecordKind.UNDELIVERED: "will not be delivered to {to}, and its sender is told:",
    RecordKind.IN_DOUBT: "may or may not have reached {to}:",
}


@attrs.frozen
class _Names:
    """The names in a recording.

    tasks: of each registration; "" for a process.
    homes: the key of the process of each registration.
    """

    tasks: Mapping[int, str]
    homes: Mapping[int, str]

    def task(self, registration: int) -> str:
        """Return the name of a task, or of a process."""
        if name := self.tasks.get(registration, ""):
            return name
        home = self.homes.get(registration)
        return "an unknown task" if home is None else PROCESS % home


@attrs.define(eq=False)
class _Task:
    """A task, and the counts of its messages so far; as `COLUMNS` names them."""

    name: str
    thread: str
    commands: int = 0
    notifications: int = 0
    unread: int = 0
    dropped: int = 0
    expired: int = 0
    refused: int = 0
    late: int = 0
    subscriptions: dict[int, str] = attrs.field(factory=dict)
    handled_before: int = 0
    lost_before: int = 0

    def row(self, step_s: float) -> Row:
        """Return its row at the end of a step, from which the next one begins."""
        handled, lost = self.commands + self.notifications, self.dropped + self.refused
        rate = round((handled - self.handled_before) / step_s, 1)
        state = "full" if lost > self.lost_before else ""
        self.handled_before, self.lost_before = handled, lost
        known = {
            "thread": self.thread,
            "visibility": "",
            "subscriptions": tuple(
                (each, 0, 0) for each in self.subscriptions.values()
            ),
            "per_s": rate,
            "state": state,
        }
        return tuple(
            known[each] if each in known else getattr(self, each, 0) for each in COLUMNS
        )


class Recording:
    """A recording as the page shows it.

    history: its rounds, one for each step.
    """

    def __init__(
        self, journals: list[StoredJournal], names: _Names, keys: Mapping[int, str]
    ) -> None:
        self.history: Final = History(kept=_STEPS + 1, losses_kept=10_000)
        self._journals: Final = journals
        self._names: Final = names
        self._keys: Final = keys

    @classmethod
    def read(cls, directory: str) -> Self:
        """Read the journals at or below a folder.

        Raises:
            JournalError: there is none, or two are copies of one.
        """
        journals = open_journals(directory)
        homes: dict[int, str] = {}
        keys: dict[int, str] = {}
        begin: list[int] = []
        end: list[int] = []
        count = 0
        for journal in journals:
            process = PID % (journal.meta.pid or "?")
            own: list[int] = []
            last: int | None = None
            for record in journal.records():
                count += 1
                if record.kind == RecordKind.REGISTER:
                    own.append(record.flow)
                    name = journal.name(record.task)
                    if name.startswith(INSPECTOR):
                        process = name.removeprefix(INSPECTOR)
                if record.kind in {RecordKind.OPEN, RecordKind.REGISTER}:
                    begin.append(journal.wall_ns(record.mono))
                last = record.mono
            if last is not None:
                end.append(journal.wall_ns(last))
            keys[journal.id] = key_of(journal.machine, process)
            homes |= dict.fromkeys(own, keys[journal.id])
        recording = cls(journals, _Names(task_names(journals), homes), keys)
        first, final = min(begin, default=0), max(end, default=0)
        recording._fold(first, final, 1 + count // (2 * _DELAYS_MAX))
        return recording

    def _fold(self, begin_ns: int, end_ns: int, stride: int) -> None:
        """Make the rounds; stride: of which messages the delay is measured."""
        step_ns = max(_STEP_NS_MIN, (end_ns - begin_ns) // _STEPS + 1)
        steps = (end_ns - begin_ns) // step_ns + 1
        changes: defaultdict[int, list[Change]] = defaultdict(list)
        losses: defaultdict[int, list[Loss]] = defaultdict(list)
        delays = _Delays(stride)
        for journal in self._journals:
            fold = _Fold(journal, self._keys[journal.id], self._names, delays)
            clock = begin_ns, step_ns
            for step, change in fold.changes(clock, steps):
                changes[step].append(change)
            for loss in fold.losses:
                losses[(loss.at_ns - begin_ns) // step_ns].append(loss)
        delays_us = delays.by_step(begin_ns, step_ns)
        picture = Picture()
        for step in range(steps):
            picture.apply(changes[step])
            totals = picture.totals()
            rows = sorted(losses[step], key=lambda each: each.at_ns)
            totals.lost = len(rows)
            if found := sorted(delays_us[step]):
                places = len(found) // 2, len(found) * 99 // 100
                totals.delay_us = found[places[0]], found[places[1]]
            self.history.add(
                Round(
                    number=step + 1,
                    at_ns=begin_ns + (step + 1) * step_ns,
                    changes=changes[step],
                    totals=totals,
                    losses=rows,
                )
            )

    def way(self, message: str) -> list[dict[str, Any]]:
        """Return the steps of a message, in the order of their times.

        message: as `Loss.message` has it.

        Raises:
            ValueError: it is none of a message.
        """
        try:
            origin, mid, sort = (int(part, 16) for part in message.split("."))
        except ValueError:
            raise ValueError(f"{message[:60]!r} is no message of a loss") from None
        found: list[dict[str, Any]] = [
            {
                "at_ns": journal.wall_ns(record.mono),
                "process": self._keys[journal.id],
                "what": self._step(record),
            }
            for journal in self._journals
            for record in journal.records()
            if record.origin == origin
            and record.mid == mid
            and record.kind in _STEPS_OF_WAY
            and record.flags & (_ANSWER | _NOTIFICATION) == sort
        ]
        found.sort(key=lambda step: step["at_ns"])
        return found[:_STEPS_OF_WAY_MAX]

    def _step(self, record: Record) -> str:
        words = _STEPS_OF_WAY[RecordKind(record.kind)]
        text = words.format(to=self._names.task(record.flow), hop=record.hop)
        if record.kind in _LOSSES:
            text += f" {from_reason(record.reason)[2]}"
        return text


class _Delays:
    """The time from the acceptance of messages to their callbacks, on one machine.

    stride: one in so many messages is measured.
    """

    def __init__(self, stride: int) -> None:
        self._stride: Final = stride
        self._accepted: Final[dict[tuple[int, int], tuple[int, str]]] = {}
        self._delivered: Final[list[tuple[tuple[int, int], int, str]]] = []

    def take(self, record: Record, wall_ns: int, machine: str) -> None:
        """Take an acceptance or a delivery of a command or notification."""
        if record.mid % self._stride:
            return
        key = record.origin, record.mid
        if record.kind == RecordKind.DELIVER:
            self._delivered.append((key, wall_ns, machine))
        elif not record.hop and len(self._accepted) < _DELAYS_MAX:
            self._accepted.setdefault(key, (wall_ns, machine))

    def by_step(self, begin_ns: int, step_ns: int) -> defaultdict[int, list[float]]:
        """Return the delays in microseconds by the step of the callback."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for key, wall_ns, machine in self._delivered:
            accepted = self._accepted.get(key)
            if accepted is not None and accepted[1] == machine:
                delay_us = max(0.0, (wall_ns - accepted[0]) / 1000)
                found[(wall_ns - begin_ns) // step_ns].append(delay_us)
        return found


class _Fold:
    """The state of one process, while its records are read in order.

    losses: those found so far.
    """

    def __init__(
        self, journal: StoredJournal, key: str, names: _Names, delays: _Delays
    ) -> None:
        self.losses: Final[list[Loss]] = []
        self._journal: Final = journal
        self._key: Final = key
        self._names: Final = names
        self._delays: Final = delays
        self._tasks: Final[dict[int, _Task]] = {}
        # By the key of the other process: its link, and how many messages it carried.
        self._links: Final[dict[str, dict[str, Any]]] = {}
        self._posted_before: dict[str, int] = {}
        self._state = ""

    def changes(
        self, clock: tuple[int, int], steps: int
    ) -> Iterable[tuple[int, Change]]:
        """Yield the changes of the process, each with its step.

        clock: the begin of the recording and the length of a step, in nanoseconds.
        """
        begin_ns, step_ns = clock
        picture, current, step_s = Picture(), -1, step_ns / 1e9
        for record in self._journal.records():
            wall_ns = self._journal.wall_ns(record.mono)
            # Threads draw the number of a record before they read the clock, so that
            # one may seem to go back.
            step = min(max(current, (wall_ns - begin_ns) // step_ns), steps - 1)
            if step > current >= 0:
                yield current, picture.update(self._key, self._view(step_s))
                if step > current + 1:  # the rates fall to 0
                    yield current + 1, picture.update(self._key, self._view(step_s))
            current = step
            self._take(record, wall_ns)
        if current >= 0:
            yield current, picture.update(self._key, self._view(step_s))
            if current + 1 < steps:
                yield current + 1, picture.update(self._key, self._view(step_s))

    def _view(self, step_s: float) -> View:
        tasks = {each.name: each.row(step_s) for each in self._tasks.values()}
        links = []
        for key, link in self._links.items():
            rise = link["posted"] - self._posted_before.get(key, 0)
            self._posted_before[key] = link["posted"]
            links.append(link | {"to": key, "per_s": round(rise / step_s, 1)})
        meta = self._journal.meta
        machine, _, process = self._key.partition("/")
        threads = sorted({each.thread for each in self._tasks.values()})
        idle = {"busy_s": None, "blocked": 0, "state": ""}
        facts = {
            "machine": machine,
            "process": process,
            "pid": meta.pid,
            "role": "",
            "state": self._state,
            "why": "",
            "threads": dict.fromkeys(threads, idle),
            "links": links,
            "queues": [],
            "parked": {},
            "machines": [],
            "totals": totals_of(tasks),
        }
        return View(facts, tasks)

    def _take(self, record: Record, wall_ns: int) -> None:
        kind, task = record.kind, self._tasks.get(record.flow)
        name = self._journal.name(record.task)
        if kind == RecordKind.REGISTER:
            if name and not is_system(name):
                thread = self._journal.thread(record.thread) or "?"
                self._tasks[record.flow] = _Task(name, thread)
        elif kind == RecordKind.DEREGISTER:
            self._tasks.pop(record.flow, None)
        elif kind == RecordKind.CLOSE:
            self._tasks.clear()
            self._state = "left"
        elif kind == RecordKind.SUBSCRIBE and task is not None:
            task.subscriptions[record.mid] = name
        elif kind == RecordKind.UNSUBSCRIBE and task is not None:
            task.subscriptions.pop(record.mid, None)
        elif kind in {RecordKind.LINK_UP, RecordKind.LINK_DOWN}:
            self._take_link(record, wall_ns)
        elif kind in _LOSSES:
            self._take_loss(record, task, wall_ns)
        elif kind == RecordKind.RELAY_OUT:
            self._take_sent(record)
        elif not record.flags & _ANSWER and task is not None:
            self._take_message(record, task)
            if kind in {RecordKind.COMMAND, RecordKind.NOTIFY, RecordKind.DELIVER}:
                self._delays.take(record, wall_ns, self._journal.machine)
        elif kind in {RecordKind.COMMAND, RecordKind.NOTIFY}:
            self._delays.take(record, wall_ns, self._journal.machine)

    def _take_message(self, record: Record, task: _Task) -> None:
        """Count a step of a command or notification for a task of this process."""
        match record.kind:
            case RecordKind.COMMAND | RecordKind.NOTIFY:
                task.unread += 1
            case RecordKind.RELAY_IN:
                task.unread += 1
            case RecordKind.EXTRACT:
                task.unread = max(0, task.unread - 1)
            case RecordKind.DELIVER:
                task.thread = self._journal.thread(record.thread) or task.thread
                if record.flags & _NOTIFICATION:
                    task.notifications += 1
                else:
                    task.commands += 1

    def _take_sent(self, record: Record) -> None:
        key = self._names.homes.get(record.flow)
        if key is not None and not is_system(self._names.tasks.get(record.flow, "")):
            link = self._links.setdefault(key, _new_link())
            link["posted"] += 1

    def _take_link(self, record: Record, wall_ns: int) -> None:
        journal = self._journal
        key = key_of(journal.name(record.peer), journal.name(record.task))
        link = self._links.setdefault(key, _new_link())
        if record.kind == RecordKind.LINK_UP:
            link["state"] = ""
            return
        try:
            link["state"] = _ENDS.get(BusReason(record.reason), "lost")
        except ValueError:
            link["state"] = "lost"
        if link["state"] == "lost":
            self.losses.append(process_lost(key, wall_ns))

    def _take_loss(self, record: Record, task: _Task | None, wall_ns: int) -> None:
        to, sender = (
            self._names.task(record.flow),
            self._names.task(record.origin),
        )
        if is_system(to) or is_system(sender):
            return
        sort = record.flags & (_ANSWER | _NOTIFICATION)
        gone = record.reason == BusReason.ADDRESSEE_GONE and not sort
        if gone and record.kind == RecordKind.DISCARD:
            return  # its further course follows
        kind, rule, why, do = from_reason(record.reason)
        if record.kind == RecordKind.IN_DOUBT:
            kind, rule, why, do = from_reason(BusReason.PROCESS_LOST)
            if link := self._links.get(self._names.homes.get(record.flow, "")):
                link["in_doubt"] += 1
        what = f"{_SORTS[sort]} {record.mid} of {sender} for {to}"
        where = to if task is not None else ""
        message = f"{record.origin:x}.{record.mid:x}.{sort:x}"
        self.losses.append(
            Loss(wall_ns, kind, 1, what, self._key, where, rule, why, do, message)
        )
        if task is not None and not sort & _ANSWER:
            task.unread = max(0, task.unread - 1)
            if kind in {"dropped", "expired", "refused", "late"}:
                setattr(task, kind, getattr(task, kind) + 1)


def _new_link() -> dict[str, Any]:
    return {"kind": "", "state": "", "posted": 0, "in_doubt": 0}
