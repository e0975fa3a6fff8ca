"""How coroutines wait: for a condition, an outcome, room, and a call that waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from bus.api.reentry import MAIN, guarded
from bus.errors import BusFullError
from queuebroker import _sync
from queuebroker.aio.waiting import wait_for
from queuebroker.aio.waker import Waiter, running_waker
from queuebroker.waiting.parking import PENDING, Pending, Wait

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from bus.api.outcome import Awaited
    from bus.api.task import Task, Where
    from bus.api.task_owner import TaskOwner
    from bus.kernel.tasks.routing_table import Entry

__all__ = [
    "GuardedWait",
    "in_thread",
    "send_when_room",
    "wait_for_outcome",
    "wait_until",
]

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


async def wait_until(
    done: Callable[[], object], task: Task, deadline: float | None
) -> bool:
    """Wait until ``done()`` returns true; return False if the deadline passes first.

    task: a task of the running loop. A thread that makes the condition true wakes the
      waiters of its receiver afterwards (`Receiver.wake_waiters`).
    deadline: on the monotonic clock in seconds; None for no limit.

    Raises:
        RuntimeError: another loop hosts the task.
    """
    receiver = task._receiver
    if not isinstance(waiters := receiver.waiters, list):
        receiver.waiters = waiters = []
    try:
        while True:  # not `while not _look(done)`: see `_sync.Lock`
            if _look(done):
                break
            # Arrived messages come before the deadline. Of other tasks this serves only
            # one round: they may cause further messages without end.
            host = task._entry.host
            if (
                host is not None
                and host.thread.serve()
                and (task._entry.mailbox.items or _look(done))
            ):
                continue
            waker = running_waker() if host is None else host.thread.waker()
            waiter = waker.waiter()
            try:
                waiters.append(waiter)
                # Checked after the parker is listed: an earlier thread could not see
                # it.
                if not _look(done) and not await waiter.slept(deadline):
                    return _look(done)
            finally:
                if waiter in waiters:  # else an interrupt came first
                    waiters.remove(waiter)  # the first call here: none comes before it
    finally:
        # It may have been woken for a message that it does not take, or for the first
        # of several.
        receiver.wake_next_waiter()
    return True


@guarded("receive")
def _look(done: Callable[[], object]) -> bool:
    """Return the truth of a condition whose evaluation may take locks."""
    return bool(done())


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


async def send_when_room(
    send: Callable[[], object],
    owner: TaskOwner,
    to: Where,
    bus: str | None,
    size: Callable[[], int],
    until: float | None = None,
) -> None:
    """Send; wait for room and retry if the policy of a full addressee is ``block``.

    owner: the bus of the sender. to, bus: as in `Task.command`.
    size: returns the size of the message in bytes.
    until: when the wait ends at the latest, on the monotonic clock in seconds.

    Raises:
        BusFullError: another policy, or there is no room in time (BUS-FLOW-6).
    """
    deadline = None
    while True:
        try:
            send()
        except BusFullError:
            now = _sync.monotonic()
            if deadline is None:
                deadline = now + owner._config.send_timeout_s
                if until is not None:
                    deadline = min(deadline, until)
            name, there = owner._route(to, bus)
            entry = there._exchange.find(name)
            if now >= deadline or not await _wait_for_room(entry, size(), deadline):
                raise
            await asyncio.sleep(0)  # other senders may take the room each time
        else:
            return


async def _wait_for_room(entry: Entry | None, size: int, deadline: float) -> bool:
    """Wait until an addressee has room for a message, if its policy is ``block``.

    size: the size of the message in bytes.
    deadline: on the monotonic clock in seconds. Return False if it passes first, if no
      task has the name, or the task has another policy.
    """
    if entry is None:
        return False
    host, account = entry.host, entry.mailbox.client.account
    if host is None:
        return True  # the next attempt finds the task elsewhere
    if account.overflow != "block":
        return False

    def ready() -> bool:
        return entry.host is not host or not account.full(size)

    def attempt() -> Pending | None:
        return None if ready() else PENDING

    inbox = host.inbox
    room = await wait_for(*(inbox, inbox.room, attempt, ready, deadline), GuardedWait)
    return room is None


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
