"""The primitives on which tasks block in a run: simulated locks, sleeping, parking.

Every primitive first checks whether the calling thread holds the baton. If so, the call
is a switch point. If not, the call is a stray, which must not block. Strays come from
threads that are no task of the run and from finalizers after it, for which a lock is a
plain flag; from a predicate under inspection; and from a task that is being unwound.

Methods whose names begin with an underscore, other than ``_stray``, are those that the
standard library's own `Condition` calls on its lock.
"""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, ClassVar, Final

from queuebroker.testing.ending import pass_by
from queuebroker.testing.scheduler import Scheduler
from queuebroker.testing.task import NEVER, TIME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from queuebroker.testing.task import Obstacle, Task

__all__ = [
    "SimulatedLock",
    "SimulatedRLock",
    "SimulatedWaiter",
    "park",
    "sleep",
    "wait_for",
]

_get_ident = _thread.get_ident
_real_lock = _thread.allocate_lock()

# Marks, in the order of acquisitions, a wait that ended without the lock.
_IN_VAIN: Final = 0


class SimulatedLock:
    """A simulated `threading.Lock` of one run.

    taken: its whole state. owner: the task that took it; any task may release it.
    maker, serial: the task that created it, and its number among that task's locks:
      together the same in every schedule.
    label: its name in a story.
    is_waiter: True for the waiter lock of a `Condition`.
    """

    __slots__ = (
        "__weakref__",
        "_born",
        "label",
        "maker",
        "owner",
        "scheduler",
        "serial",
        "taken",
    )

    is_waiter: ClassVar[bool] = False

    def __init__(self, scheduler: Scheduler, maker: Task) -> None:
        self._join(scheduler, maker)

    def _join(self, scheduler: Scheduler, maker: Task) -> None:
        maker.locks += 1
        self.scheduler: Scheduler = scheduler
        self.maker: Task = maker
        self.serial: int = maker.locks
        self.taken: bool = False
        self.owner: Task | None = None
        self._born = scheduler.steps
        recorder = scheduler.recorder
        self.label: str = "" if recorder is None else recorder.label(self)

    def __repr__(self) -> str:
        state = f"taken by {self.owner.name}" if self.owner else "free"
        return f"<{type(self).__name__} {self.label or self.serial}, {state}>"

    @property
    def key(self) -> int:
        """A key that is the same in every schedule."""
        return self.maker.key << 32 | self.serial

    @property
    def is_private(self) -> bool:
        """True if no other task can have a reference to it.

        No lock was acquired or released since its creation, so no other task can have
        reached it. Its acquisition need not be a switch point.
        """
        return self._born == self.scheduler.steps

    def wait_text(self, task: Task) -> str:
        """Return in words how a task waits for this lock."""
        owner = self.owner
        whose = "nobody has" if owner is None else f"{owner.name} has"
        if owner is task:
            whose = "it has itself"
        return f"waits for {self.label}, which {whose}"

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock once it is free, as `threading.Lock` does."""
        scheduler = self.scheduler
        if _get_ident() != scheduler.holder:
            return self._stray_acquire(blocking)
        me = scheduler.running
        patient = blocking and timeout == -1
        if not patient:
            # A real, free lock raises the right errors for wrong arguments.
            _real_lock.acquire(blocking, timeout)
            _real_lock.release()
        if self.taken or not self.is_private:
            if patient:
                me.obstacle = self
                scheduler.switch()
            elif not self._comes_free(blocking, timeout):
                scheduler.order.append((self, -me.key))
                if scheduler.recorder is not None:
                    scheduler.recorder.goes_without(me, self, tried=not blocking)
                return False
        self.taken = True
        self.owner = me
        scheduler.order.append((self, me.key))
        if scheduler.recorder is not None:
            scheduler.recorder.takes(me, self)
        return True

    __enter__ = acquire

    def _comes_free(self, blocking: bool, timeout: float) -> bool:
        """Wait up to the timeout, or not at all; return True if the lock is free."""
        scheduler = self.scheduler
        if blocking:
            wait_for(scheduler, self, scheduler.now + timeout)
        else:
            scheduler.switch_freely()
        return not self.taken

    def release(self) -> None:
        """Release the lock; any task may do so."""
        scheduler = self.scheduler
        if _get_ident() != scheduler.holder:
            if scheduler.here() is None:
                self.taken = False
            return
        if not self.taken:
            raise RuntimeError("release unlocked lock")
        if scheduler.recorder is not None:
            scheduler.recorder.releases(scheduler, scheduler.running, self)
        self.taken = False
        self.owner = None
        if scheduler.release_points:
            scheduler.switch_after_release()
        else:
            scheduler.steps += 1  # as many as with these points: see `is_private`

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.release()

    def locked(self) -> bool:
        """True if the lock is taken."""
        return self.taken

    def _is_owned(self) -> bool:
        # `Condition` would test by an acquire, which would be a switch point. As in its
        # own test, the result is True whichever task holds the lock.
        return self.taken or _get_ident() != self.scheduler.holder

    def _stray_acquire(self, blocking: bool) -> bool:
        scheduler = self.scheduler
        task = scheduler.here()
        if task is not None:
            pass_by(scheduler, task)
            return True
        now = Scheduler.active
        task = None if now is None or now is scheduler else now.here()
        if now is not None and task is not None:
            # The program kept this lock from an earlier run; it starts this run free.
            self._join(now, task)
            return self.acquire(blocking)
        was_taken, self.taken = self.taken, True
        return blocking or not was_taken


class SimulatedWaiter(SimulatedLock):
    """The waiter lock of a `Condition`: a task that blocks on it is asleep."""

    __slots__ = ()

    is_waiter: ClassVar[bool] = True

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock; while it is taken, the caller is asleep."""
        if not self.taken or _get_ident() != self.scheduler.holder:
            return super().acquire(blocking, timeout)
        me = self.scheduler.running
        me.asleep = True
        try:
            return super().acquire(blocking, timeout)
        finally:
            me.asleep = False

    __enter__ = acquire


