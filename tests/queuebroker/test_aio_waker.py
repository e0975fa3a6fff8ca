"""`queuebroker.aio.waker`: one descriptor a loop, and a release that cannot fail."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import select
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import _sync, aio
from queuebroker.aio.waker import Waiter, Waker, running_waker
from specs.clauses import clause
from tests.kit.stepped_loop import stepped_loop
from tests.pairs import look_away, queue_pair
from tests.strikes import Blow, everywhere
from tests.support import LIMIT_S, Threads, switch_interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue


def test_a_waiter_is_locked_until_its_first_release() -> None:
    async def check() -> None:
        waiter = running_waker().waiter()
        assert waiter.locked()
        waiter.release()
        assert not waiter.locked()
        waiter.release()
        assert not waiter.locked()
        assert await waiter.slept(None), "it was released before"

        waiter.arm()
        assert waiter.locked()
        asyncio.get_running_loop().call_soon(waiter.release)
        assert await waiter.slept(None)

    asyncio.run(check())


def test_a_stale_release_does_not_wake_a_waiter_that_is_armed_again() -> None:
    async def check() -> None:
        waiter = running_waker().waiter()
        before = waiter.release
        before()
        waiter.arm()

        before()

        assert waiter.locked()

    asyncio.run(check())


@clause("QB-PY-11", "QB-ERR-9")
def test_an_interrupt_anywhere_in_the_loops_reader_loses_no_wake_up() -> None:
    """Each released coroutine is woken, or the loop calls its reader again."""

    async def begin() -> tuple[list[Waiter], list[asyncio.Task[bool]]]:
        waiters = [running_waker().waiter() for _ in range(2)]
        tasks = [asyncio.ensure_future(waiter.slept(None)) for waiter in waiters]
        await asyncio.sleep(0)
        return waiters, tasks

    async def end(tasks: list[asyncio.Task[bool]]) -> list[bool]:
        return await asyncio.gather(*tasks)

    def case(interrupted: Blow) -> None:
        loop = asyncio.new_event_loop()
        try:
            waiters, tasks = loop.run_until_complete(begin())
            for waiter in waiters:
                waiter.release()
            waker = waiters[0]._waker

            interrupted(waker.answer)

            called_again = bool(select.select([waker._event.fd], [], [], 0)[0])
            woken = all(waiter._sleeping[0].done() for waiter in waiters)
            assert woken or called_again
            assert loop.run_until_complete(end(tasks)) == [True, True]
        finally:
            loop.close()

    everywhere(case)


@clause("QB-CONC-9", "QB-PY-11")
@pytest.mark.parametrize("act", ["send", "receive"])
def test_a_listed_task_is_not_collected_although_its_loop_is_closed(act: str) -> None:
    """Its collection would close it, perhaps under the lock it needs to leave."""

    async def wait(end: MessageQueue) -> None:
        if act == "send":
            await aio.wrap(end).send(b"no room")
        else:
            await aio.wrap(end).receive()

    async def begin(end: MessageQueue) -> weakref.ref[asyncio.Task[None]]:
        task = asyncio.ensure_future(wait(end))
        await asyncio.sleep(0)
        return weakref.ref(task)

    # The locked kind: it keeps woken waiters on its lists.
    with queue_pair(observer=look_away) as (left, right):
        left.send(b"full")
        end = left if act == "send" else right
        if act == "receive":
            right.receive()
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # drops the log of the pending task
        task = loop.run_until_complete(begin(end))
        # One round of the loop: it is notified of the wake-up, and the task never runs.
        if act == "send":
            right.receive()
        else:
            left.send(b"m")
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        gc.collect()

        assert task() is not None
        left.disconnect()
        right.disconnect()
    del left, right, end
    gc.collect()
    assert task() is None, "it must not outlive the connection"


def test_many_may_release_one_waiter_at_once() -> None:
    async def check() -> None:
        waker = running_waker()
        waiters = [waker.waiter() for _ in range(200)]

        def release_all() -> None:
            for waiter in waiters:
                waiter.release()

        with switch_interval(1e-6), Threads() as threads:
            for _ in range(4):
                threads.start(release_all)
            assert all(
                await asyncio.gather(*(waiter.slept(None) for waiter in waiters))
            )
        # Without the interpreter lock a sleeper may see its release before the ring.
        # The loop reads the ring once, and answers after this task.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waker._rung, "each was rung for once"

    asyncio.run(check())


@clause("QB-PY-11", "QB-CONC-6")
@pytest.mark.parametrize("within", ["answer", "disarm", "step", "nothing"])
@pytest.mark.parametrize("begun", ["armed", "disarmed", "step"])
def test_a_release_loses_no_wake_up_whatever_the_loop_does_within_it(
    begun: str, within: str
) -> None:
    """The loop acts between the two steps of the release, or a thread before them.

    begun: the state before: within a step of the loop, the event is disarmed, or the
      sleeper is already recorded when the loop wakes all.
    """
    acts: list[Callable[[], object]] = []

    class Rung(deque[Any]):
        def append(self, sleeping: Any) -> None:
            super().append(sleeping)
            while acts:
                acts.pop()()

    async def check() -> None:
        waker = running_waker()
        waker._rung = Rung()  # type: ignore[misc]
        sleeper, other = waker.waiter(), waker.waiter()
        sleeping = [
            asyncio.ensure_future(each.slept(None)) for each in (sleeper, other)
        ]
        await asyncio.sleep(0)
        loops: dict[str, list[Callable[[], object]]] = {
            "answer": [waker.answer],
            "disarm": [waker.disarm],
            "step": [waker.disarm, other.release, waker.wake_all],
            "nothing": [],
        }
        if begun != "armed":
            waker.disarm()
        if begun == "step":
            acts.append(waker.wake_all)
        acts.extend(reversed(loops[within]))

        sleeper.release()
        if within == "disarm" or begun == "disarmed":
            waker.wake_all()  # the end of the step
        other.release()

        assert await asyncio.gather(*sleeping) == [True, True]

    asyncio.run(asyncio.wait_for(check(), LIMIT_S))


@clause("QB-PY-11", "QB-CONC-6")
def test_a_release_as_the_step_ends_sets_the_event() -> None:
    """The loop has just seen that no further sleeper was released."""
    acts: list[Callable[[], object]] = []

    class Rung(deque[Any]):
        def __len__(self) -> int:
            length = super().__len__()
            while acts and not length:
                acts.pop()()
            return length

    async def check() -> None:
        waker = running_waker()
        waker._rung = Rung()  # type: ignore[misc]
        waiter = waker.waiter()
        sleeping = asyncio.ensure_future(waiter.slept(None))
        await asyncio.sleep(0)
        waker.disarm()
        acts.append(waiter.release)
        waker.wake_all()

        assert await sleeping

    asyncio.run(asyncio.wait_for(check(), LIMIT_S))


def test_a_release_within_a_step_of_the_loop_sets_no_event() -> None:
    async def check() -> None:
        waker = running_waker()
        waiters = [waker.waiter() for _ in range(3)]
        sleeping = [asyncio.ensure_future(each.slept(None)) for each in waiters]
        await asyncio.sleep(0)

        waker.disarm()
        for waiter in waiters:
            waiter.release()
        assert not select.select([waker._event.fd], [], [], 0)[0]
        waker.wake_all()

        await asyncio.sleep(0)
        assert all(each.done() for each in sleeping)
        late = waker.waiter()
        late.release()
        assert select.select([waker._event.fd], [], [], 0)[0], "armed again"

    asyncio.run(check())


@clause("QB-TIME-3")
def test_sleepers_wake_at_their_deadlines_in_any_order() -> None:
    """One timer serves them: a later one waits for it, an earlier one sets it anew."""
    with stepped_loop() as loop:
        of_loop = loop.run_until(loop.start(_waker()))
        seconds = [5.0, 2.0, 7.0, 2.0, 1.0, 6.0]
        waiters = [of_loop.waiter() for _ in seconds]
        sleeping = [
            loop.start(waiter.slept(loop.now + each))
            for waiter, each in zip(waiters, seconds, strict=True)
        ]
        loop.run()
        waiters[5].release()  # it does not wait for its deadline
        loop.run()

        over = {5}
        for now in range(1, 8):
            loop.advance(0.6)
            assert {i for i, each in enumerate(sleeping) if each.done()} == over
            loop.advance(0.4, early=0.001)
            over |= {i for i, each in enumerate(seconds) if each == now}
            assert {i for i, each in enumerate(sleeping) if each.done()} == over, now
            assert len(loop.timers) <= 1
        assert [each.result() for each in sleeping] == [False] * 5 + [True]


def test_the_timer_forgets_sleepers_woken_long_before_their_deadlines() -> None:
    with stepped_loop() as loop:
        of_loop = loop.run_until(loop.start(_waker()))
        for _ in range(50):
            waiters = [of_loop.waiter() for _ in range(10)]
            sleeping = [loop.start(each.slept(loop.now + 3600)) for each in waiters]
            short = loop.start(of_loop.waiter().slept(loop.now + 1))
            loop.run()
            loop.advance(1)  # all have their place in the heap
            assert short.result() is False
            for each in waiters:
                each.release()
            loop.run()
            assert all(each.result() for each in sleeping)
        assert len(of_loop._heap) <= 100
        assert not of_loop.deadlines


@clause("QB-TIME-3")
def test_a_sleep_that_begins_as_the_loop_is_late_delays_no_other() -> None:
    """Its deadline is the last, and the timer of the first is due."""
    with stepped_loop() as loop:

        async def sleep_after_work(waker: Waker) -> bool:
            loop.now += 2
            return await waker.waiter().slept(loop.now + 60)

        waker = loop.run_until(loop.start(_waker()))
        sleeping = [
            loop.start(waker.waiter().slept(loop.now + seconds)) for seconds in (1, 3)
        ]
        loop.run()
        late = loop.start(sleep_after_work(waker))
        loop.run()
        assert [each.done() for each in sleeping] == [True, False]

        loop.advance(1)
        assert sleeping[1].done()
        loop.advance(59)
        assert late.result() is False


@clause("QB-PY-11", "QB-ERR-9")
def test_an_interrupt_as_deadlines_pass_keeps_no_sleeper_asleep() -> None:
    """Those with a passed deadline wake at once, the others at their deadlines."""

    def case(interrupted: Blow) -> None:
        with stepped_loop() as loop:
            waker = loop.run_until(loop.start(_waker()))
            sleeping = [
                loop.start(waker.waiter().slept(loop.now + each)) for each in (1, 2, 3)
            ]
            loop.run()
            [timer] = loop.timers
            loop.timers.clear()
            loop.now += 2
            timer._run()

            interrupted(waker.answer)

            loop.run()
            loop.advance(1)
            assert [each.result() for each in sleeping] == [False] * 3

    everywhere(case)


@clause("QB-PY-11", "QB-ERR-9")
def test_an_interrupt_as_a_sleep_begins_keeps_no_other_asleep() -> None:
    def case(interrupted: Blow) -> None:
        with stepped_loop() as loop:
            waker = loop.run_until(loop.start(_waker()))
            sleeping = [
                loop.start(waker.waiter().slept(loop.now + each)) for each in (1, 3)
            ]
            loop.run()
            loop.now += 1  # the loop is late
            future = loop.create_future()

            interrupted(lambda: waker.wake_at(future, loop.now + 60, loop.now))

            waker.deadlines.pop(future, None)
            loop.advance(0)
            loop.advance(2)
            assert [each.result() for each in sleeping] == [False] * 2

    everywhere(case)


async def _waker() -> Waker:
    return running_waker()


def test_a_loop_keeps_no_context_of_a_wait_with_a_deadline() -> None:
    class Request:
        pass

    async def first(waiter: Waiter) -> weakref.ref[Request]:
        request = Request()
        contextvars.ContextVar[Request]("request").set(request)
        await waiter.slept(_sync.monotonic() + LIMIT_S)
        return weakref.ref(request)

    async def main() -> None:
        waiters = [running_waker().waiter() for _ in range(2)]
        tasks = [asyncio.create_task(first(each)) for each in waiters]
        await asyncio.sleep(0)
        waiters[0].release()
        request = await tasks.pop(0)
        await asyncio.sleep(0)  # the loop drops the task
        gc.collect()
        assert request() is None
        waiters[1].release()
        await tasks[0]

    asyncio.run(main())


def test_a_loop_has_one_waker_and_another_loop_another() -> None:
    async def mine() -> tuple[int, int]:
        waker = running_waker()
        await asyncio.sleep(0)
        assert running_waker() is waker
        if hasattr(os, "get_handle_inheritable"):
            assert not os.get_handle_inheritable(waker._event.fd)
        else:
            assert not os.get_inheritable(waker._event.fd)
        return id(waker), id(waker.loop)

    async def both() -> None:
        mine_now = await mine()
        with Threads() as threads:
            theirs = threads.start(asyncio.run, mine())
        assert set(theirs.result()).isdisjoint(mine_now)

    asyncio.run(both())


def test_a_late_release_writes_to_its_own_descriptor_or_to_none() -> None:
    """Once it is closed, the number may belong to another file."""

    async def waiter() -> Waiter:
        return running_waker().waiter()

    late = asyncio.run(waiter())
    gc.collect()
    release: Callable[[], object] = late.release
    waker = weakref.ref(late._waker)
    fd = late._waker._event.fd
    del late
    gc.collect()
    select.select([fd], [], [], 0)  # it is open

    release()

    del release
    gc.collect()
    assert waker() is None
    with pytest.raises(OSError, match=r"Bad file descriptor|WinError 10038"):
        select.select([fd], [], [], 0)


def test_a_cancelled_sleep_leaves_no_garbage() -> None:
    """Nor does a sleep that times out: no cycle needs a collection."""

    async def check() -> None:
        waker = running_waker()
        for _ in range(3):
            task = asyncio.create_task(waker.waiter().slept(None))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert not await waker.waiter().slept(0)
        del task
        assert not any(isinstance(each, Waiter) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        asyncio.run(check())
    finally:
        gc.enable()


def test_a_loop_keeps_no_context_of_its_first_wait() -> None:
    class Request:
        pass

    async def first() -> weakref.ref[Request]:
        request = Request()
        contextvars.ContextVar[Request]("request").set(request)
        running_waker()
        return weakref.ref(request)

    async def main() -> None:
        request = await asyncio.create_task(first())
        await asyncio.sleep(0)  # the loop drops the task
        gc.collect()
        assert request() is None

    asyncio.run(main())
