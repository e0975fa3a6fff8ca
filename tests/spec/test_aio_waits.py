"""QB-PY-11: tasks that wait on the asyncio face, and the effects that end a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    DisconnectedQueueError,
    MessageTooLargeError,
    Operation,
    Reason,
    ReceiveTimeoutError,
    SendTimeoutError,
    aio,
)
from queuebroker.aio import waker
from queuebroker.waiting.event import Event
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.spec.kinds import KINDS, both_kinds
from tests.traffic import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.kit.stepped_loop import SteppedLoop


# Sending and receiving.


@clause("QB-PY-11")
@both_kinds
def test_one_task_receives_the_messages_of_another_in_order(
    kind: str, loop: SteppedLoop
) -> None:
    """A buffer of one makes both wait; every form arrives in order."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        sender, receiver = aio.wrap(left), aio.wrap(right)

        async def send() -> int:
            await sender.send(b"-one-", 1, 3)
            sent = await sender.send_many([b"two", bytearray(b"three"), b"four"])
            for word in (b"five", b"six", b"seven"):
                await sender.send(word)
            sender.disconnect()
            return sent

        async def receive() -> list[bytes]:
            got = [await receiver.receive()]
            buffer = bytearray(9)
            got.append(bytes(buffer[: await receiver.receive_into(buffer)]))
            while len(got) < 4:
                got += await receiver.receive_many()
            return got + [message async for message in receiver]

        received = loop.start(receive())
        sent = loop.start(send())

        assert loop.run_until(received) == [
            *(b"one", b"two", b"three", b"four", b"five", b"six", b"seven")
        ]
        assert sent.result() == 3


@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("begun", [False, True])
def test_the_data_is_taken_at_the_call(
    kind: str, begun: bool, loop: SteppedLoop
) -> None:
    """Not when the task begins, nor when there is room (QB-SEND-7)."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        face = aio.wrap(left)
        left.send(b"in the way")
        data, more = bytearray(b"as it was"), [bytearray(b"and more")]
        one, many = loop.start(face.send(data)), loop.start(face.send_many(more))
        if begun:
            loop.run()
        data.clear()
        more[0].clear()

        received = []
        for _ in range(3):
            loop.run()
            received.append(right.receive())

        assert received == [b"in the way", b"as it was", b"and more"]
        loop.run_until(one)
        assert loop.run_until(many) == 1


@clause("QB-PY-11")
@both_kinds
def test_wrong_arguments_are_found_before_anything_else(
    kind: str, loop: SteppedLoop
) -> None:
    """They raise on a disconnected end, too; a send raises at the call."""
    with queue_pair(limit=5, observer=KINDS[kind]) as (left, _):
        face = aio.wrap(left)
        left.disconnect()
        wrong: list[tuple[type[Exception], Callable[[], Any]]] = [
            (TypeError, lambda: face.send("text")),  # type: ignore[arg-type]
            (ValueError, lambda: face.send(b"abc", 2, 2)),
            (ValueError, lambda: face.send(b"abc", timeout=-1)),
            (MessageTooLargeError, lambda: face.send(b"abcdef")),
            (TypeError, lambda: face.send_many([1])),  # type: ignore[list-item]
            (ValueError, lambda: face.send_many([b"x"], timeout=-1)),
        ]
        for error, call in wrong:
            with pytest.raises(error):
                call()
        late: list[tuple[type[Exception], Coroutine[Any, Any, Any]]] = [
            (ValueError, face.receive(timeout=-1)),
            (TypeError, face.receive_into(b"read-only")),
            (ValueError, face.receive_many(0)),
        ]
        for error, coroutine in late:
            with pytest.raises(error):
                loop.run_until(loop.start(coroutine))


@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("late", [False, True])
def test_a_task_woken_while_its_loop_reads_the_descriptor_is_resumed(
    kind: str, late: bool, loop: SteppedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is woken right before the loop reads its descriptor, or right after."""
    sends: list[bytes] = []

    class Interleaved(Event):
        def __init__(self) -> None:
            super().__init__()
            clear = self.clear

            def clear_and_send() -> None:
                if late:
                    clear()
                for message in sends[:1]:
                    sends.remove(message)
                    right.send(message)
                if not late:
                    clear()

            self.clear = clear_and_send

    monkeypatch.setattr(waker, "Event", Interleaved)
    with queue_pair(2, observer=KINDS[kind]) as (left, right):
        tasks = [loop.start(aio.wrap(left).receive()) for _ in range(2)]
        loop.run()
        sends.append(b"2")

        right.send(b"1")

        assert [loop.run_until(task) for task in tasks] == [b"1", b"2"]


