"""The scheduler of one run: it decides which task runs, and keeps the virtual time.

Tasks are real threads that pass one baton: exactly one task runs, all others wait at
their gates. The task that passes the baton selects its successor here, on its own
thread. Every decision is made in `_pick`; every failure ends in `ending.fail`.

The scheduler handles obstacles and deadlines, not locks or conditions. It does not
search schedules: a ``choose`` function returns the number of the option to take.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from queuebroker import _sync
from queuebroker.testing.ending import Unwind, fail, lose_control, unwind_next
from queuebroker.testing.failure import FailureKind
from queuebroker.testing.scheduling import DivergenceError
from queuebroker.testing.task import FREE, NEVER, OTHERS, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker.testing.bytecode import Bytecode
    from queuebroker.testing.failure import Trouble
    from queuebroker.testing.instructions import Instruction
    from queuebroker.testing.recorder import Recorder
    from queuebroker.testing.scheduling import Ordered, Strategy

    Choose = Callable[[list[Task], int, int], int]

__all__ = ["Scheduler", "caller"]

STEPS_MAX: Final = 20_000  # switch points in a run before it counts as a livelock
SMALL_STEPS_MAX: Final = 200_000  # the same if instructions are some of them
READS_MAX: Final = 100_000  # reads of the clock before the same

# Without the interpreter lock, the thread that made an object frees it, once it runs
# Python code, if another thread drops the last reference.
_MAKERS_FREE: Final = not _sync.has_interpreter_lock()

# Bound when this module is loaded: the explorer replaces the public names.
_get_ident = _thread.get_ident
_start_new_thread = _thread.start_new_thread


# Of CPython 3.13 on, as `threading` uses them.
_start_joinable_thread: Any = getattr(_thread, "start_joinable_thread", None)
_Handle: Any = getattr(_thread, "_ThreadHandle", None)


def _start_to_join(live: Callable[[Task], object], of: tuple[Task]) -> None:
    [task] = of
    task.handle = _Handle()
    _start_joinable_thread(partial(live, task), handle=task.handle, daemon=True)


_start_thread: Final = _start_to_join if _MAKERS_FREE else _start_new_thread


class Scheduler:
    """One run of a program.

    Guarded by the baton: only the thread that holds it reads or writes anything here.
    The supervisor is the exception: it watches, and intervenes if a task never returns
    the baton. Any module of the explorer may read; the writers are named per group. At
    the end ``ending.dispose`` empties the scheduler.

    Settings, written once:

    release_points: True if a release is a switch point.
    bytecode: the code whose instructions are switch points.
    recorder: the recorder of the run, None during a search.

    Written only by the scheduler:

    now: virtual time in seconds.
    preemptions: number of preemptions so far.
    spurious_left: number of spurious wake-ups that may still occur.
    ended_badly: tasks that ended with an exception, in order.
    by_ident: tasks by the numbers of their real threads, while these exist.

    The baton, written by the scheduler and by ``ending``:

    main: the task that runs the program. running: the task that holds the baton.
    alive: tasks that have not ended, oldest first.
    holder: the real thread that holds the baton and runs a user's code under control;
      0 while there is none: the run is over or being unwound. Two modules also set it
      to 0 and restore it: ``quiescence`` during the inspection of a predicate, and
      ``threads`` while it marks a thread as started. Primitives compare it first.

    Written by the modules that the tasks call:

    steps: switch points passed; ``primitives`` add a release that is no switch point.
    timed: number of tasks that wait with a deadline (``primitives``).
    order: (lock, task key) of each acquisition, and (instruction, task key) of each
      instruction that is a switch point: the data of a happens-before class
      (``primitives``).
    settling: number of tasks that wait for all others (``run``).
    by_thread: tasks by the identity of their `Thread`s (``threads``).
    inspected: the sleeper whose predicate is being evaluated (``quiescence``).

    The end of the run, written only by ``ending``:

    trouble: the first failure. unwinding: True once control is lost.
    over: released when the last task has ended.
    quiet: suppresses warnings while tasks are unwound.
    lost: number of threads of any run that will not end.
    """

    active: ClassVar[Scheduler | None] = None  # written by the supervisor
    lost: ClassVar[int] = 0

    def __init__(
        self,
        strategy: Strategy,
        *,
        release_points: bool,
        spurious: int = 0,
        bytecode: Bytecode | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._choose = strategy.choose
        self._choose_after_release = strategy.choose_after_release
        self.release_points: bool = release_points
        self.bytecode: Bytecode | None = bytecode
        self.recorder: Recorder | None = recorder

        self.now: float = 0.0
        self.preemptions: int = 0
        self.spurious_left: int = spurious
        self.ended_badly: list[Task] = []
        self.by_ident: dict[int, Task] = {}
        self._steps_max = STEPS_MAX if bytecode is None else SMALL_STEPS_MAX
        self._created = 0
        self._unfinished = 0  # tasks that the run waits for
        self._reads = 0  # of the clock
        self._early = 0  # number of early deadlines among the last options
        # The task that is woken only to free objects; those woken since a task went on.
        self._freeing: Task | None = None
        self._freed: list[Task] = []
        # The last task that has ended: its thread, too, frees objects as it ends.
        self._ended: Task | None = None

        self.main: Task
        self.running: Task
        self.alive: list[Task] = []
        self.holder: int = 0

        self.steps: int = 0
        self.timed: int = 0
        self.order: list[tuple[Instruction | Ordered, int]] = []
        self.settling: int = 0
        self.by_thread: dict[int, Task] = {}
        self.inspected: Task | None = None

        self.trouble: Trouble | None = None
        self.unwinding: bool = False
        self.over: _thread.LockType = _thread.allocate_lock()
        self.over.acquire()
        self.quiet: contextlib.ExitStack = contextlib.ExitStack()

    # The calling task.

    def here(self) -> Task | None:
        """Return the calling task, None for a thread that is not of this run."""
        task = self.by_ident.get(_get_ident())
        return task if task is None or self.inspected is None else self.inspected

    # Switch points, called by the task that holds the baton.

    def switch(self, choose: Choose | None = None) -> None:
        """Let the strategy select the next task; return when it selects the caller.

        The caller has set its obstacle and deadline. It can be selected when its
        obstacle is not taken or its deadline has passed; the caller must check which.
        """
        me = self.running
        self._wait_for_turn(me, choose or self._choose)
        if me.thrown is not None:
            self._strike(me)

    def _wait(self, me: Task, choose: Choose) -> None:
        chosen = self._pick(me, choose)
        if chosen is not me:
            self._pass_baton(me, chosen)

    def _wait_and_free(self, me: Task, choose: Choose) -> None:
        """Wait, and free objects that other tasks have dropped when the baton comes.

        A finalizer of such an object passes switch points of its own. Another task may
        then take the lock for which this one was selected, so it waits again.
        """
        obstacle, deadline = me.obstacle, me.deadline
        chosen = self._pick(me, choose)
        while chosen is not me:
            self._pass_baton(me, chosen)
            self._await_end()
            if self._freeing is me:
                self._freeing = None
            elif me.obstacle is obstacle or me.thrown is not None:
                break
            me.obstacle, me.deadline = obstacle, deadline
            chosen = self._pick(None, choose)
        self._freed.clear()

    def _await_end(self) -> None:
        """Wait for the end of the thread from which the baton came, if it ends."""
        ended, self._ended = self._ended, None
        if ended is not None and ended.handle is not None:
            ended.handle.join()

    _wait_for_turn = _wait_and_free if _MAKERS_FREE else _wait

    def wake_to_free(self) -> Task | None:
        """Return a task that may have objects to free, each once until a task goes on.

        `_sync.park` wakes each sleeper for this, every `_sync.SLICE_S`.
        """
        if not _MAKERS_FREE:
            return None
        for task in self.alive:
            if task is not self.running and task not in self._freed:
                self._freed.append(task)
                self._freeing = task
                return task
        return None

    def _pass_baton(self, me: Task, chosen: Task) -> None:
        self._hand_to(chosen)
        me.gate.acquire()
        if self.unwinding:
            me.unwinding = True
            raise Unwind

    def _strike(self, me: Task) -> NoReturn:
        """Raise the exception that was thrown into a task."""
        error, me.thrown = me.thrown, None
        assert error is not None
        if self.recorder is not None:
            self.recorder.note(me, f"{type(error).__name__} is thrown here")
        raise error

    def switch_freely(self) -> None:
        """Pass a switch point at which the task waits for nothing."""
        self.running.obstacle = FREE
        self.switch()

    def switch_after_release(self) -> None:
        """Pass a switch point that an exhaustive search can omit.

        If locks guard all shared data, the order of the steps between a release and the
        next acquire makes no difference.
        """
        self.running.obstacle = FREE
        self.switch(self._choose_after_release)

    def reach(self, instruction: Instruction | None, *, looked: bool) -> None:
        """Handle the next instruction of named code, before the task executes it.

        instruction: None if it is no switch point.
        looked: True if the interpreter has just checked for interrupts. An interrupt
          can be raised only there; a task may be stopped anywhere.
        """
        me = self.running
        if looked and me.thrown is not None:
            self._strike(me)
        if instruction is None:
            return
        me.obstacle = FREE
        if self.recorder is None:
            self._wait_for_turn(me, self._choose)
        else:
            self.recorder.reaches(instruction)
            self._wait_for_turn(me, self._choose)
            self.recorder.executes(me, instruction)
        if looked and me.thrown is not None:
            self._strike(me)
        self.order.append((instruction, me.key))

    def read_clock(self) -> float:
        """Return the virtual time. It is no switch point; too many reads fail."""
        self._reads += 1
        if self._reads > READS_MAX and self.holder:
            fail(
                self,
                FailureKind.LIVELOCK,
                f"{self.running.name} looked at the clock {READS_MAX:,} times;"
                " virtual time passes only when all tasks wait",
            )
        return self.now

    def _pick(self, me: Task | None, choose: Choose) -> Task:
        """Select the next task; ``me`` held the baton, None if it has ended."""
        self.steps += 1
        if self.steps > self._steps_max:
            fail(self, FailureKind.LIVELOCK, f"no end after {self._steps_max:,} steps")
        if self.recorder is not None and me is not None:
            self.recorder.arrives(self, me)
        now = self.now
        options = [
            t for t in self.alive if not t.obstacle.taken or t.deadline <= now
        ] or _who_goes_on(self)
        preempts_from = odd_from = len(options)
        if me is not None and me in options:
            preempts_from = 1
            if odd_from > 1:
                options.remove(me)
                if me.yields:
                    options.append(me)
                    preempts_from = odd_from - 1
                else:
                    options.insert(0, me)
        if self.timed or self.spurious_left:
            options += self._odd(options)
        if len(options) == 1:
            return options[0]
        try:
            choice = choose(options, preempts_from, odd_from)
        except DivergenceError as error:
            fail(self, FailureKind.NONDETERMINISTIC, str(error))
        chosen = options[choice]
        if choice >= preempts_from:
            self.preemptions += 1
            if choice >= odd_from:
                self._be_odd(chosen, early=choice < odd_from + self._early)
            elif self.recorder is not None and me is not None:
                self.recorder.preempted(me, chosen)
        return chosen

    def _odd(self, options: list[Task]) -> list[Task]:
        """Return the tasks that could run only on a slow or odd machine."""
        odd = []
        if self.timed and not self.settling:
            earliest = min(t.deadline for t in self.alive)
            odd = [t for t in self.alive if t.deadline == earliest]
            odd = [t for t in odd if t not in options]
        self._early = len(odd)
        if self.spurious_left:
            sleepers = [t for t in self.alive if t.asleep and t.spurious_wake]
            odd += [t for t in sleepers if t not in options]
        return odd

    def _be_odd(self, task: Task, *, early: bool) -> None:
        """Advance time to a task's deadline early, or wake the task spuriously."""
        if early:
            self.go_to(task.deadline, early=True)
        else:
            self.spurious_left -= 1
            assert task.spurious_wake is not None
            task.spurious_wake()
            if self.recorder is not None:
                self.recorder.spurious_wake(task)

    def go_to(self, time_s: float, *, early: bool) -> None:
        """Advance the virtual time."""
        self.now = time_s
        if self.recorder is not None:
            self.recorder.clock(time_s, early=early)

    # Beginning and ending.

    def create(
        self, name: str, body: Callable[[], object], *, daemon: bool = False
    ) -> Task:
        """Create a task that is ready to run, as a child of the running task."""
        key = 1
        if self._created:
            parent = self.running
            parent.children += 1
            key = parent.key << 16 | parent.children
        task = Task(self._created, key, name, body, daemon=daemon)
        self._created += 1
        self._unfinished += not daemon
        self.alive.append(task)
        return task

    def begin(self, body: Callable[[], object]) -> None:
        """Start the main task; `over` is released when the last task has ended."""
        self.main = self.create("main", body)
        try:
            self._hand_to(self.main)
        except Unwind:
            unwind_next(self)

    def _hand_to(self, task: Task) -> None:
        """Pass the baton to a task. The caller then waits at its gate, or ends."""
        self.running = task
        self.holder = 0 if self.unwinding else task.ident
        if task.ident:
            task.gate.release()
            return
        try:
            _start_thread(self._live, (task,))
        except RuntimeError as error:
            what = f"cannot start a thread: {error}"
            fail(self, FailureKind.UNCONTROLLED, what, task, error)

    def _live(self, task: Task) -> None:
        """Run the task; the body of its real thread."""
        self._await_end()
        task.ident = _get_ident()
        self.by_ident[task.ident] = task
        body, task.body = task.body, None
        # As `Thread` does, so that debuggers and coverage tools trace these threads.
        if (trace := threading.gettrace()) is not None:
            sys.settrace(trace)
        if (profile := threading.getprofile()) is not None:
            sys.setprofile(profile)
        try:
            if body is not None and not self.unwinding:
                self.holder = task.ident
                if task.thrown is not None:
                    raise task.thrown
                if self.bytecode is not None:
                    self.bytecode.begin(self)
                task.context.run(body)
        except Unwind:
            sys.settrace(None)
        except BaseException as error:  # noqa: BLE001 # a thread's outermost frame
            task.error = error
        finally:
            del body
            self._end(task)

    def _end(self, task: Task) -> None:
        """End a task: pass the baton on, or release `over` after the last task."""
        successor = None
        if task in self.alive:  # else the supervisor dropped it before
            self.alive.remove(task)
            task.taken = False
            self._ended = task
            # `_after` raises if it finds a failure; then the other tasks are unwound.
            with contextlib.suppress(Unwind):
                if not self.unwinding:
                    successor = self._after(task)
            # Before the baton is passed: the next thread may get the same number.
            del self.by_ident[task.ident]
            with contextlib.suppress(Unwind):
                if successor is not None:
                    self._hand_to(successor)
                    return
            unwind_next(self)

    def _after(self, task: Task) -> Task | None:
        """Check how a task ended; return its successor, None if the run is complete."""
        if self.recorder is not None:
            self.recorder.ends(task)
        if task.error is not None:
            self.ended_badly.append(task)
            if task.number == 0:
                _blame_errors(self)
        self._unfinished -= not task.daemon
        if self._unfinished:
            return self._pick(None, self._choose)
        _blame_errors(self)
        lose_control(self)
        return None


