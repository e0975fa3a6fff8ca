"""How coroutines wait: for a condition, for an outcome, and for a call that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from bus.api.reentry import MAIN, guarded
from queuebroker import _sync
from queuebroker.aio.waker import Waiter, running_waker
from queuebroker.waiting.parking import Pending, Wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from bus.api.outcome import Awaited

__all__ = ["GuardedWait", "in_thread", "wait_for_outcome"]

T = TypeVar("T")


class GuardedWait(Wait[T, Waiter]):
    """A wait for a state of the bus: no signal handler may call the bus in its steps.

    They hold the lock of that state (BUS-ENT-18).
    """

    __slots__ = ()

    @guarded("wait")
    def look(self, *, last: bool) -> T | Pending:
        """Attempt, as `Wait.look` does."""
        return super().look(last=last)

    def withdraw(self) -> None:
        """Leave the list, as `Wait.withdraw` does."""
        if MAIN.inside:  # perhaps of a coroutine that is collected within a call
            super().withdraw()
        else:
            self._withdraw()

    @guarded("wait")
    def _withdraw(self) -> None:
        super().withdraw()


async def wait_for_outcome(awaited: Awaited[Any], deadline: float | None) -> bool:
    """Wait for an outcome whose parker is a waiter of the running loop.

    deadline: on the monotonic clock in seconds; None for no limit. Return False if it
      passes first.
    """
    waiter: Waiter = awaited.parker
    while not awaited.is_over():
        if not await waiter.slept(deadline):
            return awaited.is_over()
        if awaited.is_over():
            return True
        # Before the outcome is read again: a later wake-up must find it armed.
        waiter.arm()
    return True


async def in_thread(
    function: Callable[[], T], undo: Callable[[T], object] | None = None
) -> T:
    """Call a function that waits, in a thread of its own, and await its result.

    For rare calls such as `open_bus`: no send or receive uses a thread. Not in the
    executor of the loop: each of its threads may be waiting for a task of this loop.

    undo: called in a thread with the result, if the caller is cancelled before.
    """
    waiter, lock = running_waker().waiter(), _sync.Lock()
    results: list[T] = []
    errors: list[BaseException] = []
    # Guarded by the lock; True once no coroutine will take the result.
    abandoned = False

    def call() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 # raised in the coroutine
            errors.append(error)
            waiter.release()
            return
        with lock:
            if not abandoned:
                results.append(result)
        waiter.release()
        if not results and undo is not None:
            undo(result)

    _sync.Thread(target=call, name="bus.aio", daemon=True).start()
    try:
        await waiter.slept(None)
    except BaseException:
        with lock:
            abandoned = True
        if results and undo is not None:  # it came just now
            _sync.Thread(target=undo, args=(results[0],), daemon=True).start()
        raise
    if errors:
        raise errors.pop()
    return results[0]