# Disconnecting.


@clause("QB-PY-11")
@both_kinds
@pytest.mark.parametrize("who", ["local", "remote", "abnormal"])
def test_a_disconnect_wakes_every_waiting_task(
    kind: str, who: str, loop: SteppedLoop
) -> None:
    """Senders and receivers get the exception; an iteration just ends."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        face = aio.wrap(left)
        left.send(b"full")

        async def iterate() -> list[bytes]:
            return [message async for message in face]

        waiting = [loop.start(face.receive()), loop.start(face.receive_many())]
        sending = [loop.start(face.send(b"x")), loop.start(face.send_many([b"x"]))]
        iterating = loop.start(iterate())
        loop.run()
        assert not any(task.done() for task in [*waiting, *sending, iterating])

        error = OSError("broken") if who == "abnormal" else None
        (left if who == "local" else right).disconnect(error)

        loop.run()
        side = "local" if who == "local" else "remote"
        for task in [*waiting, *sending]:
            with pytest.raises(DisconnectedQueueError) as raised:
                task.result()
            assert raised.value.side == side
            assert raised.value.__cause__ is error
        if error is None:
            assert iterating.result() == []
        else:
            assert isinstance(iterating.exception(), DisconnectedQueueError)


@clause("QB-PY-11")
@both_kinds
def test_a_send_that_waited_raises_and_one_that_did_not_is_dropped(
    kind: str, loop: SteppedLoop
) -> None:
    """When the peer disconnects and something is left to receive (QB-DISC-6, 7)."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        face = aio.wrap(left)
        right.send(b"unread")
        left.send(b"full")
        waited = loop.start(face.send(b"x"))
        loop.run()

        right.disconnect()

        with pytest.raises(DisconnectedQueueError):
            loop.run_until(waited)
        loop.run_until(loop.start(face.send(b"x")))
        assert loop.run_until(loop.start(face.send_many([b"x", b"y"]))) == 2
        assert face.stats().half_disconnected == 3
        assert loop.run_until(loop.start(face.receive())) == b"unread"
        with pytest.raises(DisconnectedQueueError):
            loop.run_until(loop.start(face.send(b"x")))


@clause("QB-PY-11")
@both_kinds
def test_send_many_says_how_many_were_sent_before_the_peer_hung_up(
    kind: str, loop: SteppedLoop
) -> None:
    """It raises only if the first send would have (QB-BULK-1)."""
    with queue_pair(2, observer=KINDS[kind]) as (left, right):
        task = loop.start(aio.wrap(left).send_many([b"1", b"2", b"3"]))
        loop.run()
        right.disconnect()
        assert loop.run_until(task) == 2


# Time.


def expiring(kind: str, left: aio.MessageQueue) -> dict[str, Any]:
    """Return calls that wait five seconds and then time out."""
    return {
        "receive": (ReceiveTimeoutError, left.receive(timeout=5)),
        "receive_many": (ReceiveTimeoutError, left.receive_many(timeout=5)),
        "receive_any": (ReceiveTimeoutError, aio.receive_any([left], timeout=5)),
        "send": (SendTimeoutError, left.send(b"x", timeout=5)),
        "send_many": (SendTimeoutError, left.send_many([b"x"], timeout=5)),
    }


