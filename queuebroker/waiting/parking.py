"""Wait lists for one condition of a state, and the one loop by which callers wait.

The rule: a state is read and changed only under its lock, but no caller sleeps under
it. A caller that cannot go on enlists a parker (a bare lock it has taken), releases the
state's lock, and sleeps on the parker. A caller that makes the condition true releases
one parker.

Wake-ups form a chain. An operation wakes one waiter that can now go on. A waiter that
succeeded wakes the next while the condition still holds. So there is one invariant:

I1. whenever the lock is free and the condition of a `WaitList` holds, either the list
    is empty or a woken waiter has not checked the condition yet.

This module does not depend on the condition; ``attempt`` evaluates it.
"""

from __future__ import annotations

import enum
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from queuebroker import _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable
    from contextlib import AbstractContextManager

__all__ = [
    "PENDING",
    "Parker",
    "Pending",
    "SharedParker",
    "Wait",
    "WaitList",
    "WaitLists",
    "Waitable",
    "check_may_wait",
    "own_parker",
    "pause",
    "taken_lock",
    "wait_for",
]

T = TypeVar("T")

_release: Final = methodcaller("release")


class Parker(Protocol):
    """The interface through which a waker wakes a sleeper; a bare lock has it."""

    @property
    def locked(self) -> Callable[[], bool]:
        """Return True if this was not released yet."""

    @property
    def release(self) -> Callable[[], object]:
        """Wake the sleeper; one call in C, which no interrupt can break off."""


P = TypeVar("P", bound=Parker)


class Pending(enum.Enum):
    """The type of `PENDING`: the attempt can neither succeed nor fail yet."""

    PENDING = enum.auto()


PENDING: Final = Pending.PENDING


class WaitList:
    """The parkers of the callers that wait for one condition, oldest first.

    Guarded by the lock of its state. The waiter that enlists a parker also removes it;
    a waker only releases it. If a waker both released and removed a parker, an
    interrupt between the two steps could leave a sleeper that no waker finds.
    (`Sleepers` is the exception: it does both, in two calls into C that no interrupt
    separates.)

    asleep: False only if no waiter needs a wake-up when the condition becomes true. A
      thread that makes it true without the lock reads this flag afterwards. A waiter
      sets the flag first, and then checks the condition once more.
    """

    __slots__ = ("_parkers", "_pinned", "asleep")

    def __init__(self) -> None:
        # Created at the first wait: most wait lists of most connections never have one.
        self._parkers: list[Parker] | None = None
        self._pinned: bool = False
        self.asleep: bool = False

    def __len__(self) -> int:
        return len(self._parkers or ())

    def enlist(self, parker: Parker) -> None:
        """Append a taken lock."""
        if self._parkers is None:
            self._parkers = []
        self._parkers.append(parker)
        self.asleep = True

    def leave(self, parker: Parker) -> None:
        """Remove a parker, if it is listed."""
        parkers = self._parkers
        if parkers and parker in parkers:
            parkers.remove(parker)
            if parkers:
                self._review()
            else:
                self.asleep = self._pinned

    def pin(self) -> None:
        """Make every operation without the lock check the state under it afterwards."""
        self._pinned = self.asleep = True

    def wake_one(self) -> None:
        """Release the oldest parker that is still taken.

        A woken waiter that has taken its parker again, but has not attempted again,
        counts as asleep here. A second wake-up may reach it; the chain repairs that.
        """
        if self._parkers:
            for parker in self._parkers:
                if parker.locked() and _released(parker):
                    break
            self._review()

    def wake_all(self) -> None:
        """Release every parker that is taken."""
        if self._parkers:
            for parker in self._parkers:
                if parker.locked():
                    _released(parker)
            self._review()

    def _review(self) -> None:
        # One assignment, last. If the flag were false for a moment, or for good after
        # an interrupt, no waker would wake the remaining sleepers.
        asleep = self._pinned
        for parker in self._parkers or ():
            asleep = asleep or parker.locked()
        self.asleep = asleep


def _released(parker: Parker) -> bool:
    """Release a parker; return False if a signal handler has already released it."""
    try:
        parker.release()
    except (RuntimeError, IndexError):  # the latter is from a `SleepLock`
        return False
    return True


class WaitLists:
    """Several lists of one state on which one caller waits at once."""

    __slots__ = ("_lists",)

    def __init__(self, *lists: WaitList) -> None:
        self._lists = lists

    def enlist(self, parker: Parker) -> None:
        """Append a taken lock to each list."""
        for one in self._lists:
            one.enlist(parker)

    def leave(self, parker: Parker) -> None:
        """Remove a parker from each list."""
        for one in self._lists:
            one.leave(parker)


class Waitable(Protocol):
    """A state on which callers can wait: its lock, and the steps after its release."""

    @property
    def lock(self) -> AbstractContextManager[bool, None]:
        """The lock that guards the state and its wait lists."""

    def recover_locked(self) -> None:
        """Repair the state after an exception, and wake every waiter."""

    def settle(self) -> None:
        """Run the work deferred while the lock was held; called without the lock."""


