"""`Recording`: the history of a bus from the journals of its processes.

The time of the recording is divided into steps, at most `_STEPS`. Each journal is one
run of a process. Its records change the rows of its tasks, and at the end of each step
with a change the view of the process is kept. So the memory depends on the number of
changes, not of records.

A journal has each message that was lost, so each row about a loss names one message;
`Recording.way` finds all records of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

from bus.journal.format import Flag, RecordKind
from bus.journal.messages import task_names
from bus.journal.reader import open_journals
from bus.journal.wording import INSPECTOR, PID, PROCESS
from bus.model.address import is_system
from bus.model.events import BusReason
from bus.web.losses import Loss, from_reason, messages_in, process_lost
from bus.web.picture import (
    COLUMNS,
    Change,
    History,
    Picture,
    Round,
    Row,
    View,
    key_of,
    percentiles,
    totals_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
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
    """A task, and the counts of its messages so far; as `COLUMNS` names them.

    changed: True if its row may be another one than the last.
    """

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
    changed: bool = True
    last: Row = ()

    def row(self, step_s: float) -> Row:
        """Return its row at the end of a step, from which the next one begins."""
        if not self.changed:
            return self.last
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
        self.last = tuple(
            known[each] if each in known else getattr(self, each, 0) for each in COLUMNS
        )
        self.changed = bool(rate or state)  # both fall in the next step
        return self.last


@attrs.define(eq=False)
class _Run:
    """One run of a process: its journal, and when it began and ended.

    has_left: True if it ended in order.
    lost_ns: when another process lost it; None if none did, or it ended in order.
    """

    journal: StoredJournal
    begin_ns: int
    end_ns: int
    has_left: bool
    lost_ns: int | None = None


class Recording:
    """A recording as the page shows it.

    history: its rounds, one for each step.
    """

    def __init__(self, runs: Mapping[str, list[_Run]], names: _Names) -> None:
        self.history: Final = History(kept=_STEPS + 1, losses_kept=10_000)
        self._runs: Final = runs
        self._names: Final = names

    @classmethod
    def read(cls, directory: str) -> Self:
        """Read the journals at or below a folder.

        Raises:
            JournalError: there is none, or two are copies of one.
        """
        journals = open_journals(directory)
        homes: dict[int, str] = {}
        runs: defaultdict[str, list[_Run]] = defaultdict(list)
        lost: defaultdict[str, list[int]] = defaultdict(list)
        count = 0
        for journal in journals:
            process = PID % (journal.meta.pid or "?")
            own: list[int] = []
            begin_ns = mono = 0
            has_left = False
            for record in journal.records():
                count += 1
                mono = record.mono
                begin_ns = begin_ns or journal.wall_ns(mono)
                if record.kind == RecordKind.REGISTER:
                    own.append(record.flow)
                    name = journal.name(record.task)
                    if name.startswith(INSPECTOR):
                        process = name.removeprefix(INSPECTOR)
                elif record.kind == RecordKind.CLOSE:
                    has_left = True
                elif record.kind == RecordKind.LINK_DOWN and _is_loss(record):
                    lost[_peer_of(journal, record)].append(journal.wall_ns(mono))
            key = key_of(journal.machine, process)
            homes |= dict.fromkeys(own, key)
            if begin_ns:
                end_ns = journal.wall_ns(mono)
                runs[key].append(_Run(journal, begin_ns, end_ns, has_left))
        for key, each in runs.items():
            _order(each, sorted(lost[key]))
        recording = cls(runs, _Names(task_names(journals), homes))
        recording._fold(1 + count // (2 * _DELAYS_MAX))
        return recording

    def _fold(self, stride: int) -> None:
        """Make the rounds; stride: of which messages the delay is measured."""
        runs = [run for each in self._runs.values() for run in each]
        begin_ns = min((each.begin_ns for each in runs), default=0)
        end_ns = max((each.lost_ns or each.end_ns for each in runs), default=0)
        clock = _Clock(begin_ns, end_ns)
        changes: defaultdict[int, list[Change]] = defaultdict(list)
        losses: defaultdict[int, list[Loss]] = defaultdict(list)
        delays = _Delays(stride)
        for key, each in self._runs.items():
            fold = _Fold(each, key, self._names, delays)
            for step, change in fold.changes(clock):
                changes[step].append(change)
            for loss in fold.losses:
                losses[clock.step(loss.at_ns)].append(loss)
        delays_us = delays.by_step(clock)
        picture = Picture()
        for step in range(clock.steps):
            picture.apply(changes[step])
            totals = picture.totals()
            rows = sorted(losses[step], key=lambda each: each.at_ns)
            totals.lost = messages_in(rows)
            totals.delay_us = percentiles(delays_us[step])
            self.history.add(
                Round(
                    number=step + 1,
                    at_ns=begin_ns + (step + 1) * clock.step_ns,
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
                "at_ns": run.journal.wall_ns(record.mono),
                "process": key,
                "what": self._step(record),
            }
            for key, runs in self._runs.items()
            for run in runs
            for record in run.journal.records()
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


def _order(runs: list[_Run], lost: list[int]) -> None:
    """Bring the runs of a process in order, and note when each one was lost.

    lost: the times at which another process lost its link with it, in order.
    """
    runs.sort(key=lambda each: each.begin_ns)
    for each, later in zip(runs, [*runs[1:], None], strict=True):
        until = math.inf if later is None else later.begin_ns
        if not each.has_left:
            times = (at for at in lost if each.end_ns <= at <= until)
            each.lost_ns = next(times, None)


def _is_loss(record: Record) -> bool:
    """Return True if a LINK_DOWN was no farewell."""
    return record.reason != BusReason.LEFT


def _peer_of(journal: StoredJournal, record: Record) -> str:
    """Return the key of the process at the other end of a link."""
    return key_of(journal.name(record.peer), journal.name(record.task))


class _Clock:
    """The steps of a recording."""

    def __init__(self, begin_ns: int, end_ns: int) -> None:
        length_ns = end_ns - begin_ns
        self._begin_ns: Final = begin_ns
        self.step_ns: Final = max(_STEP_NS_MIN, length_ns // _STEPS + 1)
        self.steps: Final = length_ns // self.step_ns + 1

    def step(self, wall_ns: int) -> int:
        """Return the step of a time; the first or the last one if it is in none."""
        step = (wall_ns - self._begin_ns) // self.step_ns
        return max(0, min(step, self.steps - 1))


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

    def by_step(self, clock: _Clock) -> defaultdict[int, list[float]]:
        """Return the delays in microseconds by the step of the callback."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for key, wall_ns, machine in self._delivered:
            accepted = self._accepted.get(key)
            if accepted is not None and accepted[1] == machine:
                delay_us = max(0.0, (wall_ns - accepted[0]) / 1000)
                found[clock.step(wall_ns)].append(delay_us)
        return found