@clause("QB-PY-11")
@both_kinds
def test_time_is_up_at_the_deadline_and_never_before(
    kind: str, loop: SteppedLoop
) -> None:
    """Even if the loop wakes early, or the wake-up is spurious (QB-TIME-2, 3)."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        left.send(b"full")
        calls = expiring(kind, aio.wrap(left))
        tasks = [(error, loop.start(call)) for error, call in calls.values()]
        loop.run()

        loop.advance(4.5, early=1)
        for buffer in (flow.buffer for flow in left._connection.flows):
            with left._connection.lock:
                buffer.wake_all_locked()
        loop.advance(0.25)
        assert not any(task.done() for _, task in tasks)
        loop.advance(0.25)

        for error, task in tasks:
            assert type(task.exception()) is error
        assert right.receive_many() == [b"full"]
        assert fits(left) == 1


@clause("QB-PY-11")
@both_kinds
def test_success_beats_a_timeout_that_has_not_yet_fired(
    kind: str, loop: SteppedLoop
) -> None:
    """Success beats the timeout (QB-TIME-5)."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        face = aio.wrap(left)
        left.send(b"full")
        receive = loop.start(face.receive(timeout=5))
        send = loop.start(face.send(b"x", timeout=5))
        loop.run()

        loop.now += 6
        right.send(b"late")
        assert right.receive() == b"full"

        assert loop.run_until(receive) == b"late"
        loop.run_until(send)
        assert right.receive() == b"x"


@clause("QB-PY-11")
@both_kinds
def test_timeout_0_tries_once(kind: str, loop: SteppedLoop) -> None:
    """It succeeds if it can without waiting; the nowait calls are not awaited."""
    with queue_pair(observer=KINDS[kind]) as (left, right):
        face = aio.wrap(left)
        waiting: list[tuple[type[Exception], Coroutine[Any, Any, Any]]] = [
            (ReceiveTimeoutError, face.receive(timeout=0)),
            (ReceiveTimeoutError, face.receive_many(timeout=0)),
            (ReceiveTimeoutError, aio.receive_any([face], timeout=0)),
        ]
        assert loop.run_until(loop.start(face.send_many([b"1", b"2"], timeout=0))) == 1
        waiting += [
            (SendTimeoutError, face.send(b"x", timeout=0)),
            (SendTimeoutError, face.send_many([b"x"], timeout=0)),
        ]
        for error, call in waiting:
            with pytest.raises(error):
                loop.run_until(loop.start(call))
        with pytest.raises(SendTimeoutError):
            face.send_nowait(b"x")
        with pytest.raises(ReceiveTimeoutError):
            face.receive_nowait()
        right.send(b"x")
        assert face.receive_nowait() == b"x"


# Observers.


@clause("QB-PY-11")
@pytest.mark.parametrize("ends", ["message", "cancel", "hang-up", "timeout"])
def test_an_observer_gets_the_begin_and_the_end_of_a_wait(
    ends: str, loop: SteppedLoop
) -> None:
    """It gets the start of the wait, and its end with the reason, as for a thread."""
    reported: list[tuple[Operation, Reason]] = []

    def observer(operation: Operation, *rest: Any) -> None:
        reported.append((operation, rest[-1]))

    with queue_pair(observer=observer) as (left, right):
        reported.clear()
        task = loop.start(aio.wrap(left).receive(timeout=5))
        loop.run()
        assert reported == [(Operation.RECV_BEGIN, Reason.NONE)]
        acts: dict[str, tuple[Callable[[], object], Reason]] = {
            "message": (lambda: right.send(b"x"), Reason.NONE),
            "cancel": (task.cancel, Reason.INTERRUPTED),
            "hang-up": (right.disconnect, Reason.DISCONNECTED),
            "timeout": (lambda: loop.advance(5), Reason.TIMED_OUT),
        }
        act, reason = acts[ends]

        act()
        loop.run()

        assert reported[-1] == (Operation.RECV_END, reason)
        assert [each for each, _ in reported].count(Operation.RECV_END) == 1
        assert task.done()
        assert task.cancelled() or task.exception() or task.result() == b"x"