class Wait(Generic[T, P]):
    """One caller's wait for one condition, independent of how it sleeps.

    Call `look` between two sleeps, and `withdraw` after any exception. A parker serves
    one sleep only, because a waker that found it on the list may be about to release
    it.

    attempt: called under the lock; PENDING if it could not go on.
    ready: called without the lock; True if an attempt could go on.
    """

    __slots__ = ("_attempt", "_make", "_state", "_waiters", "parker", "ready")

    def __init__(
        self,
        state: Waitable,
        waiters: WaitList | WaitLists,
        attempt: Callable[[], T | Pending],
        ready: Callable[[], bool],
        make: Callable[[], P],
    ) -> None:
        self._state = state
        self._waiters = waiters
        self._attempt = attempt
        self.ready: Callable[[], bool] = ready
        self._make = make
        self.parker: P | None = None

    def look(self, *, last: bool) -> T | Pending:
        """Attempt; if that is PENDING and not the ``last``, list a new ``parker``.

        Any exception wakes every waiter, because it may have come after a change and
        before its wake-up. Then the caller has to `withdraw`.
        """
        while True:
            with self._state.lock:
                try:
                    self._leave()
                    outcome = self._attempt()
                    done = last or outcome is not PENDING
                    if not done:
                        self.parker = self._make()
                        self._waiters.enlist(self.parker)
                        done = not self.ready()
                except BaseException:
                    self._state.recover_locked()
                    raise
            # A finalizer on this thread may just have deferred the close of the peer's
            # side. If this thread slept or returned first, nothing would complete that
            # close (QB-CONC-9).
            self._state.settle()
            if done:
                return outcome
            # A thread that acts without the lock may have come between the attempt and
            # the enlisting, and not have seen this waiter.

    def withdraw(self) -> None:
        """Leave the list, and make every other waiter check its condition.

        An interrupt may have hit a waiter that had just been woken in place of another.
        """
        with self._state.lock:
            self._leave()
            self._state.recover_locked()
        self._state.settle()

    def _leave(self) -> None:
        if self.parker is not None:
            self._waiters.leave(self.parker)
            self.parker = None


def taken_lock() -> _thread.LockType:
    """Return a new lock that is taken: a parker on which any thread may sleep."""
    parker = _sync.Lock()
    parker.acquire()
    return parker


def own_parker() -> _thread.LockType:
    """Return a new lock that is taken: a parker on which the calling thread sleeps."""
    parker = _sync.sleep_lock()
    parker.acquire()
    return parker


def pause(seconds: float, parker: _thread.LockType | None = None) -> None:
    """Sleep; parker: a taken lock that was made while there was memory."""
    # `bool()` is False: no thread ends the pause.
    _sync.park(parker or taken_lock(), bool, _sync.monotonic() + seconds)


def check_may_wait(lock: _thread.RLock) -> None:
    """Refuse to sleep while this thread holds the lock of the object it waits for.

    Raises:
        RuntimeError: a signal handler interrupted its own thread inside that lock.
    """
    if _sync.owns(lock):
        msg = (
            "cannot wait: this signal handler interrupted a call on the same object,"
            " which cannot go on until the handler returns; use timeout=0"
        )
        raise RuntimeError(msg)


def wait_for(
    state: Waitable,
    waiters: WaitList | WaitLists,
    attempt: Callable[[], T | Pending],
    ready: Callable[[], bool],
    deadline: float | None,
) -> T | Pending:
    """Repeat ``attempt`` under the lock until it is not PENDING or the time is up.

    The last ``attempt`` follows the deadline, so success and disconnect both beat the
    timeout (QB-TIME-5). PENDING is returned only if that attempt failed too. This
    drives a `Wait` by sleeping in the calling thread.
    """
    wait = Wait(state, waiters, attempt, ready, own_parker)
    expired = False
    try:
        while True:
            outcome = wait.look(last=expired)
            if outcome is not PENDING or expired:
                return outcome
            assert wait.parker is not None
            expired = not _sync.park(wait.parker, ready, deadline)
    except BaseException:
        wait.withdraw()
        raise


class SharedParker:
    """A parker for one sleep: sleep on ``lock``; wake it by `release`, once or often.

    A bare lock can be released only once. A caller listed in several places, under
    several locks, may be woken from each of them at once. No interrupt may separate the
    removal of a parker from its release.

    `release` is one call in C, like the release of a lock. The first call takes the
    only item of an iterator, which releases the lock. Every other call finds no item.
    Without the interpreter lock two of these calls may run at the same time.
    """

    __slots__ = ("lock", "locked", "release")

    def __init__(self) -> None:
        self.lock: Final[_thread.LockType] = own_parker()
        self.locked: Final[Callable[[], bool]] = self.lock.locked
        only, _ = _sync.only_once(self.lock)
        self.release: Final[Callable[[], object]] = partial(
            next, map(_release, only), None
        )
