"""The scheduler of one run: whose turn it is, what time it is, how it all ends.

Tasks are real threads that hand one baton on: exactly one runs, all others wait at
their gates. Whoever gives the baton away decides here, on its own thread, who gets it.
Every decision is made in `_pick`, and every way to be wrong ends in `fail`.

This knows nothing of locks or conditions (only of obstacles and deadlines), nor of how
schedules are searched (only of a ``choose`` that answers with a number).
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import warnings
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from queuebroker.testing.failure import Kind, UncontrolledError
from queuebroker.testing.quiescence import blame_errors, who_goes_on
from queuebroker.testing.strategy import DivergenceError
from queuebroker.testing.task import FREE, Task
from queuebroker.testing.trouble import Trouble
from queuebroker.testing.unwinding import Unwind, insist

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.primitives import SimulatedLock
    from queuebroker.testing.recorder import Recorder
    from queuebroker.testing.strategy import Strategy

    Choose = Callable[[list[Task], int, int], int]

__all__ = ["Scheduler", "caller"]

STEPS_MAX: Final = 20_000  # switch points in a run before it counts as a livelock
READS_MAX: Final = 100_000  # looks at the clock before the same
PASSES_MAX: Final = 100  # primitives a task may use while it is unwound

# Taken when this module is loaded: the explorer exchanges the public names.
_get_ident = _thread.get_ident
_start_new_thread = _thread.start_new_thread


class Scheduler:
    """One run of a program.

    Guarded by the baton: only the thread that has it reads or writes anything here,
    the supervisor apart, which looks on and steps in when a task never comes back.

    now: virtual time in seconds.
    holder: the real thread that has the baton and runs a user's code under control;
      0 while nobody does: a predicate is inspected, the run is over or being unwound.
      Primitives compare it first of all.
    order: (lock, task key) of each acquisition, flat: what a happens-before class is
      made of.
    """

    active: ClassVar[Scheduler | None] = None
    lost: ClassVar[int] = 0  # threads that will not end

    def __init__(
        self,
        strategy: Strategy,
        *,
        release_points: bool,
        spurious: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        self._choose = strategy.choose
        self._choose_after_release = strategy.choose_after_release
        self.release_points: bool = release_points
        self.spurious: int = spurious
        self.recorder: Recorder | None = recorder
        self.now: float = 0.0
        self.steps: int = 0
        self.reads: int = 0
        self.preemptions: int = 0
        self.timed: int = 0  # tasks that wait with a deadline
        self._early = 0  # of the last options, those that are a deadline come early
        self.settling: int = 0  # tasks that wait for all others
        self.holder: int = 0
        self.main: Task
        self.running: Task
        self.created: int = 0
        self.alive: list[Task] = []
        self.ended_badly: list[Task] = []
        self.by_ident: dict[int, Task] = {}
        self.by_thread: dict[int, Task] = {}
        self.order: list[SimulatedLock | int] = []
        self.inspected: Task | None = None
        self.unwinding: bool = False
        self._quiet = contextlib.ExitStack()
        self.trouble: Trouble | None = None
        self.over: _thread.LockType = (
            _thread.allocate_lock()
        )  # released when the last task has ended
        self.over.acquire()
        self._unfinished = 0  # tasks that the run waits for

    # Who is calling.

    def here(self) -> Task | None:
        """The task that calls: None for a thread that is not of this run."""
        task = self.by_ident.get(_get_ident())
        return task if task is None or self.inspected is None else self.inspected

    # Switch points, called by the task that has the baton.

    def switch(self, choose: Choose | None = None) -> None:
        """Let the strategy decide who runs; return when it is the caller's turn.

        The caller has said in its fields what it waits for. It is its turn when that
        is not taken, or its deadline has come: the caller looks which.
        """
        me = self.running
        chosen = self._pick(me, choose or self._choose)
        if chosen is me:
            return
        self._hand_to(chosen)
        me.gate.acquire()
        if self.unwinding:
            me.unwinding = True
            raise Unwind
        if me.thrown is not None:
            error, me.thrown = me.thrown, None
            if self.recorder is not None:
                self.recorder.note(me, f"{type(error).__name__} is thrown here")
            raise error

    def switch_freely(self) -> None:
        """A switch point of a task that waits for nothing."""
        self.running.obstacle = FREE
        self.switch()

    def switch_after_release(self) -> None:
        """The switch point that an exhaustive search can do without.

        Where all that is shared is guarded by locks, other orders of what happens
        between a release and the next acquire make no difference.
        """
        self.running.obstacle = FREE
        self.switch(self._choose_after_release)

    def read_clock(self) -> float:
        """Return the virtual time. No switch point, but not for ever either."""
        self.reads += 1
        if self.reads > READS_MAX and self.holder:
            self.fail(
                Kind.LIVELOCK,
                f"{self.running.name} looked at the clock {READS_MAX:,} times;"
                " virtual time passes only when all tasks wait",
            )
        return self.now

    def _pick(self, me: Task | None, choose: Choose) -> Task:
        """Decide who runs next; ``me`` had the baton, None if it has ended."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            self.fail(Kind.LIVELOCK, f"no end after {STEPS_MAX:,} steps")
        if self.recorder is not None and me is not None:
            self.recorder.arrives(me)
        now = self.now
        options = [
            t for t in self.alive if not t.obstacle.taken or t.deadline <= now
        ] or who_goes_on(self)
        free = calm = len(options)
        if me is not None and me in options:
            free = 1
            if calm > 1:
                options.remove(me)
                if me.yields:
                    options.append(me)
                    free = calm - 1
                else:
                    options.insert(0, me)
        if self.timed or self.spurious:
            options += self._impatient(options)
        if len(options) == 1:
            return options[0]
        try:
            choice = choose(options, free, calm)
        except DivergenceError as error:
            self.fail(Kind.NONDETERMINISTIC, str(error))
        chosen = options[choice]
        if choice >= free:
            self.preemptions += 1
            if choice >= calm:
                self._rouse(chosen, early=choice < calm + self._early)
            elif self.recorder is not None and me is not None:
                self.recorder.preempted(me, chosen)
        return chosen

    def _impatient(self, calm: list[Task]) -> list[Task]:
        """Who could run only on a slow or odd machine."""
        hasty = []
        if self.timed and not self.settling:
            earliest = min(t.deadline for t in self.alive)
            hasty = [t for t in self.alive if t.deadline == earliest]
            hasty = [t for t in hasty if t not in calm]
        self._early = len(hasty)
        if self.spurious:
            hasty += [t for t in self.alive if t.asleep and t.rouse and t not in calm]
        return hasty

    def _rouse(self, task: Task, *, early: bool) -> None:
        """Let time go to a task's deadline, or wake it for no reason."""
        if early:
            self.go_to(task.deadline, early=True)
        else:
            self.spurious -= 1
            assert task.rouse is not None
            task.rouse()
            if self.recorder is not None:
                self.recorder.phantom(task)

    def go_to(self, time_s: float, *, early: bool) -> None:
        """Let virtual time pass."""
        self.now = time_s
        if self.recorder is not None:
            self.recorder.clock(time_s, early=early)

    # Beginning and ending.

    def create(
        self, name: str, body: Callable[[], object], *, daemon: bool = False
    ) -> Task:
        """Make a task that is ready to run, a child of the one that runs."""
        key = 1
        if self.created:
            parent = self.running
            parent.children += 1
            key = parent.key << 16 | parent.children
        task = Task(self, self.created, key, name, body, daemon=daemon)
        self.created += 1
        self._unfinished += not daemon
        self.alive.append(task)
        return task

    def begin(self, body: Callable[[], object]) -> None:
        """Start the main task; `over` is released when all is over."""
        self.main = self.create("main", body)
        try:
            self._hand_to(self.main)
        except Unwind:
            self.unwind_next()

    def fail(
        self,
        kind: Kind,
        text: str,
        task: Task | None = None,
        error: BaseException | None = None,
    ) -> NoReturn:
        """End the run as a failure: every task is unwound, the caller first."""
        self.give_up(Trouble(kind, text, task, error))
        self.running.unwinding = True
        raise Unwind

    def refuse(self, what: str) -> NoReturn:
        """End the run because the calling task uses what cannot be controlled."""
        task = self.running
        error = UncontrolledError(story=what)
        self.give_up(Trouble(Kind.UNCONTROLLED, what, task, error))
        task.unwinding = True
        raise error

    def give_up(self, trouble: Trouble) -> None:
        """Note what is wrong, if nothing was, and let all tasks be unwound."""
        if self.trouble is None:
            self.trouble = trouble
            if self.recorder is not None:
                self.recorder.stopped(self)
        self.lose_control()

    def lose_control(self) -> None:
        """From now on every task that is still there is unwound."""
        if self.alive and not self.unwinding:
            # What is left open because its task was cut short is nobody's mistake.
            self._quiet.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", ResourceWarning)
        self.unwinding = True
        self.holder = 0

    def dispose(self) -> None:
        """Let all that the run has made be freed now, not at some collection."""
        for task in self.by_thread.values():
            task.thread = None
        self.by_thread.clear()
        self.order.clear()
        self.alive.clear()
        self.ended_badly.clear()
        del self.main, self.running
        self._quiet.close()

    def pass_by(self, task: Task) -> None:
        """What a primitive does instead of blocking, for a task out of control.

        For a predicate under inspection nothing. For a task that is being unwound
        nothing either, so that its ``finally`` blocks work; yet not for ever.
        """
        if not self.unwinding:
            return
        task.passes += 1
        if not task.unwinding or task.passes > PASSES_MAX:
            task.unwinding = True
            if task.passes > PASSES_MAX:
                insist()
            if task.passes > 2 * PASSES_MAX:
                self._freeze(task)
            raise Unwind

    def _freeze(self, task: Task) -> NoReturn:
        """Go on without a task that nothing can end: its thread waits for ever."""
        self.let_go(task)
        self.unwind_next()
        while True:
            task.gate.acquire()

    def let_go(self, task: Task) -> None:
        """Count a task as ended whose thread is not."""
        Scheduler.lost += 1
        if task in self.alive:
            self.alive.remove(task)
            task.taken = False

    def _hand_to(self, task: Task) -> None:
        """Give the baton away. The caller then waits at its gate, or ends."""
        self.running = task
        self.holder = 0 if self.unwinding else task.ident
        if task.ident:
            task.gate.release()
            return
        try:
            _start_new_thread(self._live, (task,))
        except RuntimeError as error:
            self.fail(Kind.UNCONTROLLED, f"cannot start a thread: {error}", task, error)

    def _live(self, task: Task) -> None:
        """What the real thread of a task does."""
        task.ident = _get_ident()
        self.by_ident[task.ident] = task
        body, task.body = task.body, None
        # As `Thread` does: debuggers and coverage tools see these threads too.
        if (trace := threading.gettrace()) is not None:
            sys.settrace(trace)
        if (profile := threading.getprofile()) is not None:
            sys.setprofile(profile)
        try:
            if body is not None and not self.unwinding:
                self.holder = task.ident
                if task.thrown is not None:
                    raise task.thrown
                task.context.run(body)
        except Unwind:
            sys.settrace(None)
        except BaseException as error:  # noqa: BLE001 # a thread's outermost frame
            task.error = error
        finally:
            del body
            self._end(task)

    def _end(self, task: Task) -> None:
        """The last act of a task: give the baton on, or tell that all is over."""
        successor = None
        if task in self.alive:  # else it was given up long ago
            self.alive.remove(task)
            task.taken = False
            # It raises when a failure is found; then the rest is unwound.
            with contextlib.suppress(Unwind):
                if not self.unwinding:
                    successor = self._after(task)
            # Before the baton goes: a thread started next may get the same number.
            del self.by_ident[task.ident]
            with contextlib.suppress(Unwind):
                if successor is not None:
                    self._hand_to(successor)
                    return
            self.unwind_next()

    def _after(self, task: Task) -> Task | None:
        """Judge how a task ended; return who goes on, None if the run is complete."""
        if self.recorder is not None:
            self.recorder.ends(task)
        if task.error is not None:
            self.ended_badly.append(task)
            if task.number == 0:
                blame_errors(self)
        self._unfinished -= not task.daemon
        if self._unfinished:
            return self._pick(None, self._choose)
        blame_errors(self)
        self.lose_control()
        return None

    def unwind_next(self) -> None:
        """Let the oldest task that is still there unwind, or release `over`."""
        while self.alive:
            task = self.alive[0]
            if task.ident:
                self.running = task
                task.gate.release()
                return
            self.alive.remove(task)  # it never ran
            task.taken = False
        self.over.release()


def caller() -> Task | None:
    """The task that calls, None for every thread that is not of the run."""
    run = Scheduler.active
    return None if run is None else run.here()