def caller() -> tuple[Scheduler, Task] | None:
    """Return the active run and the calling task of it, None for other threads."""
    scheduler = Scheduler.active
    task = None if scheduler is None else scheduler.here()
    return None if scheduler is None or task is None else (scheduler, task)


# A run in which no task can go on: time advances, or the run fails. Every task is at a
# switch point. Only `_who_goes_on` distinguishes deadlocks from lost wake-ups.


def _who_goes_on(scheduler: Scheduler) -> list[Task]:
    """Return the tasks to wake when every task waits; fail if none can be woken.

    If the predicate of a sleeper is true, its wake-up is lost. This holds even if a
    deadline or a settling test would go on and mask the loss.
    """
    for task in scheduler.alive:
        if task.asleep and task.predicate is not None and _is_true(scheduler, task):
            fail(
                scheduler,
                FailureKind.LOST_WAKEUP,
                f"{task.name} sleeps, its predicate is true, and no thread will"
                " wake it",
                task,
            )
    maker = scheduler.wake_to_free()
    if maker is not None:
        return [maker]
    if scheduler.settling:
        return [task for task in scheduler.alive if task.obstacle is OTHERS]
    earliest = min((task.deadline for task in scheduler.alive), default=NEVER)
    if earliest == NEVER:
        _blame_errors(scheduler)
        names = ", ".join(task.name for task in scheduler.alive)
        fail(scheduler, FailureKind.DEADLOCK, f"no thread can continue: {names}")
    scheduler.go_to(earliest, early=False)
    return [task for task in scheduler.alive if task.deadline <= earliest]


