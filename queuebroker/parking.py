"""Who waits for one condition of a state, and the one loop by which all wait.

The rule: a state is changed and looked at only under its lock, but nobody sleeps under
it. A caller that cannot go on enlists a parker (a bare lock it has taken), lets go of
the state's lock, and sleeps on the parker; who makes the condition true releases one.

Waking is a chain: an operation wakes one waiter it made room for, and a waiter that
succeeded wakes the next while the condition still holds. So there is one invariant:

I1. whenever the lock is free and the condition of a `WaitList` holds, either nobody
    is listed or somebody who was woken is yet to look.

This does not know what is waited for; that is the business of ``attempt``.
"""

from __future__ import annotations

import enum
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
    "Wait",
    "WaitList",
    "WaitLists",
    "Waitable",
    "check_may_wait",
    "taken_lock",
    "wait_for",
]

T = TypeVar("T")


class Parker(Protocol):
    """What a waker knows of a sleeper; a bare lock is one."""

    @property
    def locked(self) -> Callable[[], bool]:
        """Whether it was not released yet."""

    @property
    def release(self) -> Callable[[], object]:
        """Wake who sleeps on it; one call in C, which no interrupt can tear."""


P = TypeVar("P", bound=Parker)


class Pending(enum.Enum):
    """The type of `PENDING`: not now, and not never."""

    PENDING = enum.auto()


PENDING: Final = Pending.PENDING


class WaitList:
    """The parkers of those who wait for one condition, oldest first.

    Guarded by the lock of the state it belongs to. Who enlists a parker takes it off
    again; a waker only releases it. If a waker both released and removed, an interrupt
    between the two would leave a sleeper that nobody can find any more. (`Sleepers` is
    the exception: it does both, in two calls into C that no interrupt parts.)

    asleep: false only if nobody needs to be told that the condition is true. Who makes
    it true without the lock reads this afterwards; who waits sets it first, and then
    looks once more.
    """

    __slots__ = ("_parkers", "_pinned", "asleep")

    def __init__(self) -> None:
        # Made at the first wait: most wait lists of most connections never have one.
        self._parkers: list[Parker] | None = None
        self._pinned: bool = False
        self.asleep: bool = False

    def __len__(self) -> int:
        return len(self._parkers or ())

    def enlist(self, parker: Parker) -> None:
        """Add a taken lock at the end."""
        if self._parkers is None:
            self._parkers = []
        self._parkers.append(parker)
        self.asleep = True

    def leave(self, parker: Parker) -> None:
        """Take a parker off, if it is listed."""
        parkers = self._parkers
        if parkers and parker in parkers:
            parkers.remove(parker)
            if parkers:
                self._review()
            else:
                self.asleep = self._pinned

    def pin(self) -> None:
        """Let everybody who acts without the lock come and look from now on."""
        self._pinned = self.asleep = True

    def wake_one(self) -> None:
        """Release the oldest parker that is still taken.

        A woken waiter that has its parker again but has not yet looked counts as
        asleep here, and a second wake-up may fall on it too; the chain repairs that.
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
        # One assignment, last: false for a moment, or for good after an interrupt, it
        # would leave others asleep whom nobody wakes any more.
        sleeping = [parker for parker in self._parkers or () if parker.locked()]
        self.asleep = self._pinned or bool(sleeping)


def _released(parker: Parker) -> bool:
    """Release a parker; return False if a signal handler has done it meanwhile."""
    try:
        parker.release()
    except RuntimeError:
        return False
    return True


class WaitLists:
    """Several lists of one state that somebody waits on at once."""

    __slots__ = ("_lists",)

    def __init__(self, *lists: WaitList) -> None:
        self._lists = lists

    def enlist(self, parker: Parker) -> None:
        """Add a taken lock to each."""
        for one in self._lists:
            one.enlist(parker)

    def leave(self, parker: Parker) -> None:
        """Take a parker off each."""
        for one in self._lists:
            one.leave(parker)


class Waitable(Protocol):
    """A state somebody can wait on: its lock, and what goes with letting go of it."""

    @property
    def lock(self) -> AbstractContextManager[bool, None]:
        """Guards the state and its wait lists."""

    def recover_locked(self) -> None:
        """Put right what an exception left half done, and wake everybody."""

    def settle(self) -> None:
        """Do what could not be done while the lock was held; called without it."""


class Wait(Generic[T, P]):
    """One caller's wait for one condition, apart from how it sleeps.

    Between two sleeps comes `look`; where anything else happens, `withdraw`. A parker
    is used for one sleep only: whoever took it off a list may be about to release it.

    attempt: made under the lock; PENDING if it got nowhere.
    ready: says without the lock whether an attempt would get anywhere.
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
        """Attempt; PENDING means that ``parker`` is listed now, unless it was the last.

        Whatever exception strikes, everybody is roused: it may have come after a change
        and before its wake-up. The caller has to `withdraw`.
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
            # A finalizer may have hung up the peer just now, on this thread, and have
            # left it to us to say so: if we slept first, or went away, nobody would
            # (QB-CONC-9).
            self._state.settle()
            if done:
                return outcome
            # Who acts without the lock may have come between the attempt and the
            # list, and not have seen us.

    def withdraw(self) -> None:
        """Be listed no more, and make everybody look.

        An interrupt may have hit a waiter that had just been chosen.
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
    """Return a new lock that is taken: a parker to sleep on."""
    parker = _sync.Lock()
    parker.acquire()
    return parker


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
    """Repeat ``attempt`` under the lock until it is not PENDING or time is up.

    ``attempt`` is made once more after the deadline, so success and disconnect both
    beat the timeout (QB-TIME-5); PENDING is returned only if that one failed too. See
    `Wait`, which this drives by sleeping in the calling thread.
    """
    wait = Wait(state, waiters, attempt, ready, taken_lock)
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