class _Fold:
    """The state of one process, while the records of its runs are read in order.

    losses: those found so far.
    """

    def __init__(
        self, runs: list[_Run], key: str, names: _Names, delays: _Delays
    ) -> None:
        self.losses: Final[list[Loss]] = []
        self._runs: Final = runs
        self._journal = runs[0].journal
        self._key: Final = key
        self._names: Final = names
        self._delays: Final = delays
        self._tasks: Final[dict[int, _Task]] = {}
        # By the key of the other process: its link, and how many messages it carried.
        self._links: Final[dict[str, dict[str, Any]]] = {}
        self._posted_before: Final[dict[str, int]] = {}
        self._state = ""

    def changes(self, clock: _Clock) -> Iterable[tuple[int, Change]]:
        """Yield the changes of the process, each with its step."""
        picture, current, step_s = Picture(), -1, clock.step_ns / 1e9

        def change(step: int) -> tuple[int, Change]:
            return step, picture.update(self._key, self._view(step_s))

        for wall_ns, run, record in self._records():
            # Threads draw the number of a record before they read the clock, so that
            # one may seem to go back.
            step = max(current, clock.step(wall_ns))
            if step > current >= 0:
                yield change(current)
                if step > current + 1:  # the rates fall to 0
                    yield change(current + 1)
            current = step
            if self._journal is not run.journal:
                self._journal = run.journal
                self._end("")
                self._links.clear()
                self._posted_before.clear()
            if record is None:
                self._end("lost")
            else:
                self._take(record, wall_ns)
        yield change(current)
        if current + 1 < clock.steps:
            yield change(current + 1)

    def _records(self) -> Iterator[tuple[int, _Run, Record | None]]:
        """Yield all records with their times; None for the loss of the process."""
        for run in self._runs:
            for record in run.journal.records():
                yield run.journal.wall_ns(record.mono), run, record
            if run.lost_ns is not None:
                yield run.lost_ns, run, None

    def _end(self, state: str) -> None:
        """Remove all tasks; the process has another state from now on."""
        self._tasks.clear()
        self._state = state

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

    def _changing(self, flow: int) -> _Task | None:
        """Return a task whose row may change now; None if there is none."""
        task = self._tasks.get(flow)
        if task is not None:
            task.changed = True
        return task

    def _take(self, record: Record, wall_ns: int) -> None:
        kind, task = record.kind, self._changing(record.flow)
        name = self._journal.name(record.task)
        if kind == RecordKind.REGISTER:
            if name and not is_system(name):
                thread = self._journal.thread(record.thread) or "?"
                self._tasks[record.flow] = _Task(name, thread)
        elif kind == RecordKind.DEREGISTER:
            self._tasks.pop(record.flow, None)
        elif kind == RecordKind.CLOSE:
            self._end("left")
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
        key = _peer_of(self._journal, record)
        link = self._links.setdefault(key, _new_link())
        if record.kind == RecordKind.LINK_UP:
            link["state"] = ""
        elif _is_loss(record):
            link["state"] = "lost"
            self.losses.append(process_lost(key, wall_ns))
        else:
            link["state"] = "left"

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
