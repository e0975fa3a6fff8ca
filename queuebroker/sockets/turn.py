"""`Turn`: whose turn it is to read a socket.

The driver's, unless a receiver waits: that takes the reading over and sleeps at the
socket itself, since to be woken by the driver would take two threads for each message.
Afterwards it is nobody's for a moment: who has just received will often wait for the
next message before long, and to change what the driver waits for costs more than to
read.

    led    idle   who reads       left by
    -----  -----  --------------  ----------------------------------------------
    no     no     the driver      `lead_locked`: a receiver
    yes    no     a receiver      `yield_locked`: nobody, or the driver if wanted
    no     yes    nobody          `lead_locked`, `rearm_locked`, or `IDLE_S`: the driver
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queuebroker import _net, _sync

if TYPE_CHECKING:
    import _thread

    from queuebroker._net import Socket
    from queuebroker.sockets.driver import Driver

__all__ = ["Turn"]

# For how long nobody reads after a receive, in seconds.
IDLE_S: Final = 2e-3


class Turn:
    """Who reads one socket, and so what the driver waits for there.

    Lock: that of the link, which guards everything here.

    Invariants, true whenever the lock is free, once the link is open and until `over`:
    T1. the driver waits for something to read exactly while neither ``led`` nor
        ``idle``.
    T2. it waits for the socket to be writable exactly while ``blocked``.

    The order of the lines matters: after an interrupt between any two of them, the
    link's `recover_locked` gives the reading to the driver, unless who was struck has
    it.
    """

    __slots__ = (
        "_at",
        "_descriptor",
        "_driver",
        "_lock",
        "_rearming",
        "_yielded_s",
        "blocked",
        "idle",
        "led",
        "over",
        "sleeper",
        "spoke",
    )

    def __init__(self, descriptor: int, driver: Driver, lock: _thread.RLock) -> None:
        self._descriptor = descriptor
        self._driver = driver
        self._lock = lock
        # Whether a receiver waits for the socket in the driver's place.
        self.led: bool = False
        # Whether nobody does for a moment, the driver neither.
        self.idle: bool = False
        # Whether something is unsent until the socket takes more.
        self.blocked: bool = False
        # Whether the link is closed: its descriptor may soon be another's.
        self.over: bool = False
        # Whether a message was sent since somebody last slept here: what comes next may
        # be its answer. A guess, by whoever is at it.
        self.spoke: bool = False
        # What a receiver sleeps on that reads, while it is attached to a socket.
        self.sleeper: _net.Sleeper
        self._at: Socket | None = None
        self._rearming = False
        self._yielded_s = 0.0

    def lead_locked(self, socket: Socket, *, owned: bool) -> bool:
        """Take the reading over, until `yield_locked`; False if another has it.

        owned: also from an owner that turns the driver, to whom it is to be yielded at
          once: nobody else turns that for the timer by which it is done later.
        """
        if self.led:
            return False
        if self._at is None:
            if not (owned or self._driver.background):
                return False
            try:
                self.sleeper = self._driver.lend_sleeper()
            except OSError:
                return False  # no descriptor is left for it: the driver reads as ever
            self._at = socket
            self.sleeper.attach(socket)
        if not self.idle:
            self.idle = True
            self._watch_locked(reads=False, writes=self.blocked)
        self.idle = False
        self.led = True
        return True

    def sleep(self, deadline: float | None, *, alone: bool) -> None:
        """Sleep as who reads: until there is something, or the sleeper is released.

        alone: as of `Sleeper.sleep`.

        Raises:
            SocketFailure: the socket has failed.
        """
        spoke, self.spoke = self.spoke, False
        self.sleeper.sleep(deadline, alone=alone, answered=spoke)

    def yield_locked(self, *, wanted: bool) -> None:
        """Give the reading back: at once if ``wanted``, else soon.

        One timer serves all who come and go within its time: see `_rearm`.
        """
        self.idle = True
        self.led = False
        if self.over:
            if self._driver.stopped:  # nobody calls anything there
                self.close()
        elif wanted:
            self.rearm_locked()
        else:
            self._yielded_s = now = _sync.monotonic()
            if not self._rearming:
                self._driver.at(now + IDLE_S, self._rearm, self)
                self._rearming = True

    def rearm_locked(self) -> None:
        """Let the driver read, if nobody does."""
        if self.idle and not self.led:
            self._watch_locked(reads=True, writes=self.blocked)
            self.idle = False

    def block_locked(self, blocked: bool) -> None:
        """Let the driver wait for the socket to be writable, or not any more."""
        self._watch_locked(reads=not (self.led or self.idle), writes=blocked)
        self.blocked = blocked

    def _watch_locked(self, *, reads: bool, writes: bool) -> None:
        if self.over:
            return
        wanted = (_net.READ if reads else 0) | (_net.WRITE if writes else 0)
        self._driver.watch(self._descriptor, wanted or _net.ONCE)

    def _rearm(self) -> None:
        with self._lock:
            soon_s = self._yielded_s + IDLE_S
            if _sync.monotonic() < soon_s and not self.over:
                # Somebody has read since: not yet, and without a new timer of theirs.
                self._driver.at(soon_s, self._rearm, self)
                return
            self._rearming = False
            if not self.led:
                self.rearm_locked()
                self.detach_locked()

    def fail(self, error: BaseException) -> None:
        """End the connection, which it looks up: a reference would be a cycle."""
        handler = self._driver.handler_of(self._descriptor)
        if handler is not None and not self.over:
            handler.fail(error)

    def detach_locked(self) -> None:
        """Give back what receivers sleep on; nobody does."""
        if self._at is not None:
            at, self._at = self._at, None
            self.sleeper.detach(at)
            self._driver.return_sleeper(self.sleeper)

    def forsake(self, lock: _thread.RLock) -> None:
        """End, since nobody turns the driver any more; ``lock`` is a new one."""
        self._lock = lock
        self.over = True
        if not self.led:  # else who sleeps here is to be woken yet
            self.close()

    def close(self) -> None:
        """Close what receivers sleep on; nobody does, or will."""
        if self._at is not None:
            self._at = None
            self.sleeper.close()
