"""`ReadOwner`: the read owner of one socket: the driver, a receiver, or none.

The driver reads unless a receiver waits. A waiting receiver takes the read lease and
sleeps at the socket itself: a wake-up by the driver would involve two threads for each
message. After the receive, no thread reads for a moment: the receiver will often wait
for the next message soon, and changing the events the driver waits for costs more than
a read.

An event loop cannot sleep at one socket. It watches a poller that contains the socket,
and holds the lease between two reads, too (`lend_locked`). Any of its callbacks may
block it: so the driver takes the lease back if the loop reads nothing for `LENT_S`.

    leased  idle  reader          next reader, by
    ------  ----  --------------  ----------------------------------------------
    no      no    the driver      a receiver, by `lease_locked`
    yes     yes   a receiver      none, by `yield_locked`; the driver if wanted
                                  or an event loop, by `lend_locked`
    yes     yes   an event loop   the driver, by `take_back_locked`
    no      yes   none            a receiver, by `lease_locked`; the driver, by
                                  `rearm_locked` or after `IDLE_S`
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from queuebroker import _net, _sync

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver

__all__ = ["OPEN", "ReadOwner"]

OPEN: Final = [False, False]  # no side of a connection has closed

# How long no thread reads after a receive, in seconds.
IDLE_S: Final = 2e-3
# How long an event loop may hold the read lease without a read, in seconds.
LENT_S: Final = 0.1


class Lent(Protocol):
    """The lease of an event loop; see `queuebroker.sockets.read_lease.WatchedLease`."""

    @property
    def poller(self) -> _net.Poller:
        """The poller that the loop watches."""


class ReadOwner:
    """The read owner of one socket, and so the events the driver waits for there.

    Lock: that of the link, which guards everything here.

    Invariants, true whenever the lock is free, once the link is open and until `over`:
    T1. the driver waits for the socket to be readable exactly while not ``idle``.
    T2. it waits for the socket to be writable exactly while ``blocked``.
    T3. ``leased`` implies ``idle``.
    T4. ``lent`` implies ``leased``; it is then the only lease in a poller of a loop.

    The order of the lines matters. After an interrupt between any two of them, the
    link's `recover_locked` returns the read lease to the driver, unless the interrupted
    thread holds it.
    """

    __slots__ = (
        "_at",
        "_descriptor",
        "_driver",
        "_lock",
        "_rearming",
        "_reviewing",
        "_watch",
        "_yielded_s",
        "blocked",
        "finish",
        "idle",
        "leased",
        "lent",
        "over",
        "read_at",
        "sent_since_sleep",
        "sleeper",
    )

    def __init__(self, descriptor: int, driver: Driver, lock: _thread.RLock) -> None:
        self._descriptor = descriptor
        self._driver = driver
        self._watch = driver.watch  # twice for each message
        self._lock = lock
        # True while a receiver waits for the socket in the driver's place.
        self.leased: bool = False
        # True while the driver does not wait for it.
        self.idle: bool = False
        # True while unsent bytes wait for the socket to be writable.
        self.blocked: bool = False
        # True once the link is closed: its descriptor may soon belong to another file.
        self.over: bool = False
        # Makes the driver close the socket; None before the end of the link, and after
        # the close. Called again once the receiver has left: the close had to wait for
        # it, or the first call was interrupted.
        self.finish: Callable[[], object] | None = None
        # True if a message was sent since a receiver last slept here: the next message
        # may be its answer. A hint: the sleeping receiver reads and clears it without
        # the lock.
        self.sent_since_sleep: bool = False
        # The sleeper of the reading receiver, while attached to a socket.
        self.sleeper: _net.Sleeper
        self._at: Socket | None = None
        self._rearming = False
        self._yielded_s = 0.0
        # The lease of an event loop; None if a receiver or nobody has the read lease.
        self.lent: Lent | None = None
        # When that loop last read, on the monotonic clock in seconds. True while a
        # timer is set that reviews it.
        self.read_at: float = 0.0
        self._reviewing = False

    def lease_locked(
        self, socket: Socket, closed: list[bool], *, owned: bool = False
    ) -> _net.Sleeper | None:
        """Take the read lease, until `yield_locked`; return the sleeper of the reader.

        Return None if it is refused, or useless since a side has closed.

        closed: True for each side of the connection that has closed.
        owned: take it even if the user runs the driver. The lease must then be
          returned at once: no other thread runs the timer that returns it later.
        """
        if self.leased or closed != OPEN or self.over:
            return None
        if self._at is None:
            if not (owned or self._driver.background):
                return None
            try:
                self.sleeper = self._driver.lend_sleeper()
            except OSError:
                return None  # no descriptor is left for it: the driver still reads
            self._at = socket
            self.sleeper.attach(socket)
        sleeper = self.sleeper
        if sleeper.released:
            sleeper.renew()
        if not self.idle:
            self.idle = True
            # `_watch_locked`, inlined for each message.
            self._watch(self._descriptor, _net.WRITE if self.blocked else _net.ONCE)
        # No call from here on: an interrupt would leave a lease that no thread returns.
        self.leased = True
        return sleeper

    def yield_locked(self, *, wanted: bool) -> None:
        """Return the read lease: at once if ``wanted``, else soon.

        One timer serves all receivers that yield before it expires: see `_rearm`.
        """
        self.leased = False
        if self.over:
            if self._driver.stopped:  # it makes no more calls
                self.close()
            elif self.finish is not None:
                self.finish()
        elif wanted:
            self._watch(  # `_watch_locked`, inlined
                self._descriptor, _net.READ | _net.WRITE if self.blocked else _net.READ
            )
            self.idle = False
        else:
            self._yielded_s = now = _sync.monotonic()
            if not self._rearming:
                self._driver.at(now + IDLE_S, self._rearm, self)
                self._rearming = True

    def lend_locked(self, lease: Lent, closed: list[bool]) -> None:
        """Take the read lease for an event loop, until `take_back_locked`.

        Do nothing if it is refused, or useless since a side has closed.
        """
        if self.leased or closed != OPEN or self.over:
            return
        self.lent = lease  # first: `detach_locked` undoes the next line
        try:
            lease.poller.register(self._descriptor, _net.READ)
        except OSError:  # the system can watch no more: the driver still reads
            self.lent = None
            return
        if not self.idle:
            self.idle = True
            self._watch_locked(reads=False, writes=self.blocked)
        self.read_at = _sync.monotonic()
        if not self._reviewing:
            self._driver.at(self.read_at + LENT_S, self._review, self)
            self._reviewing = True
        # No call from here on, as in `lease_locked`.
        self.leased = True

    def take_back_locked(self) -> None:
        """Let the driver read again, in place of an event loop, if one reads."""
        if self.lent is not None:
            # In this order: after an interrupt a second call finds work left.
            self.yield_locked(wanted=True)
            self._end_lent_locked()

    def _end_lent_locked(self) -> None:
        if self.lent is not None:
            # The loop may have closed its poller.
            with suppress(OSError, ValueError):
                self.lent.poller.unregister(self._descriptor)
            self.lent = None

    def _review(self) -> None:
        """Take the lease back from an event loop that has not read for `LENT_S`."""
        with self._lock:
            self._reviewing = False
            due_at = self.read_at + LENT_S
            if self.lent is not None and _sync.monotonic() < due_at:
                # One timer for many reads, as in `_rearm`.
                self._driver.at(due_at, self._review, self)
                self._reviewing = True
                return
            self.take_back_locked()
        self._settle()

    def wake_locked(self) -> None:
        """Wake the reader that is not the driver: the connection has changed."""
        if self.lent is not None:
            self.take_back_locked()
        elif self.leased:
            self.sleeper.release()

    def rearm_locked(self) -> None:
        """Let the driver read, if no thread does."""
        if self.idle and not self.leased:
            self._watch_locked(reads=True, writes=self.blocked)
            self.idle = False

    def block_locked(self, blocked: bool) -> None:
        """Start or stop the driver's wait for the socket to be writable."""
        self._watch_locked(reads=not self.idle, writes=blocked)
        self.blocked = blocked

    def _watch_locked(self, *, reads: bool, writes: bool) -> None:
        if self.over:
            return
        # `ONCE` if no event is awaited: epoll always reports a hang-up, and would
        # otherwise repeat the report on every poll.
        wanted = (_net.READ if reads else 0) | (_net.WRITE if writes else 0)
        self._watch(self._descriptor, wanted or _net.ONCE)

    def _rearm(self) -> None:
        with self._lock:
            soon_s = self._yielded_s + IDLE_S
            if _sync.monotonic() < soon_s and not self.over:
                # A receiver has read since: postpone, with this timer instead of one
                # per receiver.
                self._driver.at(soon_s, self._rearm, self)
                return
            self._rearming = False
            if not self.leased:
                self.rearm_locked()
                self.detach_locked()
        self._settle()

    def _settle(self) -> None:
        """Do the work of a finalizer that has found the lock taken (QB-CONC-9)."""
        link = self._link
        if link is not None:
            link.settle()

    def fail(self, error: BaseException) -> None:
        """End the connection."""
        link = self._link
        if link is not None:
            link.fail(error)

    @property
    def _link(self) -> Any:
        """The link, unless it has ended; in the thread of the driver.

        Looked up there: a reference to it would be a cycle.
        """
        return None if self.over else self._driver.handler_of(self._descriptor)

    def detach_locked(self) -> None:
        """Return the sleeper to the driver; no receiver may be asleep on it.

        Also end a lease of an event loop that an interrupt has left half made.
        """
        self._end_lent_locked()
        if self._at is not None:
            at, self._at = self._at, None
            self.sleeper.detach(at)
            self._driver.return_sleeper(self.sleeper)

    def abandon_after_fork(self, lock: _thread.RLock) -> None:
        """End, since no thread runs the driver any more; ``lock`` is a new lock."""
        self._lock = lock
        self.over = True
        self.lent = None  # the poller is the parent's, too
        if not self.leased:  # else a receiver sleeps on it and must still be woken
            self.close()

    def close(self) -> None:
        """Close the sleeper; no receiver sleeps on it, now or later."""
        if self._at is not None:
            self._at = None
            self.sleeper.close()