def _blame_errors(scheduler: Scheduler) -> None:
    """Fail if an exception escaped from a task and the test has not read it."""
    for task in scheduler.ended_badly:
        error = task.error
        if error is None or task.error_known or error is task.awaited:
            continue
        what = f"{type(error).__name__}: {error}" if str(error) else repr(error)
        fail(
            scheduler, FailureKind.EXCEPTION, f"{task.name} raised {what}", task, error
        )


def _is_true(scheduler: Scheduler, sleeper: Task) -> bool:
    """Evaluate the predicate of a sleeper; meanwhile no lock blocks it."""
    assert sleeper.predicate is not None
    holder, scheduler.holder = scheduler.holder, 0
    scheduler.inspected = sleeper
    flaw = None
    try:
        # In a copy: the sleeper's thread has entered its context and remains in it.
        is_true = bool(sleeper.context.copy().run(sleeper.predicate))
    except BaseException as error:  # noqa: BLE001 # a user's code, it is reported
        flaw = error
    finally:
        scheduler.inspected = None
        scheduler.holder = holder
    if flaw is not None:
        fail(
            scheduler,
            FailureKind.EXCEPTION,
            f"what {sleeper.name} sleeps for cannot be evaluated:"
            f" {type(flaw).__name__}: {flaw}",
            sleeper,
            flaw,
        )
    return is_true
