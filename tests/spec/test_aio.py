"""QB-PY-11: the asyncio face has the same names with the same meaning."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import queuebroker
from queuebroker import Broker, BrokerManager, QueueBroker, aio
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.spec.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.stepped_loop import SteppedLoop


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
                    "object to wrap must be a MessageQueue or a QueueBroker,"
                    f" got {name}"
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
