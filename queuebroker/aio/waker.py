"""`Waker`: wakes coroutines, for any thread and at deadlines; one for each event loop.

A thread that makes a condition true releases a parker in one call into C, which no
interrupt can break off (`queuebroker.waiting.parking`). Otherwise a sleeper could be
removed from its list and never be woken. asyncio's ``call_soon_threadsafe`` is Python
code in the waker's thread, so an interrupt can break it off. It also raises once the
loop is closed. So the release only records the sleeper and sets an event; the loop
clears it and does the rest.

One timer of the loop serves all deadlines. Most waits end long before theirs: a timer
for each, set and cancelled, would cost more than the rest of the wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import math
import operator
import weakref
from collections import deque
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, cast

from queuebroker import _sync
from queuebroker.waiting.event import Event

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, Task, TimerHandle
    from collections.abc import Callable
    from weakref import ReferenceType, WeakKeyDictionary

__all__ = ["Waiter", "Waker", "running_waker"]

_HEAP_MIN: Final = 64  # so many deadlines may be in the heap in vain


class Waker:
    """The sleepers of one loop: an event for those released, a timer for the others.

    The loop holds it, by its reader, until the loop is closed; so does every waiter.
    The event is closed with the last of them: a late release must not write to another
    file that has got the same number.

    disarm: from now on no release sets the event, until `wake_all`.
    set_event: lets the loop call `answer`. Both are calls into C.

    Raises:
        NotImplementedError: the loop cannot read descriptors.
    """

    __slots__ = (
        "__weakref__",
        "_armed",
        "_context",
        "_due_at",
        "_event",
        "_fired",
        "_heap",
        "_heap_max",
        "_proactor",
        "_rung",
        "_timer",
        "deadlines",
        "disarm",
        "loop",
        "set_event",
    )

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop: Final = loop
        self._rung: Final[deque[list[Future[None]]]] = deque()
        self._event: Final = Event()
        # The call that sets the event: the first release takes it, and all others find
        # none until the loop has put it back.
        self._armed: Final[dict[None, Callable[[], object]]] = {None: self._event.set}
        self.set_event: Final = self._event.set
        self.disarm: Final = self._armed.clear
        # The sleepers with a deadline. Those that still sleep when the timer expires
        # move to the heap.
        self.deadlines: Final[dict[Future[None], float]] = {}
        self._heap: Final[list[tuple[float, int, Future[None]]]] = []
        self._heap_max: int = _HEAP_MIN
        # The time of the timer, no later than the first deadline.
        self._due_at: float = math.inf
        self._timer: TimerHandle | None = None
        self._fired: Final[list[bool]] = []  # not empty once it has, for `answer`
        self._context: Final = contextvars.Context()
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
            # In this order; see `answer`. Without an armed event this calls `bool`.
            map(operator.call, map(self._armed.pop, (None,), (bool,))),
        )
        gate, left = _sync.only_once(steps)
        return partial(next, map(deque, gate, repeat(0)), self), left

    def answer(self) -> None:
        """Wake the sleepers that were released, or whose deadlines have passed.

        Called by the loop, when the event is set: by a release, or by the timer. It
        clears the event and arms it, then wakes: a release in between is either found
        here, or sets the event again. After an interrupt, this sets the event, so that
        the loop calls this again.
        """
        try:
            try:  # noqa: SIM105 # `suppress` costs three calls for each wake-up
                self._event.clear()
            except BlockingIOError:
                pass
            if self._fired:
                self._expire()
                self._fired.clear()
            self.wake_all()  # a call: see `_sync.Lock`
        except BaseException:
            self.set_event()
            raise

    def wake_all(self) -> None:
        """Arm the event, then wake the sleepers that were released."""
        # In this order: the release that finds no armed event is found here.
        self._armed[None] = self.set_event
        while self._rung:
            _wake_up(self._rung[0])
            self._rung.popleft()

    def wake_at(self, future: Future[None], deadline: float, now: float) -> None:
        """Wake a sleeper when its deadline has passed, unless it is forgotten before.

        now: the time, like the deadline on `_sync.monotonic` in seconds.
        """
        self.deadlines[future] = deadline
        if deadline < self._due_at:
            self._set_timer(deadline, now)
        elif self._due_at <= now:  # the loop is late, or an interrupt has hit asyncio
            self._expire()

    def _set_timer(self, deadline: float, now: float) -> None:
        # One call into C, which no interrupt breaks off. It holds no reference to this
        # object, which would be a cycle, nor the context of this caller.
        steps = chain(
            map(self._fired.append, (True,)), map(operator.call, (self.set_event,))
        )
        old, fire = self._timer, cast("Callable[[], object]", partial(deque, steps, 0))
        self._timer = self.loop.call_later(deadline - now, fire, context=self._context)
        self._due_at = deadline
        if old is not None:
            old.cancel()

    def _expire(self) -> None:
        """Wake the sleepers whose deadline has passed, and set the timer again.

        May be repeated after an interrupt: the time of the timer changes last.
        """
        heap, now = self._heap, _sync.monotonic()
        for future, deadline in [*self.deadlines.items()]:
            heapq.heappush(heap, (deadline, id(future), future))
            self.deadlines.pop(future, None)
        while heap and heap[0][0] <= now:
            _wake_up([heap[0][2]])
            heapq.heappop(heap)
        if len(heap) > self._heap_max:  # those that were woken before are in it, too
            heap[:] = sorted(each for each in heap if not each[2].done())
            self._heap_max = 2 * len(heap) + _HEAP_MIN
        if heap:
            self._set_timer(heap[0][0], now)
        else:
            self._due_at = math.inf

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
        waker, now = self._waker, 0.0
        while self.locked():
            if deadline is not None:
                now = _sync.monotonic()
                if deadline <= now:
                    return False
            future = waker.loop.create_future()
            self._sleeping[:] = (future,)
            try:
                # Before the deadline: from 3.12 on this is a call into C, after which
                # an interrupt can be raised.
                self._task = asyncio.current_task(waker.loop)
                if deadline is not None:
                    waker.wake_at(future, deadline, now)
                await future
            finally:
                self._task = None
                waker.deadlines.pop(future, None)
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
