"""`Waker`: how any thread wakes a coroutine; one descriptor for each event loop.

Whoever makes a condition true releases a parker, in one call into C that no interrupt
can tear (`queuebroker.parking`): else a sleeper could be taken off its list and never
be woken. asyncio's ``call_soon_threadsafe`` is Python code in the waker's thread, can
be torn, and raises once the loop is closed. So the call notes who is woken, writes to
an eventfd, and leaves the rest to the loop, which reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import deque
from functools import partial
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Final, cast

from queuebroker import _sync

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task
    from collections.abc import Callable
    from weakref import ReferenceType, WeakKeyDictionary

__all__ = ["Waiter", "Waker", "running_waker"]


class Waker:
    """An eventfd that one loop reads, and who was woken since it did.

    The loop holds it, by its reader, until the loop is closed; so does every waiter.
    The descriptor is closed with the last of them: a late release must not write to
    what has got the same number meanwhile.

    Raises:
        NotImplementedError: the loop cannot read descriptors.
    """

    __slots__ = ("__weakref__", "_opened", "_rung", "loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._rung: Final[deque[list[Future[None]]]] = deque()
        # One call in C: an interrupt cannot fall between opening and keeping it.
        self._opened: Final[list[int]] = []
        self._opened.extend(map(os.eventfd, (0,), (os.EFD_CLOEXEC | os.EFD_NONBLOCK,)))
        try:
            loop.add_reader(self._opened[0], self._answer)
        except NotImplementedError:
            msg = f"cannot wait: {type(loop).__name__} does not read descriptors"
            raise NotImplementedError(msg) from None

    def waiter(self) -> Waiter:
        """Return a new waiter: a parker to sleep on in this loop."""
        return Waiter(self)

    def release_of(
        self, sleeping: list[Future[None]]
    ) -> tuple[Callable[[], object], object]:
        """Return how to wake who sleeps, once, in one call; and what is left till then.

        The first call takes the only item of an iterator, the steps, and does them;
        every other, also one that comes meanwhile, finds nothing there. It holds this
        waker, and so its descriptor, until it is forgotten.
        """
        # deque(steps, 0) does the steps and keeps nothing of them, in C. `self` is what
        # a call that finds nothing returns; as an argument it is held as long as that
        # call can be made.
        steps = chain(
            map(self._rung.append, (sleeping,)),
            map(os.eventfd_write, self._opened, (1,)),
        )
        gate = iter((steps,))
        return partial(next, map(deque, gate, (0,)), self), gate

    def _answer(self) -> None:
        """Wake who was rung for; called by the loop.

        First the descriptor is read: who rings after that is heard next time. If an
        interrupt strikes, this is next time's business too.
        """
        try:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._opened[0])
            self._rouse_all()  # a call: see `_sync.Lock`
        except BaseException:
            os.eventfd_write(self._opened[0], 1)
            raise

    def _rouse_all(self) -> None:
        while self._rung:
            _rouse(self._rung[0])
            self._rung.popleft()

    def __del__(self) -> None:
        # None if there was none to be had; not even a list if an interrupt struck.
        for fd in getattr(self, "_opened", ()):
            os.close(fd)


class Waiter:
    """A parker for a coroutine: `slept` is to it what `_sync.park` is to a lock.

    locked: whether it was not released since it was armed.
    release: wake who sleeps on it; from any thread, with or without a lock held, once
        or often, and also when the loop is closed: then nobody is left to be woken.
    """

    __slots__ = ("_sleeping", "_task", "_waker", "locked", "release")

    def __init__(self, waker: Waker) -> None:
        self._waker: Final = waker
        # While it sleeps: so who holds the waiter holds the coroutine. A task woken in
        # a loop that is closed before it runs would be collected else, while it is
        # still listed. Afterwards it would be a cycle, by an exception's traceback.
        self._task: Task[object] | None = None
        # The future last slept on, if any. To release it takes this and not the waiter:
        # else one that is never released would hold itself.
        self._sleeping: Final[list[Future[None]]] = []
        self.locked: Callable[[], bool]
        self.release: Callable[[], object]
        self.arm()

    def arm(self) -> None:
        """Be as new, after a release; as who has slept on a lock has it again."""
        release, gate = self._waker.release_of(self._sleeping)
        # In this order: who finds it locked must not find the release of before.
        self.release = release
        self.locked = cast("Callable[[], bool]", partial(length_hint, gate))  # 1 or 0

    async def slept(self, deadline: float | None) -> bool:
        """Sleep until it is released; False if the deadline passed first.

        The deadline is a point on `_sync.monotonic` in seconds, None for never: a loop
        may have another clock, and it may wake a hair early.
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
                # interrupt can strike.
                self._task = asyncio.current_task(loop)
                if rest_s is not None:
                    timer = loop.call_later(rest_s, _rouse, self._sleeping)
                await future
            finally:
                self._task = None
                if timer is not None:
                    timer.cancel()
        return True


def _rouse(sleeping: list[Future[None]]) -> None:
    """Let a coroutine go on, if it sleeps; in the thread of its loop."""
    for future in sleeping:
        if not future.done():
            future.set_result(None)


# Weak on both sides: the loop itself holds its waker, by the reader, until it is
# closed. Else a closed loop and its descriptor would live on in here.
_wakers: Final[WeakKeyDictionary[AbstractEventLoop, ReferenceType[Waker]]] = (
    weakref.WeakKeyDictionary()
)


def running_waker() -> Waker:
    """Return the waker of the running loop, made if there was none.

    Raises:
        RuntimeError: no loop is running in this thread.
        NotImplementedError: the loop cannot read descriptors.
    """
    loop = asyncio.get_running_loop()
    known = _wakers.get(loop)
    waker = None if known is None else known()
    if waker is None:
        waker = Waker(loop)
        _wakers[loop] = weakref.ref(waker)
    return waker
