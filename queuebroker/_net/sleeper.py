"""`Sleeper`: a parker that also wakes when a socket is readable."""

from __future__ import annotations

import contextlib
import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Final

from queuebroker import _sync
from queuebroker._net.polling import (
    INT_MAX,
    READ,
    WaitSet,
    poll_in_slices,
    processors,
)
from queuebroker._net.sockets import AT_ONCE
from queuebroker._net.tls import TlsSocket
from queuebroker.waiting.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker._net.sockets import Socket

__all__ = ["AWAKE_S", "CAUTION_MAX", "AdaptiveSpin", "Sleeper", "SocketFailure"]

# How long a sleeper blocks in its socket alone, as `struct timeval`. The second value
# is the upper bound of that time if the kernel counts in hundredths of a second.
_PATIENCE: Final = struct.pack("@ll", 0, 2_000)
_PATIENCE_MAX_S: Final = 12e-3
# Maximum duration of a spin in seconds; a reply within it is worth the spin. Twice the
# round trip of two programs if both have to be woken.
AWAKE_S: Final = 2e-4
# Maximum number of short waits required before the next spin: if every spin is in vain,
# hardly any time is wasted.
CAUTION_MAX: Final = 64


class AdaptiveSpin:
    """The choice of one waiter to spin or to sleep at once; for one thread at a time.

    To put a thread to sleep and wake it on another processor takes longer than a short
    reply. So a waiter whose last reply came soon spins for a moment the next time, and
    sleeps only if no reply came.

    spin_is_due: True if the next wait should begin with a spin.

    A spin in vain costs `AWAKE_S` of a processor. While messages are far apart, no wait
    spins. When they begin to be far apart, at most one spin is in vain. If every wait
    is short and yet no spin helps, one wait in `CAUTION_MAX` spins.
    """

    __slots__ = ("_caution", "_wanted", "spin_is_due")

    def __init__(self) -> None:
        # Number of short waits before the next spin, and its next value after a spin in
        # vain.
        self._wanted: int = 1
        self._caution: int = 1
        self.spin_is_due: bool = False

    def record_spin(self, *, came: bool) -> None:
        """Record the result of a spin: True if the awaited event came."""
        if came:
            self._caution = 1
        else:
            self._wanted, self.spin_is_due = self._caution, False
            self._caution = min(2 * self._caution, CAUTION_MAX)

    def record_sleep(self, seconds: float) -> None:
        """Record how long the waiter slept before an event came."""
        if seconds <= AWAKE_S:
            self._wanted -= 1
            self.spin_is_due = self._wanted <= 0


