"""QB-PY-11: coroutines and threads at one end; a loop leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import BrokerManager, DisconnectedQueueError, QueueBroker, aio
from queuebroker._platform import SYSTEM
from queuebroker.aio.waker import running_waker
from queuebroker.meeting import meet
from specs.clauses import clause
from tests.meetings import accepts_wait, connects_wait, nobody_waits
from tests.pairs import look_away, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from queuebroker import MessageQueue

KINDS = {"fast": None, "locked": look_away}
both_kinds = pytest.mark.parametrize("kind", KINDS)

MANY = 500


# The blocking and the asyncio face at once.


@pytest.mark.deep
@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("capacity", [1, 16])
@pytest.mark.parametrize("sends", [True, False])
def test_a_thread_and_a_task_talk_in_order(
    kind: str, capacity: int, sends: bool
) -> None:
    """Each waits for the other repeatedly; no message is lost or delayed."""
    messages = [b"%d" % number for number in range(MANY)]

    async def work(face: aio.MessageQueue) -> list[bytes]:
        if not sends:
            return [message async for message in face]
        for message in messages:
            await face.send(message)
        face.disconnect()
        return []

    def answer(end: MessageQueue) -> list[bytes]:
        if sends:
            return list(end)
        for message in messages:
            end.send(message)
        end.disconnect()
        return []

    with (
        queue_pair(capacity, observer=KINDS[kind]) as (left, right),
        Threads() as threads,
    ):
        thread = threads.start(answer, right)
        received = asyncio.run(work(aio.wrap(left)))
        assert (received, thread.result()) == (
            ([], messages) if sends else (messages, [])
        )


@clause("QB-PY-11")
@both_kinds
def test_threads_tasks_and_loops_share_the_messages_of_one_end(kind: str) -> None:
    """Each message goes to one receiver; all end when the peer disconnects."""

    async def take(face: aio.MessageQueue) -> list[bytes]:
        async def one() -> list[bytes]:
            return [message async for message in face]

        first, second = await asyncio.gather(one(), one())
        return first + second

    messages = [b"%d" % number for number in range(MANY)]
    with (
        queue_pair(4, observer=KINDS[kind]) as (left, right),
        Threads() as threads,
    ):
        takers = [
            threads.start(lambda: list(left)),
            *(threads.start(asyncio.run, take(aio.wrap(left))) for _ in range(2)),
        ]
        for message in messages:
            right.send(message)
        right.disconnect()
        taken = [message for taker in takers for message in taker.result()]

    assert sorted(taken) == sorted(messages)


@pytest.mark.deep
@clause("QB-PY-11")
@both_kinds
@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("seed", range(3))
def test_cancels_at_any_moment_lose_and_repeat_nothing(kind: str, seed: int) -> None:
    """Tasks of two loops, next to threads, are cancelled at random."""
    sent: list[bytes] = []
    taken: list[bytes] = []

    async def receive(face: aio.MessageQueue, rng: random.Random) -> None:
        while True:
            task = asyncio.create_task(face.receive())
            for _ in range(rng.randrange(5)):
                await asyncio.sleep(0)
            if rng.random() < 0.5:
                task.cancel()
            try:
                taken.append(await task)
            except asyncio.CancelledError:
                continue
            except DisconnectedQueueError:
                return

    async def send(face: aio.MessageQueue, rng: random.Random) -> None:
        for number in range(MANY // 5):
            message, done = b"task %d" % number, False
            while not done:
                task = asyncio.create_task(face.send(message))
                for _ in range(rng.randrange(3)):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                done = not task.cancelled()
            sent.append(message)

    def send_too(end: MessageQueue) -> None:
        for number in range(MANY // 5):
            message = b"thread %d" % number
            sent.append(message)  # the last one in the list may be the other sender's
            end.send(message)

    with queue_pair(2, observer=KINDS[kind]) as (left, right), Threads() as threads:
        rng = random.Random(seed)
        for _ in range(2):
            threads.start(asyncio.run, receive(aio.wrap(left), rng))
        threads.start(lambda: taken.extend(left))
        senders = [
            threads.start(asyncio.run, send(aio.wrap(right), rng)),
            threads.start(send_too, right),
        ]
        for sender in senders:
            sender.join()
        right.disconnect()

    assert sorted(taken) == sorted(sent)
    assert len(set(sent)) == 2 * (MANY // 5)


@clause("QB-PY-11")
@both_kinds
def test_an_end_serves_threads_and_tasks_in_their_order_of_arrival(kind: str) -> None:
    """Waiters are served in order of arrival, tasks and threads alike."""
    with queue_pair(observer=KINDS[kind]) as (left, right), Threads() as threads:
        waiting = left._connection.flows[left._side].buffer.arrived

        def listed(count: int) -> None:
            until(lambda: len(waiting) == count, f"{count} do not wait")

        first = threads.start(left.receive)
        listed(1)
        second = threads.start(asyncio.run, aio.wrap(left).receive())
        listed(2)
        third = threads.start(left.receive)
        listed(3)

        for message, taker in ((b"1", first), (b"2", second), (b"3", third)):
            right.send(message)
            assert taker.result() == message


@clause("QB-PY-11")
@pytest.mark.parametrize("accepts", [True, False])
def test_a_task_meets_a_thread(accepts: bool) -> None:
    """In either role, in either order."""
    with BrokerManager() as manager:
        server = QueueBroker("server", manager=manager)
        client = QueueBroker("client", manager=manager)

        async def accept() -> aio.MessageQueue:
            return await aio.wrap(server).accept(1)

        async def connect() -> aio.MessageQueue:
            return await aio.wrap(client).connect("server", 1, required=True)

        with Threads() as threads:
            if accepts:
                task = threads.start(asyncio.run, accept())
                accepts_wait(server, {1: 1})
                end = client.connect("server", 1, required=True)
            else:
                task = threads.start(asyncio.run, connect())
                connects_wait(server, {1: 1})
                end = server.accept(1)
            with end, task.result() as face:
                end.send(b"x")
                assert face.receive_nowait() == b"x"
        nobody_waits(server, client)


@clause("QB-PY-11")
@both_kinds
def test_a_thread_that_hangs_up_wakes_every_task(kind: str) -> None:
    """Even if they sleep in the selector of their loop."""
    with queue_pair(observer=KINDS[kind]) as (left, right), Threads() as threads:
        face = aio.wrap(left)
        left.send(b"full")

        async def wait() -> list[Any]:
            calls = (face.receive(), face.send(b"x"), face.receive_many())
            return list(await asyncio.gather(*calls, return_exceptions=True))

        waiter = threads.start(asyncio.run, wait())
        inward = left._connection.flows[left._side].buffer
        until(lambda: len(inward.arrived) == 2, "they do not wait")

        right.disconnect()

        assert {type(each) for each in waiter.result()} == {DisconnectedQueueError}


def _collect(box: list[Any], lock: Any, *, within: bool) -> None:
    """Collect the contents of a box in its own thread while a lock is held.

    within: True if that thread holds the lock; else another thread holds it, for
        which the collection must not wait.
    """

    def collect() -> None:
        with lock if within else nullcontext():
            box.clear()
            gc.collect()

    with nullcontext() if within else lock, Threads() as threads:
        threads.start(collect)


# Resources that it uses and leaves.


@clause("QB-PY-11")
@pytest.mark.skipif(SYSTEM == "windows", reason="no list of open descriptors here")
@both_kinds
def test_a_hundred_waits_take_one_descriptor_and_no_thread(kind: str) -> None:
    """Nor is anything left once the loop is closed."""

    async def wait(left: MessageQueue, right: MessageQueue) -> None:
        face = aio.wrap(left)
        running_waker()
        threads, descriptors = threading.active_count(), count_descriptors()
        tasks = [asyncio.create_task(face.receive()) for _ in range(100)]
        await asyncio.sleep(0)
        buffer = left._connection.flows[left._side].buffer
        assert len(buffer.arrived) == 100

        assert threading.active_count() == threads
        assert count_descriptors() == descriptors
        for _ in tasks:
            right.send(b"x")
        assert await asyncio.gather(*tasks) == [b"x"] * 100

    before = count_descriptors()
    with queue_pair(100, observer=KINDS[kind]) as (left, right):
        asyncio.run(wait(left, right))
        gc.collect()
        assert count_descriptors() == before


def count_descriptors() -> int:
    """Return the number of descriptors that this process has open."""
    return len(os.listdir("/proc/self/fd"))


def abandoned(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Return a task that still waits in a loop that was closed."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(call)
    loop.call_soon(lambda: loop.call_soon(loop.stop))
    loop.run_forever()
    loop.close()
    task.get_loop().set_exception_handler(lambda *_: None)  # it is pending
    return task


@clause("QB-PY-11")
@both_kinds
def test_a_loop_closed_before_its_task_ends_harms_no_other_receiver(kind: str) -> None:
    """Waking it has no effect; its descriptor stays open until then."""
    with queue_pair(2, observer=KINDS[kind]) as (left, right):
        tasks = [abandoned(aio.wrap(left).receive()) for _ in range(2)]

        right.send(b"x")
        left._connection.critical(left._connection.recover_locked)

        assert left.receive() == b"x"
        tasks.clear()
        gc.collect()
        right.send(b"y")
        assert left.receive() == b"y"


@clause("QB-PY-11")
@pytest.mark.parametrize("within", [True, False])
def test_a_task_may_be_collected_while_a_thread_holds_the_lock(
    monkeypatch: pytest.MonkeyPatch, *, within: bool
) -> None:
    """Its wake-up goes to the next waiter, without the lock (QB-CONC-9).

    Only for ends of the fast kind: the list of the locked kind keeps woken waiters.
    """
    monkeypatch.setattr(meet, "LOCKED", False)
    with queue_pair() as (left, right), Threads() as threads:
        task = abandoned(aio.wrap(left).receive())
        waiting = left._connection.flows[left._side].buffer.arrived
        assert len(waiting) == 1
        other = threads.start(left.receive)
        until(lambda: len(waiting) == 2, "the thread does not wait")
        right.send(b"x")  # wakes the task, whose loop will never run
        assert len(waiting) == 1
        box = [task]
        del task

        _collect(box, left._connection.lock, within=within)

        assert other.result() == b"x"


@clause("QB-PY-11")
@pytest.mark.parametrize("within", [True, False])
def test_a_meeting_may_be_collected_while_a_thread_holds_the_lock(
    *, within: bool
) -> None:
    """The end that no caller got disconnects (QB-RDV-12)."""
    with BrokerManager() as manager:
        broker = QueueBroker("b", manager=manager)
        task = abandoned(aio.wrap(broker).accept(1))
        connected = broker.connect("b", 1, required=True)
        box = [task]
        del task

        with pytest.warns(ResourceWarning, match="unclosed"):
            _collect(box, manager.lock, within=within)

        with pytest.raises(DisconnectedQueueError), connected:
            connected.receive()
        nobody_waits(broker)


@clause("QB-PY-11")
def test_a_receive_raises_if_its_loop_does_not_read_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The call raises one clear error, and nothing stays open or listed."""

    def add_reader(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)
    with queue_pair() as (left, _):
        with (
            # The default loop of Windows has other means.
            asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
            pytest.raises(NotImplementedError, match="does not read descriptors"),
        ):
            runner.run(aio.wrap(left).receive())
        assert len(left._connection.flows[left._side].buffer.arrived) == 0
