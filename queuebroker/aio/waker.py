"""`Waker`: lets any thread wake a coroutine; one descriptor for each event loop.

A thread that makes a condition true releases a parker in one call into C, which no
interrupt can break off (`queuebroker.waiting.parking`). Otherwise a sleeper could be
removed from its list and never be woken. asyncio's ``call_soon_threadsafe`` is Python
code in the waker's thread, so an interrupt can break it off. It also raises once the
loop is closed. So the release only records the sleeper and sets an event; the loop
clears it and does the rest.
"""

from __future__ import annotations

import asyncio
import contextvars
import operator
import weakref
from collections import deque
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, cast

from queuebroker import _sync
from queuebroker.waiting.event import Event

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task
    from collections.abc import Callable
    from weakref import ReferenceType, WeakKeyDictionary

__all__ = ["Waiter", "Waker", "running_waker"]


class Waker:
    """An event of one loop, and the sleepers released since it was last cleared.

    The loop holds it, by its reader, until the loop is closed; so does every waiter.
    The event is closed with the last of them: a late release must not write to another
    file that has got the same number.

    Raises:
        NotImplementedError: the loop cannot read descriptors.
    """

    __slots__ = ("__weakref__", "_event", "_proactor", "_rung", "loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._rung: Final[deque[list[Future[None]]]] = deque()
        self._event: Final = Event()
        try:
            loop.add_reader(self._event.fd, self.answer)
        except NotImplementedError:
            # The default loop of Windows.
            self._proactor: Any = getattr(loop, "_proactor", None)
            if self._proactor is None or self._event.reader is None:
                name = type(loop).__name__
                msg = f"cannot wait: {name} does not read descriptors; use asyncio.run"
                raise NotImplementedError(msg) from None
            self._receive()

    def waiter(self) -> Waiter:
        """Return a new waiter: a parker to sleep on in this loop."""
        return Waiter(self)

    def release_of(
        self, sleeping: list[Future[None]]
    ) -> tuple[Callable[[], object], Callable[[], int]]:
        """Return a release, which wakes a sleeper once, and the count of releases left.

        The first call of the release takes the only item of an iterator, the steps, and
        runs them. Any other call, also a simultaneous one, finds no item. The release
        holds this waker, and so its descriptor.
        """
        # deque(steps, 0) runs the steps in C and keeps none of their results. A call
        # that finds no item returns `self`; as an argument, `self` is held as long as
        # the release exists.
        steps = chain(
            map(self._rung.append, (sleeping,)),
            map(operator.call, (self._event.set,)),
        )
        gate, left = _sync.only_once(steps)
        return partial(next, map(deque, gate, repeat(0)), self), left

    def answer(self) -> None:
        """Wake the sleepers that were released; called by the loop.

        Clears the event first: a later release sets it again. After an interrupt, this
        sets it, so that the loop calls this again.
        """
        try:
            try:  # noqa: SIM105 # `suppress` costs three calls for each wake-up
                self._event.clear()
            except BlockingIOError:
                pass
            self._wake_all()  # a call: see `_sync.Lock`
        except BaseException:
            self._event.set()
            raise

    def _receive(self) -> None:
        """Call `_received` when the event is set, or when the loop is closed.

        A receive of no bytes ends once there is one. The loop holds it until then.
        """
        ended: Future[bytes] = self._proactor.recv(self._event.reader, 0)
        ended.add_done_callback(self._received)

    def _received(self, ended: Future[bytes]) -> None:
        if ended.cancelled():
            return
        try:
            self.answer()
        finally:
            self._receive()

    def _wake_all(self) -> None:
        while self._rung:
            _wake_up(self._rung[0])
            self._rung.popleft()


class Waiter:
    """A parker for a coroutine: `slept` corresponds to `_sync.park` on a lock.

    locked: True if it was not released since it was armed.
    release: wake the sleeper; from any thread, with or without a lock held, once or
      often. If the loop is closed, no sleeper is left, and the call does nothing.
    """

    __slots__ = ("_sleeping", "_task", "_waker", "locked", "release")

    def __init__(self, waker: Waker) -> None:
        self._waker: Final = waker
        # Set while it sleeps, so that the holder of the waiter holds the coroutine.
        # Otherwise a task woken in a loop that is closed before it runs would be
        # collected while it is still listed. If kept longer, an exception's traceback
        # would make it a cycle.
        self._task: Task[object] | None = None
        # The future last slept on, if any. `release` holds this list and not the
        # waiter: otherwise a waiter that is never released would hold itself.
        self._sleeping: Final[list[Future[None]]] = []
        self.locked: Callable[[], bool]
        self.release: Callable[[], object]
        self.arm()

    def arm(self) -> None:
        """Reset it after a release, as a thread takes its lock again after a sleep."""
        release, left = self._waker.release_of(self._sleeping)
        # In this order: a thread that finds it locked must not find the old release.
        self.release = release
        self.locked = cast("Callable[[], bool]", left)  # 1 or 0

    async def slept(self, deadline: float | None) -> bool:
        """Sleep until it is released; return False if the deadline passed first.

        The deadline is a point on `_sync.monotonic` in seconds, None for never. The
        loop may have another clock, and may wake slightly early.
        """
        while self.locked():
            rest_s = None if deadline is None else deadline - _sync.monotonic()
            if rest_s is not None and rest_s <= 0:
                return False
            loop = self._waker.loop
            future = loop.create_future()
            self._sleeping[:] = (future,)
            timer = None
            try:
                # Before the timer: from 3.12 on this is a call into C, after which an
                # interrupt can be raised.
                self._task = asyncio.current_task(loop)
                if rest_s is not None:
                    timer = loop.call_later(rest_s, _wake_up, self._sleeping)
                await future
            finally:
                self._task = None
                if timer is not None:
                    timer.cancel()
        return True


def _wake_up(sleeping: list[Future[None]]) -> None:
    """Resume a coroutine, if it sleeps; in the thread of its loop."""
    for future in sleeping:
        if not future.done():
            future.set_result(None)


# Weak on both sides: the loop itself holds its waker, by the reader, until it is
# closed. Otherwise a closed loop and its descriptor would live on in here.
_wakers: Final[WeakKeyDictionary[AbstractEventLoop, ReferenceType[Waker]]] = (
    weakref.WeakKeyDictionary()
)


def running_waker() -> Waker:
    """Return the waker of the running loop, created if missing.

    Raises:
        RuntimeError: no loop is running in this thread.
        NotImplementedError: the loop cannot read descriptors.
    """
    loop = asyncio.get_running_loop()
    known = _wakers.get(loop)
    waker = None if known is None else known()
    if waker is None:
        # Not in the context of this caller, which the loop would keep.
        waker = contextvars.Context().run(Waker, loop)
        _wakers[loop] = weakref.ref(waker)
    return waker