class SocketFailure(Exception):  # noqa: N818 # it carries the error
    """A failure of a socket that nothing else reports.

    error: the error of the socket.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error: OSError = error


class Sleeper(AdaptiveSpin):
    """A parker that also wakes when a descriptor is readable; see `parking.Parker`.

    The only wait apart from `queuebroker._sync.park`: a receiver whose peer is in
    another process sleeps on its own socket, so no thread has to wake it. `renew`
    readies the sleeper again, under the lock under which wakers release it. The sleeper
    may block in a plain socket once that socket was attached: see `AT_ONCE`.

    If events arrive soon, time after time, its user spins for a moment before it
    sleeps: see `AdaptiveSpin`.

    released: True if this was released since the last `renew`.
    """

    __slots__ = (
        "_at",
        "_event",
        "_may_spin",
        "_poll",
        "_poller",
        "released",
    )

    def __init__(self) -> None:
        super().__init__()
        self._event: Final = Event()
        self.released: bool = False
        self._at: Socket | None = None  # the socket it blocks in first
        # With one processor the peer cannot reply before this sleeps.
        self._may_spin: Final = processors() > 1
        self._poller: Final = WaitSet()
        self._poller.register(self._event.fd, READ)
        self._poll: Callable[[float | None], object] = self._poller.poll
        if not _sync.has_interpreter_lock():
            self._poll = partial(poll_in_slices, self._poller.poll, 1000)

    def renew(self) -> Sleeper:
        """Mark this as not released; return it."""
        if self.released:
            # In this order: no interrupt is raised before the read is done, and an
            # interrupt after the read finds the state complete.
            self.released = False
            self._event.clear()
        return self

    def locked(self) -> bool:
        """Return True if this was not released yet."""
        return not self.released

    def release(self) -> None:
        """Wake the thread that sleeps on this."""
        if not self.released:
            self.released = True
            self._event.set()

    def attach(self, at: Socket) -> None:
        """Wake also when this socket is readable or has ended."""
        self._poller.register(at, READ)
        # MSG_PEEK would miss deciphered bytes. Without `AT_ONCE` the other calls on the
        # socket would block, too.
        if AT_ONCE and not isinstance(at, TlsSocket):
            at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _PATIENCE)
            at.setblocking(True)
            self._at = at

    def detach(self, at: Socket) -> None:
        """Stop waking for this socket."""
        self._at = None
        with contextlib.suppress(KeyError):  # an interrupt came before `attach`
            self._poller.unregister(at)

    def spin(
        self,
        began: float,
        deadline: float | None,
        ready: Callable[[], object] = bool,
    ) -> bool:
        """Spin for a moment; return False if the caller has to sleep.

        Only if ``spin_is_due``, in a wait for the reply to a message just sent: if the
        peer does not wait for this side, spinning gains nothing.

        began: when the wait began; deadline: when it ends; on the monotonic clock.
        ready: becomes true if the caller has another reason to wake; by default never.
        """
        until = began + AWAKE_S
        end = until if deadline is None else min(until, deadline)
        # Not `_sync.spin`, which yields: two processes that answer each other would
        # stay on one processor, each until the other yields. Other threads of this
        # process run meanwhile, because each poll releases the interpreter lock.
        poll = self._poller.poll
        while not (poll(0) or ready()):
            if _sync.monotonic() >= end:
                self.record_spin(came=False)
                return False
        # The spin may end late, because other threads held the interpreter lock.
        self.record_spin(came=_sync.monotonic() <= until)
        return True

    def sleep(
        self, deadline: float | None, began: float | None = None, *, alone: bool = False
    ) -> None:
        """Sleep until an event wakes this, or until a point on the monotonic clock.

        began: when the wait began, on the monotonic clock; None: now.
        alone: True to block in the socket alone first, the usual source of the wake-up.
          To wait for two descriptors costs up to a third of a round trip. A `release`
          is noticed when that first wait ends, within milliseconds.

        Raises:
            SocketFailure: the socket has failed; only if ``alone``.
        """
        if self._may_spin and began is None:
            began = _sync.monotonic()
        if not (alone and self._came_alone(deadline)):
            rest_ms = None
            if deadline is not None:
                rest_ms = (deadline - _sync.monotonic()) * 1000
                if rest_ms < 0:
                    rest_ms = 0
                elif rest_ms > INT_MAX:
                    rest_ms = INT_MAX
            if not self._poll(rest_ms):
                return
        if began is not None:
            self.record_sleep(_sync.monotonic() - began)

    def _came_alone(self, deadline: float | None) -> bool:
        """Block in the socket alone, if it is plain; return True if data came."""
        at = self._at
        if (
            at is not None
            and not self.released
            and (deadline is None or deadline - _sync.monotonic() > _PATIENCE_MAX_S)
        ):
            try:
                at.recv(1, socket.MSG_PEEK)
            except OSError as error:
                if _comes_from_handler(error):
                    raise
                if not isinstance(error, BlockingIOError):  # else nothing came so far
                    raise SocketFailure(error) from None
            else:
                return True
        return False

    def close(self) -> None:
        """Close the event."""
        self._event.close()


def _comes_from_handler(error: OSError) -> bool:
    """Return True if a signal handler has raised an error, not a call of the caller.

    A function of its own: a traceback in a variable of the caller would be a cycle,
    which holds all frames below it, and so an end that the user forgets.
    """
    trace = error.__traceback__
    return trace is not None and trace.tb_next is not None
