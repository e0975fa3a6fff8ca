"""The arguments of a program: `Run`, to spawn and control tasks, and `Spawned`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, TypeVarTuple, Unpack

from queuebroker.closable import Uncopyable
from queuebroker.testing import primitives
from queuebroker.testing.scheduler import Scheduler, caller
from queuebroker.testing.task import FREE, NEVER, OTHERS, Task

__all__ = ["Run", "Spawned"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Spawned(Uncopyable, Generic[T]):
    """A function that runs as a task, with its result."""

    __slots__ = ("_result", "_scheduler", "_task")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._task: Task
        self._result: T

    def __repr__(self) -> str:
        state = "done" if self.done else "not done"
        return f"<Spawned {self.name}, {state}>"

    @property
    def name(self) -> str:
        """The name of the task."""
        return self._task.name

    @property
    def done(self) -> bool:
        """True once the function has returned or raised."""
        return not self._task.taken

    @property
    def result(self) -> T:
        """The return value of the function; an exception it raised is raised here.

        Raises:
            RuntimeError: it is not done.
        """
        error = self.error
        if error is not None:
            raise error
        return self._result

    @property
    def error(self) -> BaseException | None:
        """The exception that the function raised, None if it returned.

        Raises:
            RuntimeError: it is not done.
        """
        if not self.done:
            msg = (
                f"cannot return the error of {self.name}: it still runs; join it first"
            )
            raise RuntimeError(msg)
        self._task.error_known = True
        return self._task.error

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it is done; return False after ``timeout`` virtual seconds.

        An exception of the function is not raised here, but by `result`.
        """
        scheduler = _control(self._scheduler, "join")
        if scheduler.holder:
            deadline = NEVER if timeout is None else scheduler.now + max(timeout, 0.0)
            primitives.wait_for(scheduler, self._task, deadline)
        return self.done


class Run(Uncopyable):
    """One run of a program, under one schedule. Only its tasks may call its methods."""

    __slots__ = ("_scheduler", "_spawned")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._spawned: list[Spawned[Any]] = []

    @property
    def now(self) -> float:
        """The virtual time in seconds; 0 at the beginning."""
        return self._scheduler.now

    def spawn(
        self,
        function: Callable[[Unpack[Ts]], T],
        *args: *Ts,
        name: str | None = None,
    ) -> Spawned[T]:
        """Start ``function(*args)`` as a task of its own, which may run at once.

        ``name`` is the task's name in stories, by default the function's name.
        """
        scheduler = _control(self._scheduler, "spawn")
        spawned: Spawned[T] = Spawned(scheduler)

        def body() -> None:
            spawned._result = function(*args)

        task = scheduler.create(self._distinct(name or _name_of(function)), body)
        spawned._task = task
        self._spawned.append(spawned)
        if scheduler.recorder is not None:
            scheduler.recorder.note(scheduler.running, f"starts {task.name}")
        if scheduler.holder:
            scheduler.switch_freely()
        return spawned

    def join(self) -> None:
        """Wait until all spawned tasks are done; their errors are not raised here."""
        scheduler = _control(self._scheduler, "join")
        if scheduler.holder:
            primitives.wait_for(scheduler, _All(self._spawned), NEVER)

    def settle(self) -> None:
        """Wait until no other task can go on, except after a deadline.

        A task that is not done by then cannot finish by itself: a test writes
        ``run.settle(); assert not receiver.done``. No deadline passes meanwhile.
        """
        scheduler = _control(self._scheduler, "settle")
        scheduler.settling += 1
        try:
            if scheduler.holder:
                primitives.wait_for(scheduler, OTHERS, NEVER)
        finally:
            scheduler.settling -= 1

    def sleep(self, seconds: float) -> None:
        """Sleep for some virtual time, as `time.sleep` does."""
        scheduler = _control(self._scheduler, "sleep")
        primitives.sleep(scheduler, scheduler.running, seconds)

    def interrupt(
        self, spawned: Spawned[Any], error: BaseException | type[BaseException]
    ) -> bool:
        """Raise ``error`` in a task, at its present or last switch point.

        In code named as ``bytecode`` it is raised at the next place where the
        interpreter checks for interrupts; if there is no such place, not at all. If the
        error escapes from the task, that is no failure. Return False if the task is
        done.
        """
        _control(self._scheduler, "interrupt")
        task = spawned._task
        if not task.taken:
            return False
        thrown = error() if isinstance(error, type) else error
        task.thrown = task.awaited = thrown
        task.obstacle = FREE
        scheduler = self._scheduler
        if scheduler.recorder is not None:
            scheduler.recorder.note(
                scheduler.running, f"throws {type(thrown).__name__} into {task.name}"
            )
        return True

    def _distinct(self, name: str) -> str:
        """Return the name, with a number if another spawned task already has it."""
        taken = {spawned.name for spawned in self._spawned} | {"main"}
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        return next(n for n in itertools.chain([name], numbered) if n not in taken)


class _All:
    """An obstacle that is taken while any of several tasks is not done."""

    __slots__ = ("_spawned",)

    def __init__(self, spawned: Sequence[Spawned[Any]]) -> None:
        self._spawned = spawned

    @property
    def taken(self) -> bool:
        return any(spawned._task.taken for spawned in self._spawned)

    def wait_text(self, _task: Task) -> str:
        return "waits for the end of all tasks"


def _name_of(function: object) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def _control(scheduler: Scheduler, what: str) -> Scheduler:
    """Return the scheduler; raise RuntimeError if the caller is no task of the run."""
    called = caller()
    if called is None or called[0] is not scheduler:
        raise RuntimeError(f"cannot {what}: the caller is no task of this run")
    return scheduler
