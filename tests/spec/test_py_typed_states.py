"""QB-PY-12: the typed face reports the same as its end, in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from queuebroker import DisconnectedQueueError, QueueBrokerError
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.spec.typed import GOOD, READING, Reading, both_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import MessageQueue, Observer, TypedQueue


def _nothing(left: MessageQueue, right: MessageQueue) -> None:
    pass


def _full(left: MessageQueue, right: MessageQueue) -> None:
    left.send(GOOD)


def _half(left: MessageQueue, right: MessageQueue) -> None:
    right.send(GOOD)
    right.disconnect()


def _remote(left: MessageQueue, right: MessageQueue) -> None:
    right.disconnect()


def _local(left: MessageQueue, right: MessageQueue) -> None:
    left.disconnect()


def _abnormal(left: MessageQueue, right: MessageQueue) -> None:
    right.disconnect(OSError("disk full"))


LONG = Reading("a long name, longer than the limit", 0.0)
# Each call on an end, and its counterpart on the typed face.
CALLS: dict[
    str,
    tuple[Callable[[MessageQueue], object], Callable[[TypedQueue[Reading]], object]],
] = {
    "send": (
        lambda end: end.send(GOOD, timeout=0),
        lambda face: face.send(READING, timeout=0),
    ),
    "send_nowait": (
        lambda end: end.send_nowait(GOOD),
        lambda face: face.send_nowait(READING),
    ),
    "send_many": (
        lambda end: end.send_many([GOOD, GOOD], timeout=0),
        lambda face: face.send_many([READING] * 2, timeout=0),
    ),
    "too long": (
        lambda end: end.send(msgspec.msgpack.encode(LONG)),
        lambda face: face.send(LONG),
    ),
    "too long, second": (
        lambda end: end.send_many([GOOD, msgspec.msgpack.encode(LONG)], timeout=0),
        lambda face: face.send_many([READING, LONG], timeout=0),
    ),
    "receive": (
        lambda end: msgspec.msgpack.decode(end.receive(timeout=0), type=Reading),
        lambda face: face.receive(timeout=0),
    ),
    "receive_nowait": (
        lambda end: msgspec.msgpack.decode(end.receive_nowait(), type=Reading),
        lambda face: face.receive_nowait(),
    ),
    "timeout": (
        lambda end: end.receive(timeout=-1),
        lambda face: face.receive(timeout=-1),
    ),
    "disconnect": (
        lambda end: end.disconnect("oops"),  # type: ignore[arg-type] # under test
        lambda face: face.disconnect("oops"),  # type: ignore[arg-type] # under test
    ),
}


def _outcome(call: Callable[[Any], object], queue: object) -> object:
    """Return the result of a call, or all attributes of its error."""
    try:
        return call(queue)
    except (QueueBrokerError, TypeError, ValueError) as error:
        return type(error), str(error), vars(error), repr(error.__cause__)


@clause("QB-PY-12")
@both_kinds
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "prepare", [_nothing, _full, _half, _remote, _local, _abnormal]
)
def test_the_face_answers_as_the_end_does(
    observer: Observer | None,
    call: str,
    prepare: Callable[[MessageQueue, MessageQueue], None],
) -> None:
    """In every state it raises the same error: class, text, side, reason, cause."""
    on_end, on_face = CALLS[call]
    seen = []
    for typed in (False, True):
        with queue_pair(1, limit=50, observer=observer) as (left, right):
            prepare(left, right)
            said = (
                _outcome(on_face, left.of(Reading)) if typed else _outcome(on_end, left)
            )
            seen.append((said, left.status, left.stats(), right.pending))

    assert seen[0] == seen[1]


@clause("QB-PY-12")
def test_a_loop_over_the_face_raises_an_abnormal_disconnect() -> None:
    """It comes after the earlier messages, as in a loop over the end."""
    cause = OSError("disk full")
    with queue_pair(1) as (left, right):
        left.of(int).send(1)
        left.of(int).disconnect(cause)
        loop = iter(right.of(int))

        assert next(loop) == 1
        with pytest.raises(DisconnectedQueueError) as caught:
            next(loop)

    assert caught.value.__cause__ is cause