class SimulatedRLock(SimulatedLock):
    """A simulated `threading.RLock` of one run."""

    __slots__ = ("_count",)

    def __init__(self, scheduler: Scheduler, maker: Task) -> None:
        super().__init__(scheduler, maker)
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock once it is free, or again if the caller holds it."""
        scheduler = self.scheduler
        if _get_ident() != scheduler.holder:
            return self._stray_acquire(blocking)
        if self.owner is scheduler.running:
            self._count += 1
            return True
        if not super().acquire(blocking, timeout):
            return False
        self._count = 1
        return True

    __enter__ = acquire

    def release(self) -> None:
        """Release the lock once; the last release frees it."""
        scheduler = self.scheduler
        if _get_ident() == scheduler.holder:
            if self.owner is not scheduler.running:
                raise RuntimeError("cannot release un-acquired lock")
            self._count -= 1
            if self._count:
                return
        super().release()

    def _is_owned(self) -> bool:
        scheduler = self.scheduler
        return _get_ident() != scheduler.holder or self.owner is scheduler.running

    def _release_save(self) -> int:
        count, self._count = self._count, 1
        self.release()
        return count

    def _acquire_restore(self, count: int) -> None:
        self.acquire()
        self._count = count

    def _recursion_count(self) -> int:
        return self._count if self._is_owned() else 0


def wait_for(scheduler: Scheduler, obstacle: Obstacle, deadline: float) -> None:
    """Block the running task until its obstacle is free, or until a deadline."""
    me = scheduler.running
    me.obstacle = obstacle
    if deadline == NEVER:
        scheduler.switch()
        return
    me.deadline = deadline
    scheduler.timed += 1
    try:
        scheduler.switch()
    finally:
        me.deadline = NEVER
        scheduler.timed -= 1


def sleep(scheduler: Scheduler, me: Task, seconds: float) -> None:
    """Make a task sleep; for 0 seconds, let other tasks run first."""
    if not scheduler.holder:
        pass_by(scheduler, me)
    elif seconds > 0:
        wait_for(scheduler, TIME, scheduler.now + seconds)
    else:
        me.yields = True
        try:
            scheduler.switch_freely()
        finally:
            me.yields = False


def park(
    lock: SimulatedLock, predicate: Callable[[], bool], deadline: float | None
) -> bool:
    """Replace `queuebroker._sync.park`: sleep until ``lock`` is released."""
    scheduler = lock.scheduler
    if _get_ident() != scheduler.holder:
        return lock.acquire()
    me = scheduler.running
    outer, me.predicate, me.asleep = me.predicate, predicate, True
    if scheduler.spurious_left:
        me.spurious_wake = me.wake_spuriously
    try:
        wait_for(scheduler, lock, NEVER if deadline is None else deadline)
    finally:
        me.predicate, me.asleep, me.spurious_wake = outer, False, None
    if me.spurious:
        me.spurious = False
        return True
    if lock.taken:
        scheduler.order.append((lock, _IN_VAIN))
        if scheduler.recorder is not None:
            scheduler.recorder.goes_without(me, lock, tried=False)
        return False
    lock.taken = True
    lock.owner = me
    scheduler.order.append((lock, me.key))
    if scheduler.recorder is not None:
        scheduler.recorder.note(me, "wakes up")
    return True
