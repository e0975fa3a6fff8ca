"""QB-SEND: the range of bytes that a send takes; arguments are checked first."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuebroker import DisconnectedQueueError, MessageTooLargeError
from specs.clauses import clause
from tests.pairs import queue_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import MessageQueue


class Index:
    """A number that is not an int but has `__index__`."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def _mapped(data: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    return mapped


# Ways to pass the same bytes; each takes 16 of them.
FORMS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "part of a view": lambda data: memoryview(b"--" + data + b"--")[2:18],
    "array of shorts": lambda data: array.array("H", data),
    "array of doubles": lambda data: array.array("d", data),
    "view of two dimensions": lambda data: memoryview(data).cast("B", (4, 4)),
    "view of three dimensions": lambda data: memoryview(data).cast("I", (2, 1, 2)),
    "ctypes array": (ctypes.c_uint32 * 4).from_buffer_copy,
    "mmap": _mapped,
}

SIZE = 16


@pytest.mark.deep
@clause("QB-SEND-1", "QB-SEND-3")
@pytest.mark.parametrize("form", FORMS)
@given(
    data=st.binary(min_size=SIZE, max_size=SIZE),
    offset=st.integers(0, SIZE),
    length=st.none() | st.integers(0, SIZE),
    wrap=st.booleans(),
)
def test_exactly_the_range_is_received_whatever_the_form(
    form: str, data: bytes, offset: int, length: int | None, wrap: bool
) -> None:
    """Bytes [offset, offset + length) of the flattened buffer are one message."""
    if length is not None:
        length = min(length, SIZE - offset)
    given_offset: Any = Index(offset) if wrap else offset
    given_length: Any = length if length is None or not wrap else Index(length)
    with queue_pair() as (left, right):
        left.send(FORMS[form](data), given_offset, given_length)

        received = right.receive()

    assert received == data[offset : None if length is None else offset + length]
    assert type(received) is bytes


@clause("QB-SEND-3")
@pytest.mark.parametrize(
    "data",
    [
        "text",
        memoryview(b"abcdef")[::2],
        memoryview(b"abcdef")[::-1],
        memoryview(bytes(16)).cast("B", (4, 4))[::2],
        3,
        None,
        [1, 2],
        pytest.param(Mock(spec=bytes), id="what only says it is bytes"),
    ],
)
def test_a_send_refuses_data_that_is_not_contiguous_bytes(data: Any) -> None:
    """A str, a view with gaps and an object without a buffer raise a TypeError."""
    with queue_pair() as (left, right):
        with pytest.raises(TypeError):
            left.send(data)

        assert right.pending == 0


@clause("QB-SEND-7")
def test_no_buffer_is_held_after_a_send_whatever_came_of_it() -> None:
    """After a send, successful or failed, the caller's buffer can be resized."""
    data = bytearray(b"before")
    with queue_pair(limit=6) as (left, right):
        left.send(data)
        data += b" and more"
        with pytest.raises(MessageTooLargeError):
            left.send(data)
        data += b" and more"
        with pytest.raises(ValueError, match="range outside"):
            left.send(data, 99)
        data.clear()

        assert right.receive() == b"before"


WRONG: dict[str, tuple[Callable[[MessageQueue], object], type[Exception]]] = {
    "data": (lambda end: end.send("text"), TypeError),  # type: ignore[arg-type] # under test
    "offset below": (lambda end: end.send(b"abc", -1), ValueError),
    "offset above": (lambda end: end.send(b"abc", 4), ValueError),
    "length below": (lambda end: end.send(b"abc", 0, -1), ValueError),
    "length above": (lambda end: end.send(b"abc", 1, 3), ValueError),
    "offset bool": (lambda end: end.send(b"abc", True), TypeError),
    "offset False": (lambda end: end.send(b"abc", False), TypeError),
    "length float": (lambda end: end.send(b"abc", 0, 1.0), TypeError),  # type: ignore[arg-type] # under test
    "timeout": (lambda end: end.send(b"abc", timeout=-1), ValueError),
    "timeout type": (lambda end: end.send(b"abc", timeout="1"), TypeError),  # type: ignore[arg-type] # under test
    "too large": (lambda end: end.send(b"abcde"), MessageTooLargeError),
    "nowait": (lambda end: end.send_nowait(b"abc", 2, 2), ValueError),
    "first of many": (lambda end: end.send_many([b"abcde"]), MessageTooLargeError),
    "many timeout": (lambda end: end.send_many([], timeout=-1), ValueError),
    "no iterable": (lambda end: end.send_many(5), TypeError),  # type: ignore[arg-type] # under test
    "receive timeout": (lambda end: end.receive(timeout=-1), ValueError),
    "limit": (lambda end: end.receive_many(0), ValueError),
    "limit type": (lambda end: end.receive_many(True), TypeError),
    "into": (lambda end: end.receive_into("text"), TypeError),  # type: ignore[arg-type] # under test
    "into timeout": (
        lambda end: end.receive_into(bytearray(9), timeout=-1),
        ValueError,
    ),
}


def _states() -> Iterator[tuple[str, MessageQueue]]:
    """Yield an end in each possible state, with the peer's buffer full if possible."""
    with queue_pair(limit=4) as (left, right):
        yield "connected", left
        left.send(b"full")
        yield "connected, full", left
        right.send(b"m")
        yield "connected, full, unread", left
        right.disconnect()
        yield "half-disconnected", left
        left.receive()
        yield "disconnected by the peer", left
        left.disconnect()
        yield "disconnected by both", left
        yield "disconnected first", right


@clause("QB-SEND-8")
@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_argument_is_found_before_anything_else(mistake: str) -> None:
    """In every state a wrong argument raises and changes nothing."""
    act, error = WRONG[mistake]
    states = 0
    for state, end in _states():
        before = (end.status, end.pending, end.stats())

        with pytest.raises(error) as caught:
            act(end)

        assert type(caught.value) is error, state
        assert (end.status, end.pending, end.stats()) == before, state
        states += 1
    assert states == 7


@clause("QB-SEND-10")
def test_a_poll_of_a_full_and_disconnected_end_is_refused() -> None:
    """With timeout 0 as well, the disconnect is raised, not the full buffer."""
    with queue_pair() as (left, _):
        left.send(b"1")
        left.disconnect()
        with pytest.raises(DisconnectedQueueError):
            left.send_nowait(b"2")
