"""QB-PY-12: handling of a message that does not decode to the type."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker import PayloadError
from specs.clauses import clause
from tests.pairs import queue_pair
from tests.spec.typed import GOOD, READING, Point, Reading, both_kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuebroker import Observer, TypedQueue


class Picky(msgspec.Struct):
    """A type that rejects 0 with an error unknown to msgspec."""

    value: int

    def __post_init__(self) -> None:
        if self.value == 0:
            raise KeyError


BAD: dict[str, tuple[Any, bytes]] = {
    "empty": (Reading, b""),
    "truncated": (Reading, GOOD[:-1]),
    "trailing": (Reading, GOOD + b"\x00"),
    "two": (Reading, GOOD + GOOD),
    "another type": (Reading, msgspec.msgpack.encode(Point(1, []))),
    "no MessagePack": (Reading, b"roof 21.5"),
    "wrong field": (Point, b"\x82\xa1x\xa11\xa4tags\x90"),
    "no UTF-8": (str, b"\xa2\xc3 "),
    "too deep": (Any, b"\x91" * 100_000),
    "refused by the class": (Picky, b"\x81\xa5value\x00"),
}
RECEIVES: dict[str, Callable[[TypedQueue[Any]], object]] = {
    "receive": lambda queue: queue.receive(),
    "receive, timeout": lambda queue: queue.receive(timeout=60),
    "receive_nowait": lambda queue: queue.receive_nowait(),
    "iteration": lambda queue: next(iter(queue)),
}


@clause("QB-PY-12")
@both_kinds
@pytest.mark.parametrize("receive", RECEIVES.values(), ids=list(RECEIVES))
@pytest.mark.parametrize(("wanted", "payload"), BAD.values(), ids=list(BAD))
def test_a_message_that_does_not_decode_raises_an_error_with_its_bytes(
    observer: Observer | None,
    wanted: Any,
    payload: bytes,
    receive: Callable[[TypedQueue[Any]], object],
) -> None:
    """PayloadError has its bytes; it counts as received and its place is free."""
    with queue_pair(1, observer=observer) as (left, right):
        left.send(payload)
        with pytest.raises(PayloadError) as caught:
            receive(right.of(wanted))

        assert caught.value.payload == payload
        assert caught.value.__cause__ is not None
        reported = f"{len(payload)} bytes from 'a' port 7 is no {wanted.__name__}: "
        assert reported in str(caught.value)
        assert (right.pending, right.stats().received) == (0, 1)
        left.send(GOOD, timeout=0)
        assert receive(right.of(Reading)) == READING


@clause("QB-PY-12")
@both_kinds
@given(payloads=st.lists(st.binary(max_size=3) | st.just(b"\x91\x01"), max_size=8))
def test_each_message_comes_out_as_an_object_or_as_payload(
    observer: Observer | None, payloads: list[bytes]
) -> None:
    """All come out in order: an undecodable message loses no other."""
    with queue_pair(8, observer=observer) as (left, right):
        left.send_many(payloads)
        left.disconnect()
        receiver = right.of(list[int])
        received: list[list[int] | bytes] = []
        while not receiver.disconnected():
            try:
                received.append(receiver.receive())
            except PayloadError as error:
                received.append(error.payload)

    assert received == [_decoded(payload) for payload in payloads]


def _decoded(payload: bytes) -> list[int] | bytes:
    try:
        return msgspec.msgpack.decode(payload, type=list[int])
    except ValueError:
        return payload


@clause("QB-PY-12")
@both_kinds
@pytest.mark.parametrize("again", [False, True], ids=["same loop", "new loop"])
def test_an_iteration_goes_on_after_a_bad_message(
    observer: Observer | None, again: bool
) -> None:
    """With the same iterator or a new one; it ends when the end disconnects."""
    with queue_pair(3, observer=observer) as (left, right):
        left.send_many([b"\x01", b"bad", b"\x02"])
        left.disconnect()
        numbers = right.of(int)
        loop = iter(numbers)

        assert next(loop) == 1
        with pytest.raises(PayloadError):
            next(loop)
        assert list(numbers if again else loop) == [2]
        assert list(numbers) == []
        assert right.disconnected()


@clause("QB-PY-12", "QB-ERR-7")
def test_a_payload_error_as_it_is_raised_survives() -> None:
    """It keeps its payload, between processes too."""
    with queue_pair() as (left, right):
        left.send(b"bad")
        with pytest.raises(PayloadError) as caught:
            right.of(Reading).receive()

    for twin in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert twin.payload == b"bad"
        assert str(twin) == str(caught.value)
