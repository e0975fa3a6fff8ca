"""`Recorder`: the record of the actions of all tasks of one run, in words.

A run is recorded only for its story, after the search has found that it fails. So
recording may be slow, and all other code first checks whether there is a recorder.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from queuebroker.testing.failure import FailureKind
from queuebroker.testing.places import (
    Place,
    assigned_name,
    place_in,
    place_of,
    place_of_code,
    sleep_text,
)
from queuebroker.testing.task import NEVER, TIME, Obstacle

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import FrameType

    from queuebroker.testing.failure import Trouble
    from queuebroker.testing.instructions import Instruction
    from queuebroker.testing.task import Task

__all__ = ["RUNS", "Notice", "Notices", "Recorder", "Remark", "Step"]

RUNS: Final = "runs"  # the text of a line without any other action


@attrs.frozen
class Notice:
    """One notify of a condition, with the task that made it.

    waiters: the condition's own collection of waiters. in_vain: True if no task slept
      there.
    """

    waiters: Collection[object]
    task: str
    place: Place | None
    in_vain: bool


class Notices:
    """Each `Condition.notify` of one run, and those that came too early.

    A bare ``wait()`` has no predicate. Suppose it never ends, and its condition was
    notified while no task slept there. That may be the cause, or it may be normal, as
    in every loop around a wait. A second run decides: it keeps the notify for the next
    task that waits. If that run succeeds, the wake-up was lost.

    keeping: if True, a notify without a sleeper is kept for the next bare wait in the
    user's code, which then ends at once. A real condition never does this.
    """

    def __init__(self, *, keeping: bool = False) -> None:
        self._keeping = keeping
        self._all: list[Notice] = []

    def add(self, notice: Notice) -> None:
        """Record the notify of a condition."""
        self._all.append(notice)

    def last(self, sleeper: Task) -> Notice | None:
        """Return the last notify of the condition at which a task sleeps."""
        mine = (n for n in reversed(self._all) if sleeper.obstacle in n.waiters)
        return next(mine, None)

    def take(self, waiters: Collection[object]) -> bool:
        """Take the notify kept for a task about to wait; False if there is none."""
        if not self._keeping:
            return False
        for notice in self._all:
            if notice.waiters is waiters and notice.in_vain:
                self._all.remove(notice)
                return True
        return False


@attrs.frozen
class Step:
    """An action of one task, with its place; None if it has no line of source."""

    task: str
    text: str
    place: Place | None


@attrs.frozen
class Remark:
    """An event of the run as a whole."""

    text: str


class RecordedRun(Protocol):
    """The run whose tasks a recorder records."""

    @property
    def now(self) -> float:
        """The virtual time in seconds."""

    @property
    def alive(self) -> Sequence[Task]:
        """The tasks that have not ended, oldest first."""

    @property
    def trouble(self) -> Trouble | None:
        """The first failure."""


class RecordedLock(Obstacle, Protocol):
    """A lock that tasks take and release."""

    @property
    def label(self) -> str:
        """Its name in a story."""

    @property
    def maker(self) -> Task:
        """The task that created it."""

    @property
    def is_private(self) -> bool:
        """True if no other task can have a reference to it."""

    @property
    def is_waiter(self) -> bool:
        """True for the waiter lock of a `Condition`."""


class Recorder:
    """The record of one run: ``events`` in order, and the final state of each task.

    endings: the final state of every task that is alive when the run fails.
    missed: tasks that then sleep in a bare wait, with the notify that came too early.
    """

    def __init__(self, notices: Notices | None = None) -> None:
        self.events: list[Step | Remark] = []
        self.endings: list[Step] = []
        self.missed: list[tuple[str, Notice]] = []
        self.ended_at_s: float = 0.0
        self._labels: dict[str, int] = {}
        # By the frame of a statement: how many objects it has put into one target.
        self._rows: dict[tuple[FrameType, str], int] = {}
        self._given_up: set[RecordedLock] = set()
        self._private: set[RecordedLock] = set()
        self._reached: Instruction | None = None
        self._notices = notices or Notices()

    # Called by the primitives and the scheduler, on the thread of the task concerned.

    def note(self, task: Task, text: str) -> None:
        """Record an action of a task."""
        self.events.append(Step(task.name, text, place_of(sys._getframe(1))))

    def label(self, lock: RecordedLock) -> str:
        """Return a name for a lock, after the variable it is assigned to."""
        if lock.is_waiter:
            return ""
        assigned = assigned_name(sys._getframe(1))
        name = assigned.name or f"a {assigned.kind or 'lock'}"
        if (row := assigned.row) is not None:
            index = self._rows[row, name] = self._rows.get((row, name), -1) + 1
            name = f"{name}[{index}]"
        count = self._labels[name] = self._labels.get(name, 0) + 1
        return assigned.label(name if count == 1 else f"{name} ({count})")

    def arrives(self, run: RecordedRun, task: Task) -> None:
        """Record a task at a switch point, if it cannot go on."""
        if task.obstacle.taken and task.deadline > run.now:
            self.note(task, _obstruction(task, sys._getframe(1)))

    def takes(self, task: Task, lock: RecordedLock) -> None:
        """Record that a task has taken a lock, or was woken by its release."""
        if task.asleep:
            self.note(task, "wakes up")
        elif lock.is_waiter:
            if not lock.is_private:
                self.note(task, "need not sleep: it was woken just before")
        elif lock.is_private:
            self._private.add(lock)
        else:
            self.note(task, f"takes {lock.label}")

    def goes_without(self, task: Task, lock: RecordedLock, *, tried: bool) -> None:
        """Record that a task could not take a lock, or was not woken in time."""
        self._given_up.add(lock)
        self.note(task, f"finds {lock.label} taken" if tried else "is out of time")

    def releases(self, run: RecordedRun, task: Task, lock: RecordedLock) -> None:
        """Record the release of a lock by a task."""
        sleepers = [t for t in run.alive if t.obstacle is lock and t.asleep]
        if any(t.deadline > run.now for t in sleepers):
            self.note(task, f"wakes {sleepers[0].name}")
        elif lock.is_waiter:
            now = "is out of time" if lock in self._given_up else "is about to sleep"
            self.note(task, f"notifies {lock.maker.name}, which {now}")
        elif lock in self._private:
            self._private.remove(lock)  # its acquisition was not recorded either
        else:
            self.note(task, f"lets go of {lock.label}")

    def notifies(self, task: Task, waiters: Collection[object]) -> None:
        """Record the notify of a condition, perhaps while no task sleeps there."""
        place = place_of(sys._getframe(1))
        notice = Notice(waiters, task.name, place, in_vain=not waiters)
        self._notices.add(notice)
        # In `Event.set` and the like a notify without a sleeper is the normal case.
        by_user = place is not None and place.call in {"", "Condition.notify_all"}
        if notice.in_vain and by_user:
            self.events.append(Step(task.name, "notifies nobody", place))

    def need_not_wait(self, waiters: Collection[object]) -> bool:
        """Return True if a notify was kept for a task that is about to wait."""
        place = place_of(sys._getframe(1))
        return place is not None and not place.call and self._notices.take(waiters)

    def reaches(self, instruction: Instruction) -> None:
        """Record that a task is about to execute an instruction: a switch point."""
        self._reached = instruction

    def executes(self, task: Task, instruction: Instruction) -> None:
        """Record that a task executes the instruction.

        Each line is recorded once, unless the task was stopped there.
        """
        place = place_in(sys._getframe(1))
        stopped, self._reached = self._reached is None, None
        if stopped:
            self.events.append(Step(task.name, f"does {instruction.text}", place))
            return
        last = self.events[-1] if self.events else None
        if not isinstance(last, Step) or (last.task, last.place) != (task.name, place):
            self.events.append(Step(task.name, RUNS, place))

    def preempted(self, task: Task, chosen: Task) -> None:
        """Record that a task that could go on must wait for another."""
        reached, self._reached = self._reached, None
        if reached is not None:
            place = place_in(sys._getframe(1))
            self.events.append(Step(task.name, f"comes to {reached.text}", place))
        self.events.append(
            Remark(f"{task.name} is stopped here; {chosen.name} goes on")
        )

    def clock(self, now_s: float, *, early: bool) -> None:
        """Record an advance of the virtual time."""
        why = "though not everybody waits: a slow machine" if early else "all wait"
        self.events.append(Remark(f"the clock goes to {now_s:g} s ({why})"))

    def spurious_wake(self, task: Task) -> None:
        """Record a spurious wake-up."""
        self.events.append(Remark(f"{task.name} wakes up though nobody has woken it"))

    def ends(self, task: Task) -> None:
        """Record that a task has returned or raised."""
        error = task.error
        text = f"ends with {type(error).__name__}" if error is not None else "ends"
        self.events.append(Step(task.name, text, None))

    def stopped(self, run: RecordedRun) -> None:
        """Record the state of every task when the run has failed."""
        self.ended_at_s = run.now
        frames = sys._current_frames()
        for task in run.alive:
            self._see_ending(run, task, frames.get(task.ident))
        # Our own frame is among them: a cycle that would keep all their objects.
        frames.clear()

    def _see_ending(
        self, run: RecordedRun, task: Task, frame: FrameType | None
    ) -> None:
        place = place_of(frame) if task.ident else None
        if not task.ident:
            text = "has not begun"
        elif task.obstacle.taken and task.deadline > run.now:
            text = _obstruction(task, frame)
        else:
            text = "could go on"
        self.endings.append(Step(task.name, text, place))
        code = getattr(task.predicate, "__code__", None)
        if task.asleep and code is not None:
            text = f"its predicate{_verdict(run.trouble, task)}"
            self.endings.append(Step("", text, place_of_code(code)))
        bare = place is not None and place.call == "Condition.wait"
        if task.asleep and task.predicate is None and bare:
            self._see_notices(task)

    def _see_notices(self, sleeper: Task) -> None:
        """Record the last notify of a bare wait, which has no known predicate."""
        last = self._notices.last(sleeper)
        if last is None:
            self.endings.append(Step("", "nobody has ever notified it", None))
        elif last.in_vain:
            self.missed.append((sleeper.name, last))
            text = f"{last.task} notified it before it slept"
            self.endings.append(Step("", text, last.place))


def _verdict(trouble: Trouble | None, sleeper: Task) -> str:
    """Return the value of a sleeper's predicate in words, "" if not evaluated."""
    if trouble is None:
        return ""
    if trouble.kind is FailureKind.LOST_WAKEUP and trouble.task is sleeper:
        return " is true"
    return " is not true" if trouble.kind is FailureKind.DEADLOCK else ""


def _obstruction(task: Task, frame: FrameType | None) -> str:
    """Return the obstacle of a task in words."""
    text = sleep_text(frame) if task.asleep else task.obstacle.wait_text(task)
    if task.deadline == NEVER:
        return text
    until = f"until {task.deadline:g} s"
    return f"{text} {until}" if task.obstacle is TIME else f"{text}, or {until}"
