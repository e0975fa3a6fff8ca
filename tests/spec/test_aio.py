"""QB-PY-11: the asyncio face has the same names with the same meaning."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from queuebroker import (
    Broker,
    BrokerManager,
    DisconnectedQueueError,
    MessageTooLargeError,
    Operation,
    QueueBroker,
    Reason,
    ReceiveTimeoutError,
    SendTimeoutError,
    aio,
)
from specs.clauses import clause
from tests.pairs import look_away, queue_pair
from tests.spec.stepped_loop import SteppedLoop, stepped_loop
from tests.traffic import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

KINDS = {"fast": None, "locked": look_away}
both_kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def loop() -> Iterator[SteppedLoop]:
    with stepped_loop() as loop:
        yield loop


# Names.

# Members that only threads, other loops and type checkers need; ``queue`` has them.
WITHOUT = {"fileno", "of"}


@clause("QB-PY-11")
@pytest.mark.parametrize(
    ("face", "plain", "more", "awaited"),
    [
        (
            aio.MessageQueue,
            queuebroker.MessageQueue,
            {"queue"},
            {"send", "send_many", "receive", "receive_many", "receive_into"},
        ),
        (aio.QueueBroker, QueueBroker, {"broker"}, {"accept", "connect"}),
    ],
)
def test_the_face_has_the_same_names_and_parameters(
    face: type, plain: type, more: set[str], awaited: set[str]
) -> None:
    """Calls that wait are awaited; all others are called as before."""
    names = {name for name in dir(plain) if not name.startswith("_")} - WITHOUT

    assert {name for name in dir(face) if not name.startswith("_")} == names | more
    for name in names:
        ours, theirs = getattr(face, name), getattr(plain, name)
        if not callable(theirs):
            continue
        assert parameters(ours) == parameters(theirs), name
        returns = str(inspect.signature(ours).return_annotation)
        coroutine = inspect.iscoroutinefunction(ours) or "Coroutine" in returns
        assert coroutine == (name in awaited), name


def parameters(function: Any) -> list[tuple[str, Any, Any]]:
    """Return the parameters of a function without their types."""
    given = inspect.signature(function).parameters.values()
    return [(each.name, each.kind, each.default) for each in given]


@clause("QB-PY-11")
def test_the_face_shows_the_names_status_and_counters_of_its_end(
    loop: SteppedLoop,
) -> None:
    """In every state; a disconnect by either face shows in both."""
    with queue_pair(3) as (left, right):
        face = aio.wrap(left)
        assert face.queue is left
        steps: list[Callable[[], object]] = [
            *(left.stats, lambda: right.send(b"x"), right.close, face.close)
        ]
        for step in steps:
            step()
            for name in ("status", "closed", "remote_disconnected", "pending"):
                assert getattr(face, name) == getattr(left, name)
            for name in ("local_name", "remote_name", "port", "capacity"):
                assert getattr(face, name) == getattr(left, name)
            assert face.disconnected() == left.disconnected()
            assert face.stats() == left.stats()
            assert repr(face) == f"<aio {left!r}>"


@clause("QB-PY-11")
def test_a_block_disconnects_and_closes_also_on_an_exception(loop: SteppedLoop) -> None:
    """``with`` and ``async with``; the exception propagates."""
    with BrokerManager() as manager:

        async def blocks() -> tuple[aio.QueueBroker, aio.MessageQueue]:
            with queue_pair() as (left, _):
                with pytest.raises(LookupError), aio.wrap(left):
                    raise LookupError
                assert left.closed
            with queue_pair() as (left, _):
                async with aio.wrap(left) as face:
                    assert not left.closed
                with aio.QueueBroker("a", manager=manager) as broker:
                    assert manager.names() == ["a"]
                assert broker.closed
                async with aio.QueueBroker("a", manager=manager) as broker:
                    assert manager.names() == ["a"]
            return broker, face

        broker, face = loop.run_until(loop.start(blocks()))
        assert broker.closed
        assert face.closed


@clause("QB-PY-11")
def test_wrap_takes_an_end_or_a_broker_and_nothing_else() -> None:
    """A wrapped broker is the same broker, with its settings."""
    with BrokerManager() as manager:
        plain = QueueBroker("b", manager=manager, capacity=5)
        face = aio.wrap(plain)

        assert face.broker is plain
        assert repr(face) == f"<aio {plain!r}>"
        assert (face.name, face.manager) == ("b", manager)
        with queue_pair() as (end, _), Broker("c", manager=manager) as broker:
            wrong: dict[str, Any] = {
                "NoneType": None,
                "bytes": b"x",
                "Broker": broker,
                "TypedQueue": end.of(int),
                "aio.QueueBroker": face,
                "aio.MessageQueue": aio.wrap(end),
            }
            for name, existing in wrong.items():
                with pytest.raises(TypeError) as caught:
                    aio.wrap(existing)
                assert str(caught.value) == (
                    f"cannot wrap {name}: want a MessageQueue, a QueueBroker"
                    " or a SocketQueueBroker"
                )


@clause("QB-PY-11", "QB-ERR-4")
def test_an_error_tells_the_two_faces_of_a_name_apart() -> None:
    """The error names the face that is wanted: both kinds share one public name."""
    for observer in KINDS.values():
        with queue_pair(observer=observer) as (left, _):
            wrong: dict[str, Any] = {
                "MessageQueue": left,
                "aio.MessageQueue": aio.wrap(left),
                "TypedQueue": left.of(int),
            }
            for name in ("MessageQueue", "TypedQueue"):
                with pytest.raises(TypeError) as caught:
                    asyncio.run(aio.receive_any([wrong[name]]))
                assert str(caught.value) == (
                    f"queues[0] must be an aio.MessageQueue, got {name}"
                )
            for name in ("aio.MessageQueue", "TypedQueue"):
                with pytest.raises(TypeError) as caught:
                    aio.MessageQueue(wrong[name])
                assert str(caught.value) == (
                    f"queue must be a MessageQueue, got {name}: give its .queue"
                )


@clause("QB-WAIT-1", "QB-PY-11")
def test_queues_that_are_none_are_refused_as_by_threads() -> None:
    """A non-iterable, a single queue, and no queue at all are rejected."""
    with queue_pair() as (left, _):
        wrong: list[tuple[Any, str]] = [
            (None, "an iterable of aio.MessageQueues, got NoneType"),
            (left, "an iterable of aio.MessageQueues, got MessageQueue"),
            (aio.wrap(left), "an iterable of aio.MessageQueues, got aio.MessageQueue"),
        ]
        for queues, text in wrong:
            with pytest.raises(TypeError) as caught:
                asyncio.run(aio.receive_any(queues))
            assert str(caught.value) == f"queues must be {text}"
        with pytest.raises(ValueError, match=r"^queues must not be empty$"):
            asyncio.run(aio.receive_any(()))


@clause("QB-PY-11", "QB-PY-9")
@pytest.mark.parametrize("port", [-1, "1", None])
def test_a_wrong_port_is_found_where_the_iteration_is_made(port: Any) -> None:
    """The call raises, not the first step, as with threads."""
    with (
        BrokerManager() as manager,
        aio.QueueBroker("b", manager=manager) as broker,
        pytest.raises((TypeError, ValueError), match=r"^port must be "),
    ):
        broker.accept_iter(port)


@clause("QB-PY-11", "QB-TIME-2")
def test_a_meeting_in_vain_says_how_long_it_waited(loop: SteppedLoop) -> None:
    """As with threads."""
    with BrokerManager() as manager, aio.QueueBroker("b", manager=manager) as broker:
        waiting = loop.start(broker.accept(1, timeout=5))
        loop.run()
        loop.advance(5)

        assert str(waiting.exception()).endswith("within 5 s")


@clause("QB-PY-11")
def test_the_faces_refuse_to_be_pickled_and_copied() -> None:
    """As with the objects they wrap (QB-ERR-10)."""
    with BrokerManager() as manager, queue_pair() as (left, _):
        for thing in (aio.wrap(left), aio.QueueBroker("b", manager=manager)):
            for act in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match="cannot pickle or copy"):
                    act(thing)


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
    read = os.eventfd_read
    sends: list[bytes] = []

    def eventfd_read(fd: int) -> int:
        if late:
            value = read(fd)
        for message in sends[:1]:
            sends.remove(message)
            right.send(message)
        return value if late else read(fd)

    with queue_pair(2, observer=KINDS[kind]) as (left, right):
        tasks = [loop.start(aio.wrap(left).receive()) for _ in range(2)]
        loop.run()
        monkeypatch.setattr(os, "eventfd_read", eventfd_read)
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
    told: list[tuple[Operation, Reason]] = []

    def observer(operation: Operation, *rest: Any) -> None:
        told.append((operation, rest[-1]))

    with queue_pair(observer=observer) as (left, right):
        told.clear()
        task = loop.start(aio.wrap(left).receive(timeout=5))
        loop.run()
        assert told == [(Operation.RECV_BEGIN, Reason.NONE)]
        acts: dict[str, tuple[Callable[[], object], Reason]] = {
            "message": (lambda: right.send(b"x"), Reason.NONE),
            "cancel": (task.cancel, Reason.INTERRUPTED),
            "hang-up": (right.disconnect, Reason.DISCONNECTED),
            "timeout": (lambda: loop.advance(5), Reason.TIMED_OUT),
        }
        act, reason = acts[ends]

        act()
        loop.run()

        assert told[-1] == (Operation.RECV_END, reason)
        assert [each for each, _ in told].count(Operation.RECV_END) == 1
        assert task.done()
        assert task.cancelled() or task.exception() or task.result() == b"x"
